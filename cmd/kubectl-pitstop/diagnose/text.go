package diagnose

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"pitstop.dev/api/v1alpha1"
)

// Text returns the diagnosis for people: one line per question, those without an answer left
// out.
func (d Diagnosis) Text() string {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-14s%s\n", label+":", printers.EscapeTerminal(text))
		}
	}
	line("Pod", d.Namespace+"/"+d.Pod+on(d.Node))
	line("Unit", d.Unit)
	line("Now", d.Summary)
	if d.Since != nil && d.Stage != "" {
		line("Stage", fmt.Sprintf("%s for %s (since %s)", d.Stage, d.ago(d.Since.Time), d.Since.UTC().Format(time.RFC3339)))
	}
	line("Reason", join(string(d.Reason), d.Why))
	line("Agent says", d.Message)
	for _, g := range d.GPUs {
		line("GPU", gpuText(g))
	}
	for _, s := range d.Sick[:min(len(d.Sick), mostSick)] {
		line("Sick GPU", s.text())
		line("It means", s.Why)
		line("Remedy", s.Way)
		line("Traffic", s.Traffic)
	}
	if n := len(d.Sick) - mostSick; n > 0 {
		line("Sick GPU", fmt.Sprintf("and %d more Pods of the unit", n))
	}
	line("Way on", d.Way)
	line("Note", d.Note)
	if d.Next != nil {
		line("Deadline", fmt.Sprintf("%s: %s", d.until(d.Next.At.Time), d.Next.Then))
	}
	line("Gate", d.Gate)
	for _, h := range d.Holds {
		line("Hold", fmt.Sprintf("%s (%s): %s", h.Holder, h.Value, h.Way))
	}
	line("Agent", d.agentText())
	return b.String()
}

// gpuText says what one GPU held before the swap, what it holds now, and what that comes to.
func gpuText(g v1alpha1.GPUReport) string {
	verdict := string(g.Verdict)
	if verdict == "" {
		verdict = "no verdict yet"
	}
	return fmt.Sprintf("%s: %s before, %s now: %s", g.UUID, mib(g.Before), mib(g.After), verdict)
}

func mib(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprintf("%d MiB", *n)
}

func (d Diagnosis) agentText() string {
	switch d.Agent.State {
	case AgentAlive:
		return fmt.Sprintf("alive, seen %s ago", d.ago(d.Agent.Renewed.Time))
	case AgentDead:
		if d.Agent.Renewed == nil {
			return "none on this node (no Lease " + LeaseNamespace + "/" + v1alpha1.AgentLeaseName(d.Node) + ")"
		}
		return fmt.Sprintf("gone: last seen %s ago", d.ago(d.Agent.Renewed.Time))
	case AgentUnknown:
	}
	return "unknown"
}

func (d Diagnosis) ago(t time.Time) string {
	return duration.HumanDuration(max(0, d.Now.Sub(t)))
}

func (d Diagnosis) until(t time.Time) string {
	if left := t.Sub(d.Now.Time); left > 0 {
		return "in " + duration.HumanDuration(left)
	}
	return "now due"
}

func on(node string) string {
	if node == "" {
		return ""
	}
	return " on node " + node
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + b
}
