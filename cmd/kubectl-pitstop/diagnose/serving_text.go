package diagnose

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

// Text returns the diagnosis for people: first the whole, then a paragraph for each condition that
// says something, for each unit that waits, and for those that have not been started.
func (d ServingDiagnosis) Text() string {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-14s%s\n", label+":", printers.EscapeTerminal(text))
		}
	}
	line("ModelServing", d.Namespace+"/"+d.ModelServing)
	line("Now", d.Summary)
	line("Note", d.Note)
	line("Coordinator", d.coordinatorText())
	for _, c := range d.Conditions {
		b.WriteString("\n")
		line("Condition", fmt.Sprintf("%s=%s for %s (since %s)", c.Type, c.Status, d.ago(c.Since.Time), c.Since.UTC().Format(time.RFC3339)))
		line("Reason", join(string(c.Reason), c.Why))
		line("It says", c.Message)
		line("Way on", c.Way)
	}
	for _, w := range d.Waits {
		b.WriteString("\n")
		line("Unit", w.Unit+": "+w.Summary)
		if w.Since != nil {
			line(d.stageLine(w))
		}
		line("Reason", join(w.Reason, w.Why))
		line("It says", w.Message)
		line("Way on", w.Way)
		if w.Next != nil {
			line("Deadline", fmt.Sprintf("%s: %s", d.until(w.Next.At), w.Next.Then))
		}
	}
	if q := d.Queue; q != nil {
		b.WriteString("\n")
		if len(q.Next) > 0 {
			line("Not started", names(q.Next))
			line("Reason", q.Why)
			line("Way on", q.Way)
		}
		if len(q.Protected) > 0 {
			line("Protected", names(q.Protected)+": their ordinals are below the partition, so they keep their revision")
		}
	}
	return b.String()
}

func (d ServingDiagnosis) stageLine(w Wait) (label, text string) {
	since := fmt.Sprintf("%s (since %s)", d.ago(w.Since.Time), w.Since.UTC().Format(time.RFC3339))
	if w.Stage == "" {
		return "For", since
	}
	return "Stage", fmt.Sprintf("%s for %s, permit %s", w.Stage, since, w.Permit)
}

func (d ServingDiagnosis) coordinatorText() string {
	switch d.Coordinator.State {
	case AgentAlive:
		return fmt.Sprintf("alive, seen %s ago", d.ago(d.Coordinator.Renewed.Time))
	case AgentDead:
		if d.Coordinator.Renewed == nil {
			return "none (no Lease " + LeaseNamespace + "/" + CoordinatorLease + ")"
		}
		return fmt.Sprintf("gone: last seen %s ago", d.ago(d.Coordinator.Renewed.Time))
	case AgentUnknown:
	}
	return "unknown: the Lease " + LeaseNamespace + "/" + CoordinatorLease + " could not be read"
}

func (d ServingDiagnosis) ago(t time.Time) string {
	return duration.HumanDuration(max(0, d.Now.Sub(t)))
}

func (d ServingDiagnosis) until(t metav1.Time) string {
	if left := t.Sub(d.Now.Time); left > 0 {
		return "in " + duration.HumanDuration(left)
	}
	return "now due"
}
