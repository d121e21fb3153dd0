package v1alpha1

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Allows reports whether permit p includes stage permit q. An empty or unknown permit allows
// nothing.
func (p Permit) Allows(q Permit) bool {
	order := []Permit{PermitPrepare, PermitDrain, PermitSwap, PermitServe}
	return slices.Index(order, p) >= slices.Index(order, q) && slices.Contains(order, p)
}

// Ended reports whether nothing more happens at this stage unless a new attempt comes. Failed
// is not among them: it holds the Pod, and a missed deadline may come good.
func (s Stage) Ended() bool {
	return s == StageInService || s == StageRefused || s == StageCancelled
}

// Token identifies one attempt for ever: "<IPU UID>/<attempt>".
func Token(ipu types.UID, attempt int64) string {
	return string(ipu) + "/" + strconv.FormatInt(attempt, 10)
}

// Token identifies the attempt that the order is at.
func (u *InPlaceUpdate) Token() string { return Token(u.UID, u.Spec.Attempt) }

// ByHand reports whether a person made this order, for a Pod of no ServingGroup.
func (u *InPlaceUpdate) ByHand() bool { return u.Spec.ServingGroupUID == "" }

// Propagation is the propagation delay, with its default.
func (s *InPlaceUpdateSpec) Propagation() time.Duration { return seconds(s.PropagationSeconds, 3) }

// StopTimeout bounds the old containers' stop, with its default.
func (s *InPlaceUpdateSpec) StopTimeout() time.Duration { return seconds(s.StopTimeoutSeconds, 30) }

// ProgressDeadline bounds each stage that waits on the world, with its default.
func (s *InPlaceUpdateSpec) ProgressDeadline() time.Duration {
	return seconds(s.ProgressDeadlineSeconds, 1800)
}

// Timeout bounds the drain, with its default.
func (d *Drain) Timeout() time.Duration { return seconds(d.TimeoutSeconds, 300) }

func seconds(v *int32, fallback int32) time.Duration {
	if v == nil {
		return time.Duration(fallback) * time.Second
	}
	return time.Duration(*v) * time.Second
}
