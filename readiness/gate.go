package readiness

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// timeLayout keeps milliseconds: a delay counted from whole seconds is up to a second short.
const timeLayout = "2006-01-02T15:04:05.000Z"

// The parts of the gate's message. A message that our agent writes is, in full:
//
//	held by alice, inplace (token <token>): lowered <time>, acknowledged <time>, never served
const (
	wordHeldBy       = "held by "
	wordToken        = " (token "
	wordLowered      = "lowered "
	wordAcknowledged = "acknowledged "
	wordNeverServed  = "never served"
)

// A Gate is what the Pod's InService condition says.
type Gate struct {
	// Present: the condition exists. Absent is as good as False for kubelet.
	Present bool
	// Open: the condition is True.
	Open bool
	// Token is the attempt that lowered the gate. LoweredAt and AcknowledgedAt are that
	// attempt's alone. Empty: no attempt did, or the message is not ours.
	Token string
	// LoweredAt is when that attempt lowered the gate, to the millisecond. Zero: unknown.
	LoweredAt time.Time
	// AcknowledgedAt is when kubelet's answer was seen. Zero: not yet, or unknown.
	AcknowledgedAt time.Time
	// NeverServed: the gate has not been True since the Pod was created.
	NeverServed bool
}

// GateOf returns what the Pod's InService condition says. Of a message that our agent did not
// write it returns no token, no times, and not NeverServed.
func GateOf(pod *corev1.Pod) Gate {
	c := condition(pod, v1alpha1.InService)
	if c == nil {
		return Gate{NeverServed: HasGate(pod)}
	}
	var g Gate
	if c.Status == corev1.ConditionFalse {
		_, g = parseMessage(c.Message)
	}
	g.Present = true
	g.Open = c.Status == corev1.ConditionTrue
	return g
}

// message is the text of a closed gate, for people and for parseMessage.
func (g Gate) message(holders []string) string {
	var b strings.Builder
	b.WriteString(wordHeldBy + strings.Join(holders, ", "))
	if g.Token != "" {
		b.WriteString(wordToken + g.Token + ")")
	}
	var details []string
	if !g.LoweredAt.IsZero() {
		details = append(details, wordLowered+g.LoweredAt.UTC().Format(timeLayout))
	}
	if !g.AcknowledgedAt.IsZero() {
		details = append(details, wordAcknowledged+g.AcknowledgedAt.UTC().Format(timeLayout))
	}
	if g.NeverServed {
		details = append(details, wordNeverServed)
	}
	if len(details) > 0 {
		b.WriteString(": " + strings.Join(details, ", "))
	}
	return b.String()
}

// parseMessage is the inverse of message. Anything that message would not have written gives
// nothing at all: half a memory is worse than none.
func parseMessage(text string) (holders []string, g Gate) {
	head, details, _ := strings.Cut(strings.TrimPrefix(text, wordHeldBy), ": ")
	if names, token, ok := strings.Cut(head, wordToken); ok {
		head, g.Token = names, strings.TrimSuffix(token, ")")
	}
	holders = strings.Split(head, ", ")
	for detail := range strings.SplitSeq(details, ", ") {
		if at, ok := strings.CutPrefix(detail, wordLowered); ok {
			g.LoweredAt, _ = time.Parse(timeLayout, at)
		} else if at, ok := strings.CutPrefix(detail, wordAcknowledged); ok {
			g.AcknowledgedAt, _ = time.Parse(timeLayout, at)
		} else if detail == wordNeverServed {
			g.NeverServed = true
		}
	}
	if g.message(holders) != text || slices.Contains(holders, "") {
		return nil, Gate{}
	}
	return holders, g
}
