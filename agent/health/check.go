// Package health looks at a node and says how it is: its runtime, kubelet, device plugins, disk, the agent's journal,
// the probe of the GPUs, and these themselves.
//
// A Monitor reads the GPUs again and again, has gpu/health judge them, and reports on the Node and on the gated Pods that
// were given GPUs. It writes only what has changed, and nothing at all where there are no GPUs. What it could not find
// out is Unknown; a check never fails because it could not be made.
package health

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"pitstop.dev/agent/health/states"
)

const (
	// checkFor bounds all that is asked of a node for one answer. node-problem-detector gives its plugins 5 s.
	checkFor = 3 * time.Second
	// lookFor bounds one look, so that one that ends with its context is in time to say what it found.
	lookFor = checkFor - 250*time.Millisecond
	// mostLine is where node-problem-detector cuts what a plugin prints.
	mostLine = 80
)

// A Check looks at one thing. Look returns when its context ends, which it does when nobody waits any more, and is not called
// while it looks.
type Check struct {
	Name string
	Look func(context.Context) (states.Status, string)
}

// Checks are made side by side.
type Checks struct {
	list  []Check
	looks guard[states.Check]
}

// NewChecks returns checks to be made in that order.
func NewChecks(list ...Check) *Checks { return &Checks{list: list} }

// Run makes all checks. One that does not come back in time is Unknown.
func (c *Checks) Run(ctx context.Context) []states.Check {
	ctx, cancel := context.WithTimeout(ctx, checkFor)
	defer cancel()
	out := make([]states.Check, len(c.list))
	var wg sync.WaitGroup
	for i, check := range c.list {
		wg.Go(func() {
			found, done := c.looks.within(ctx, check.Name, func(look context.Context) states.Check {
				status, text := check.Look(look)
				return states.Check{Name: check.Name, Status: status, Message: text}
			})
			if !done {
				found = states.Check{Name: check.Name, Status: states.Unknown, Message: fmt.Sprintf("no answer within %s", checkFor)}
			}
			out[i] = found
		})
	}
	wg.Wait()
	return out
}

// Sum returns the worst outcome, and what there is to say about it in one line of at most 80 characters.
func Sum(checks []states.Check) (states.Status, string) {
	for _, status := range []states.Status{states.Problem, states.Unknown} {
		var texts []string
		for _, c := range checks {
			if c.Status == status {
				texts = append(texts, c.Name+": "+c.Message)
			}
		}
		if len(texts) > 0 {
			return status, line(strings.Join(texts, "; "))
		}
	}
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
	}
	return states.OK, line("ok: " + strings.Join(names, ", "))
}

// line makes one line of text that fits.
func line(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if utf8.RuneCountInString(text) <= mostLine {
		return text
	}
	return string([]rune(text)[:mostLine-3]) + "..."
}

// ExitCode is what a plugin of node-problem-detector ends with.
func ExitCode(s states.Status) int {
	switch s {
	case states.OK:
		return 0
	case states.Problem:
		return 1
	case states.Unknown:
	}
	return 2
}
