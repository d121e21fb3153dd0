package verb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/ask"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// A request is what a verb asks of the controller of a ModelServing, and how its answer is told.
type request struct {
	ask.Request
	wait    bool
	timeout time.Duration
	format  format
}

// How long is waited for an answer, and for the end of what was asked for.
const (
	answerTimeout = 15 * time.Second
	endTimeout    = time.Hour
)

func (r *request) addFlags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&r.timeout, "timeout", 0, "how long to wait at most: for the controller's answer (default 15s), or with --wait for the end (default 1h)")
	addOutputFlag(cmd, &r.format)
}

func (r *request) addWaitFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.wait, "wait", false, "show the stages of the unit and end with its update, and with its exit code")
}

// An answered is what these verbs print as JSON.
type answered struct {
	Namespace    string                  `json:"namespace"`
	ModelServing string                  `json:"modelServing"`
	Verb         v1alpha1.Verb           `json:"verb"`
	Unit         string                  `json:"unit,omitempty"`
	ID           string                  `json:"id"`
	Outcome      v1alpha1.RequestOutcome `json:"outcome"`
	Message      string                  `json:"message"`
}

// ofUnit asks for a verb of a unit, and tells what came of it.
func (c *cli) ofUnit(ctx context.Context, cl *cluster, s ask.Subject, r request) error {
	sg, err := cl.group(ctx, s.Group)
	if err != nil {
		return err
	}
	owner := metav1.GetControllerOf(sg)
	if owner == nil {
		return &order.RefusalError{Object: "servinggroup " + cl.namespace + "/" + s.Group, Why: "belongs to no ModelServing"}
	}
	r.ID, r.Unit = c.NewID(), s.Unit()
	asked, err := c.ask(ctx, cl, owner.Name, r)
	if err != nil {
		return err
	}
	if !r.wait {
		return c.tell(asked, r)
	}
	if err := c.awaitUnit(ctx, cl, s, r); err != nil {
		return err
	}
	return c.tell(asked, r)
}

func (c *cli) tell(a answered, r request) error {
	if r.format == formatJSON {
		return printJSON(c.Streams.Out, a)
	}
	subject := a.Unit
	if subject == "" {
		subject = "modelserving " + a.Namespace + "/" + a.ModelServing
	}
	fmt.Fprintf(c.Streams.Out, "%s: %s\n", subject, a.Message)
	if !r.wait {
		fmt.Fprintf(c.Streams.Out, "follow it with `kubectl pitstop get %s -n %s`\n", a.ModelServing, a.Namespace)
	}
	return nil
}

// group returns the ServingGroup of this name.
func (c *cluster) group(ctx context.Context, name string) (*v1alpha1.ServingGroup, error) {
	sg, err := get[v1alpha1.ServingGroup](ctx, c, v1alpha1.ServingGroups, name)
	if apierrors.IsNotFound(err) {
		return nil, &order.RefusalError{
			Object: "servinggroup " + c.namespace + "/" + name,
			Why:    "does not exist",
			Way:    "a unit is SERVINGGROUP or SERVINGGROUP/ROLE-N: `kubectl pitstop get -n " + c.namespace + "` lists them",
		}
	}
	return sg, err
}

// askTries bounds how often a request is written anew because the status of the ModelServing changed in between.
const askTries = 20

// ask writes the request, waits for the answer and returns it; a refusal is an *order.RefusalError.
func (c *cli) ask(ctx context.Context, cl *cluster, serving string, r request) (answered, error) {
	ms, err := c.write(ctx, cl, serving, r)
	if err != nil {
		return answered{}, err
	}
	a, err := c.awaitAnswer(ctx, cl, ms, r)
	if err != nil {
		return answered{}, err
	}
	if a.Outcome == v1alpha1.RequestRefused {
		subject := a.Unit
		if subject == "" {
			subject = "modelserving " + ms.Namespace + "/" + ms.Name
		}
		return answered{}, &order.RefusalError{Object: fmt.Sprintf("%s %s", r.Verb, subject), Why: "is refused: " + a.Message}
	}
	return answered{ms.Namespace, ms.Name, r.Verb, r.Unit, r.ID, a.Outcome, a.Message}, nil
}

func (c *cli) write(ctx context.Context, cl *cluster, serving string, r request) (*v1alpha1.ModelServing, error) {
	var first *v1alpha1.ModelServing
	for try := 1; ; try++ {
		ms, _, err := cl.serving(ctx, serving)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = ms
		}
		if ms.UID != first.UID {
			return nil, changed(cl, serving)
		}
		patch, err := ask.Patch(ms, r.Request)
		if err != nil {
			return nil, err
		}
		written, err := cl.patchServing(ctx, serving, patch, metav1.PatchOptions{})
		var conflict *order.ConflictError
		if errors.As(err, &conflict) && try < askTries {
			continue
		}
		return written, err
	}
}

// awaitAnswer waits until the controller has refused the request, or begun.
func (c *cli) awaitAnswer(ctx context.Context, cl *cluster, ms *v1alpha1.ModelServing, r request) (*v1alpha1.RequestStatus, error) {
	limit := answerTimeout
	if r.timeout > 0 && !r.wait {
		limit = r.timeout
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var answer *v1alpha1.RequestStatus
	see := func(e watch.Event) (bool, error) {
		now, err := seen[v1alpha1.ModelServing](e)
		if err != nil {
			return false, err
		}
		if e.Type == watch.Deleted || now.UID != ms.UID {
			return false, changed(cl, ms.Name)
		}
		answer = ask.AnswerTo(now, r.Request)
		return answer != nil && answer.Outcome != v1alpha1.RequestAccepted, nil
	}
	err := cl.watch(bounded, c.Clock, v1alpha1.ModelServings, selection{ms.Namespace, ms.Name}, sight{see, func() {}})
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("modelserving %s/%s: no coordinator has answered the request; it is answered once one runs (`kubectl -n pitstop-system get pods`), or take it back: `%s`",
			ms.Namespace, ms.Name, ask.TakeBack(ms, r.Verb))
	}
	return answer, err
}

// awaitUnit shows the stages of the unit until what was asked for has ended.
func (c *cli) awaitUnit(ctx context.Context, cl *cluster, s ask.Subject, r request) error {
	limit := endTimeout
	if r.timeout > 0 {
		limit = r.timeout
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := ""
	see := func(e watch.Event) (bool, error) {
		sg, err := seen[v1alpha1.ServingGroup](e)
		if err != nil {
			return false, err
		}
		if e.Type == watch.Deleted {
			return false, fmt.Errorf("servinggroup %s/%s was deleted", sg.Namespace, sg.Name)
		}
		text, ended, err := ask.Progress(sg, s.Part, r.Request)
		if text != "" && text != last {
			fmt.Fprintf(c.Streams.ErrOut, "%s %s\n", c.Clock.Now().UTC().Format(time.TimeOnly), text)
			last = text
		}
		return ended, err
	}
	err := cl.watch(bounded, c.Clock, v1alpha1.ServingGroups, selection{cl.namespace, s.Group}, sight{see, func() {}})
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("unit %s is at stage %q when the wait ended; it goes on without this command", r.Unit, last)
	}
	return err
}

func seen[T any](e watch.Event) (*T, error) {
	object, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("watch: unexpected %T", e.Object)
	}
	return decode[T](object)
}
