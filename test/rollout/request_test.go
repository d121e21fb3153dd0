//go:build lab

package rollout

import (
	"strings"
	"testing"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/rollout/record"
)

// of are those of the Pods that belong to a group.
func of(group string, pods map[string]string) map[string]string {
	out := map[string]string{}
	for name, is := range pods {
		if strings.HasPrefix(name, group+"-") {
			out[name] = is
		}
	}
	return out
}

// recreated fails the test unless every Pod of the group is another one than before, and every other Pod the same.
func (p *play) recreated(group string, before map[string]string) map[string]string {
	p.t.Helper()
	after := p.kept()
	for name, was := range of(group, before) {
		if after[name] == was || after[name] == "" {
			p.t.Errorf("%s was not created anew: %s, %s", name, was, after[name])
		}
		delete(before, name)
	}
	rest := map[string]string{}
	for name := range before {
		rest[name] = after[name]
	}
	want(p.t, "Pods of the other groups", before, rest)
	return after
}

func TestAUnitIsRecreatedOnRequest(t *testing.T) {
	t.Parallel()
	p := newPlay(t, "anew", inPlace(), record.Rules{MaxUnavailable: 1})
	before := p.kept()
	p.edits(func(s *v1alpha1.ModelServingSpec) { s.Paused = true })
	p.verb(0, "created anew at revision", "recreate", "anew-1", "--wait")
	before = p.recreated("anew-1", before)
	want(t, "images", map[string]int{img.v1: 12}, p.images("0", "1", "2", "3"))
	p.verb(1, "", "recreate", "anew-1/decode-0") // it is no unit
	p.verb(1, "", "cancel", "anew-1")            // it is in no update

	p.edits(func(s *v1alpha1.ModelServingSpec) {
		s.Paused = false
		image(img.bad)(s)
	})
	p.blocked(v1alpha1.BlockedFailed)
	failed := p.waits(func(*v1alpha1.ModelServing) bool { return true }).Status.Updating[0]
	p.verb(0, "kubectl pitstop recreate "+failed, "explain", "ms/anew")
	p.verb(1, "", "cancel", failed) // it is too late
	p.verb(0, "created anew at revision", "recreate", failed)
	p.waits(func(*v1alpha1.ModelServing) bool {
		now := of(failed, p.kept())
		for name, was := range of(failed, before) {
			if now[name] == was || now[name] == "" {
				return false
			}
		}
		return p.images(strings.TrimPrefix(failed, "anew-"))[img.bad] == 3
	})
	p.rolls(image(img.v1))
	p.recreated(failed, before)
	want(t, "images", map[string]int{img.v1: 12}, p.images("0", "1", "2", "3"))
}

func TestACancelledUnitGoesBackAndOthersGoOn(t *testing.T) {
	t.Parallel()
	strategy := inPlace()
	strategy.Drain = v1alpha1.Drain{Mode: v1alpha1.DrainDelay, TimeoutSeconds: new(int32(8))}
	p := newPlay(t, "cancel", strategy, whole())
	before := p.kept()
	p.edits(image(img.v2))
	ms := p.waits(func(ms *v1alpha1.ModelServing) bool { return len(ms.Status.Updating) > 0 })
	unit := ms.Status.Updating[0]
	p.verb(0, "goes back in service", "cancel", unit, "--wait")
	p.waits(func(ms *v1alpha1.ModelServing) bool { return ms.Status.UpdatedReplicas == 1 })
	want(t, "images of the one that was cancelled", map[string]int{img.v1: 3}, p.images(strings.TrimPrefix(unit, "cancel-")))
	p.verb(0, "CancelledByUser", "explain", "ms/cancel")
	p.waits(func(ms *v1alpha1.ModelServing) bool {
		return ms.Status.UpdatedReplicas == 3 && len(ms.Status.Updating) == 0
	})
	p.verb(0, "tried again now: "+unit, "retry", "cancel")
	p.waits(cluster.Complete)
	want(t, "images", map[string]int{img.v2: 12}, p.images("0", "1", "2", "3"))
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnce(), p.restarts())
}
