// Package timeline shows how updates move: the stages of one as they are reached, with their
// durations, and many as a table. It is pure: it is fed with objects and times and returns text.
package timeline

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"pitstop.dev/api/v1alpha1"
)

// A Timeline follows one InPlaceUpdate. The zero value has seen nothing. Differences between
// stages are taken from the agent's own times and the rest from the viewer's clock, so that a
// clock that is wrong on either side distorts no duration.
type Timeline struct {
	attempt int64
	stage   v1alpha1.Stage
	reason  v1alpha1.Reason
	message string
	start   time.Time     // the agent's time of the first line
	seen    time.Time     // the viewer's time of the last line
	offset  time.Duration // of the last line from the first
}

// Observe takes in a state of the update and returns the lines that it adds.
func (t *Timeline) Observe(u *v1alpha1.InPlaceUpdate, now time.Time) []string {
	var lines []string
	joined := u.Spec.Attempt != t.attempt
	if joined {
		*t = Timeline{attempt: u.Spec.Attempt, seen: now}
		lines = append(lines, heading(u))
	}
	if u.Status.Attempt != u.Spec.Attempt || u.Status.Stage == "" {
		return lines
	}
	t.message = u.Status.Message
	if u.Status.Stage == t.stage && u.Status.Reason == t.reason {
		return lines
	}
	offset := max(t.offset, t.at(u, now))
	took := offset - t.offset
	t.offset, t.seen, t.stage, t.reason = offset, now, u.Status.Stage, u.Status.Reason
	if since := u.Status.StageSince; joined && since != nil && since.Time.Before(now) {
		t.seen = since.Time // seen for the first time in the middle of the stage
	}
	return append(lines, line(t.offset, string(t.stage), took, t.note()))
}

// Live returns the line for what is under way now. It changes with the clock.
func (t *Timeline) Live(now time.Time) string {
	waited := max(0, now.Sub(t.seen))
	if t.stage == "" {
		return line(waited, "...", waited, "the agent has not taken up the order yet")
	}
	return line(t.offset+waited, "...", waited, t.note())
}

// at returns the offset of the state u from the first line. A stage is placed by the agent's
// time, a new reason within a stage by the viewer's.
func (t *Timeline) at(u *v1alpha1.InPlaceUpdate, now time.Time) time.Duration {
	if u.Status.Stage == t.stage || u.Status.StageSince == nil {
		return t.offset + now.Sub(t.seen)
	}
	since := u.Status.StageSince.Time
	if t.start.IsZero() {
		t.start = since.Add(-max(0, now.Sub(t.seen)))
	}
	return since.Sub(t.start)
}

func (t *Timeline) note() string {
	switch {
	case t.reason == "":
		return t.message
	case t.message == "":
		return string(t.reason)
	}
	return string(t.reason) + ": " + t.message
}

func heading(u *v1alpha1.InPlaceUpdate) string {
	var changes []string
	for _, c := range u.Spec.Containers {
		changes = append(changes, c.Name+"="+c.Image)
	}
	if len(changes) == 0 {
		changes = []string{"no image changes"}
	}
	return printers.EscapeTerminal(fmt.Sprintf("pod %s/%s, attempt %d: %s", u.Namespace, u.Name, u.Spec.Attempt, strings.Join(changes, " ")))
}

func line(offset time.Duration, stage string, took time.Duration, note string) string {
	text := fmt.Sprintf("%8s  %-10s %8s  %s", brief(offset), stage, "+"+brief(took), printers.EscapeTerminal(note))
	return strings.TrimRight(text, " ")
}

// brief writes a duration with as many places as one can read while it grows.
func brief(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
