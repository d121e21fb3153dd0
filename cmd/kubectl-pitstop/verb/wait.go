package verb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/diagnose"
	"pitstop.dev/cmd/kubectl-pitstop/order"
	"pitstop.dev/cmd/kubectl-pitstop/timeline"
)

// A report says how the result of an order is told: at once or after its end, and in which form.
type report struct {
	wait    bool
	timeout time.Duration
	format  format
}

func (r *report) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.wait, "wait", false, "show the stages and end with the update, and with its exit code")
	cmd.Flags().DurationVar(&r.timeout, "timeout", time.Hour, "with --wait: how long to wait at most; the update goes on without it")
	addOutputFlag(cmd, &r.format)
}

// ordered tells what came of u, which was just written. good says of an ended
// attempt whether it came to what it was made for.
func (c *cli) ordered(ctx context.Context, cl *cluster, u *v1alpha1.InPlaceUpdate, r report, good func(*v1alpha1.InPlaceUpdate) bool) error {
	c.warnOfDeadAgent(ctx, cl, u)
	if !r.wait {
		if r.format == formatJSON {
			return printJSON(c.Streams.Out, u)
		}
		fmt.Fprintf(c.Streams.Out, "attempt %d ordered; follow it with `kubectl pitstop status %s -n %s --watch`\n", u.Spec.Attempt, u.Name, u.Namespace)
		return nil
	}
	stages := c.Streams.Out
	if r.format == formatJSON {
		stages = c.Streams.ErrOut
	}
	w := &waiter{screen: newScreen(stages), clock: c.Clock, attempt: u.Spec.Attempt}
	bounded, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err := cl.follow(bounded, c.Clock, selection{u.Namespace, u.Name}, w)
	w.screen.clear()
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return c.gaveUp(context.WithoutCancel(ctx), cl, u, err)
	}
	if err != nil {
		return err
	}
	if r.format == formatJSON {
		if err := printJSON(c.Streams.Out, w.last); err != nil {
			return err
		}
	} else {
		fmt.Fprint(stages, timeline.Summary(w.last))
	}
	if good(w.last) {
		return nil
	}
	return bad(w.last)
}

// gaveUp tells why the update has not ended yet.
func (c *cli) gaveUp(ctx context.Context, cl *cluster, u *v1alpha1.InPlaceUpdate, cause error) error {
	if f, err := cl.facts(ctx, u.Name, c.Clock.Now()); err == nil {
		fmt.Fprint(c.Streams.ErrOut, diagnose.Diagnose(f).Text())
	}
	what := "not ended when --timeout was over"
	if errors.Is(cause, context.Canceled) {
		what = "not ended when the wait was interrupted"
	}
	return fmt.Errorf("attempt %d for pod %s/%s has %s; it goes on without this command", u.Spec.Attempt, u.Namespace, u.Name, what)
}

func (c *cli) warnOfDeadAgent(ctx context.Context, cl *cluster, u *v1alpha1.InPlaceUpdate) {
	lease, unknown := cl.lease(ctx, v1alpha1.AgentLeaseName(u.Spec.NodeName))
	if !unknown && diagnose.AgentOf(lease, c.Clock.Now()).State == diagnose.AgentDead {
		text, _ := diagnose.Explain(v1alpha1.WaitingAgent)
		fmt.Fprintf(c.Streams.ErrOut, "warning: node %s has no live agent, so the order waits; it goes on when %s\n", u.Spec.NodeName, text.Way)
	}
}

// bad says how an attempt ended that did not come to what it was made for.
func bad(u *v1alpha1.InPlaceUpdate) error {
	var b strings.Builder
	fmt.Fprintf(&b, "attempt %d for pod %s/%s ended as %s", u.Spec.Attempt, u.Namespace, u.Name, u.Status.Stage)
	if u.Status.Reason != "" {
		fmt.Fprintf(&b, " (%s)", u.Status.Reason)
	}
	if u.Status.Message != "" {
		fmt.Fprintf(&b, ": %s", u.Status.Message)
	}
	if text, ok := diagnose.Explain(u.Status.Reason); ok {
		fmt.Fprintf(&b, "\n%s; %s", text.Why, text.Way)
	}
	return errors.New(b.String())
}

// A waiter shows one attempt until its end.
type waiter struct {
	screen  *screen
	clock   clock.Clock
	attempt int64
	line    timeline.Timeline
	last    *v1alpha1.InPlaceUpdate
}

func (w *waiter) changed(u *v1alpha1.InPlaceUpdate) (bool, error) {
	object := fmt.Sprintf("attempt %d for pod %s/%s", w.attempt, u.Namespace, u.Name)
	switch {
	case u.Spec.Attempt < w.attempt: // an older state than the one just written
		return false, nil
	case u.Spec.Attempt > w.attempt:
		return false, &order.ConflictError{Object: object, Why: fmt.Sprintf("was superseded by attempt %d", u.Spec.Attempt), Way: "someone else ordered it: see `kubectl pitstop status " + u.Name + "`"}
	}
	w.last = u
	w.screen.print(w.line.Observe(u, w.clock.Now())...)
	return u.Status.Attempt == w.attempt && (u.Status.Stage.Ended() || u.Status.Stage == v1alpha1.StageFailed), nil
}

func (w *waiter) gone(u *v1alpha1.InPlaceUpdate) (bool, error) {
	return false, fmt.Errorf("the order for pod %s/%s was deleted, or its Pod was", u.Namespace, u.Name)
}

func (w *waiter) tick() {
	if w.last != nil {
		w.screen.draw(w.line.Live(w.clock.Now()))
	}
}
