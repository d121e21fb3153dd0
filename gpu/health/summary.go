package health

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// mostMessage bounds the message of a summary, in bytes.
const mostMessage = 512

// A Summary says how several GPUs are together: as the worst of them is.
type Summary struct {
	Status  corev1.ConditionStatus
	Reason  v1alpha1.GPUReason
	Message string
	// Lost are the UUIDs of those that do not answer any more.
	Lost []string
}

// Of returns the verdicts on the GPUs with these UUIDs, which may be those of MIG devices, and the UUIDs of which
// there is none.
func Of(all []Verdict, uuids []string) (some []Verdict, missing []string) {
	for _, uuid := range uuids {
		i := slices.IndexFunc(all, func(v Verdict) bool { return v.UUID == uuid || slices.Contains(v.MIG, uuid) })
		switch {
		case i < 0:
			missing = append(missing, uuid)
		case !slices.ContainsFunc(some, func(v Verdict) bool { return v.UUID == all[i].UUID }):
			some = append(some, all[i])
		}
	}
	return some, missing
}

// Sum sums verdicts up. missing are GPUs that should be there and are not known. Of no GPUs at all nothing is known.
func Sum(verdicts []Verdict, missing []string) Summary {
	s := Summary{Status: corev1.ConditionUnknown, Reason: v1alpha1.GPUUnknownUnread}
	for _, v := range verdicts {
		if v.Lost {
			s.Lost = append(s.Lost, v.UUID)
		}
	}
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown, corev1.ConditionTrue} {
		some := slices.Clone(verdicts)
		some = slices.DeleteFunc(some, func(v Verdict) bool { return v.Status != status })
		var texts []string
		if status == corev1.ConditionUnknown {
			for _, uuid := range missing {
				texts = append(texts, uuid+": is not among the GPUs of the node")
			}
		}
		if len(some)+len(texts) == 0 {
			continue
		}
		s.Status = status
		if len(some) > 0 {
			s.Reason = gravest(some)
		}
		for _, v := range some {
			if text := v.text(); text != "" {
				texts = append(texts, text)
			}
		}
		s.Message = bound(texts)
		return s
	}
	return s
}

// gravest returns the first reason in the order of severity; those that are not in it count in the order given.
func gravest(some []Verdict) v1alpha1.GPUReason {
	for _, r := range severity() {
		if slices.ContainsFunc(some, func(v Verdict) bool { return v.Reason == r }) {
			return r
		}
	}
	return some[0].Reason
}

// text is the verdict in words; empty if there is nothing to say.
func (v Verdict) text() string {
	words := v.Notes
	if v.Message != "" {
		words = append([]string{v.Message}, words...)
	}
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf("GPU %d (%s): %s", v.Index, v.UUID, strings.Join(words, "; "))
}

// bound joins texts, and leaves out at the end what would be too much.
func bound(texts []string) string {
	out := ""
	for i, t := range texts {
		rest := fmt.Sprintf(", and %d more", len(texts)-i)
		if i > 0 {
			t = ", " + t
		}
		if len(out)+len(t)+len(rest) > mostMessage {
			if i == 0 {
				return strings.ToValidUTF8(t[:min(len(t), mostMessage)], "")
			}
			return out + rest
		}
		out += t
	}
	return out
}
