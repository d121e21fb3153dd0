package health

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
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
	// Gone: the node has no driver, and no GPU is known. What was said of some is void.
	Gone bool
	// Lost are the UUIDs of those that do not answer any more.
	Lost []string
}

// Of returns the verdicts on the GPUs with these UUIDs, which may be those of MIG devices, and the UUIDs of which
// there is none.
func Of(all []Verdict, uuids []string) (some []Verdict, missing []string) {
	for _, uuid := range uuids {
		i := slices.IndexFunc(all, func(v Verdict) bool { return uuid != "" && (v.UUID == uuid || slices.Contains(v.MIG, uuid)) })
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
	return sum(verdicts, missing, func(v Verdict) string { return fmt.Sprintf("%d (%s)", v.Index, v.UUID) })
}

// Brief sums verdicts up with the indexes of GPUs alone, for a line that is short.
func Brief(verdicts []Verdict) Summary {
	return sum(verdicts, nil, func(v Verdict) string { return strconv.Itoa(v.Index) })
}

func sum(verdicts []Verdict, missing []string, name func(Verdict) string) Summary {
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
		if gravestFirst(some); len(some) > 0 {
			s.Reason = some[0].Reason
		}
		s.Message = bound(append(texts, said(some, name)...))
		return s
	}
	return s
}

// gravestFirst orders verdicts by how grave their reasons are, so that a message begins with what its reason says.
func gravestFirst(some []Verdict) {
	order := severity()
	rank := func(v Verdict) int {
		if i := slices.Index(order, v.Reason); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(some, func(a, b Verdict) int { return cmp.Compare(rank(a), rank(b)) })
}

// said puts verdicts into words, those of which the same is to be said together. Of some there is nothing to say.
func said(some []Verdict, name func(Verdict) string) []string {
	var texts []string
	names := map[string][]string{}
	for _, v := range some {
		text := v.text()
		if text == "" {
			continue
		}
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], name(v))
	}
	for i, text := range texts {
		kind := "GPU "
		if len(names[text]) > 1 {
			kind = "GPUs "
		}
		texts[i] = kind + strings.Join(names[text], ", ") + ": " + text
	}
	return texts
}

// text is the verdict in words; empty if there is nothing to say.
func (v Verdict) text() string {
	words := v.Notes
	if v.Message != "" {
		words = append([]string{v.Message}, words...)
	}
	return strings.Join(words, "; ")
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
