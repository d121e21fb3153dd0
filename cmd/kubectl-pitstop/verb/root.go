// Package verb is the command line of kubectl-pitstop: a file per verb. What a verb decides is
// in the packages order, diagnose and timeline; here flags are read, objects fetched and
// written, and results printed.
//
// Exit codes: 0 done, 1 failed or refused, 2 used wrongly, 3 conflict (the objects are not, or
// no longer, those that the command is about).
package verb

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// The exit codes.
const (
	Done     = 0
	Failed   = 1
	Usage    = 2
	Conflict = 3
)

// An Env is what the commands need from outside.
type Env struct {
	Streams genericiooptions.IOStreams
	Clock   clock.WithTicker
	// NewID returns an id that was never used before.
	NewID   func() string
	Version string
	// Connect makes the clients that the kubeconfig flags ask for.
	Connect func(genericclioptions.RESTClientGetter) (Clients, error)
}

// Execute runs one command line and returns the exit code. Errors are printed to the error
// stream.
func Execute(ctx context.Context, args []string, env Env) int {
	root := newRoot(env) //nolint:contextcheck // cobra hands the context to each verb
	root.SetArgs(args)
	root.SetIn(env.Streams.In)
	root.SetOut(env.Streams.Out)
	root.SetErr(env.Streams.ErrOut)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(env.Streams.ErrOut, "error:", err)
	}
	return exitCode(err)
}

func newRoot(env Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-pitstop",
		Short: "Upgrade LLM-serving Pods, and see why they wait",
		Long: "See where ModelServings and their Pods stand, and update the images of running Pods in place: the Pod keeps its UID, IP, " +
			"node, GPUs and volumes, and only the changed containers restart, out of traffic.\n\n" +
			"Exit codes: 0 done, 1 failed or refused, 2 used wrongly, 3 conflict.",
		Version:       env.Version,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl pitstop"},
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("kubectl pitstop {{.Version}}\n")
	flags := genericclioptions.NewConfigFlags(true)
	flags.AddFlags(root.PersistentFlags())
	c := &cli{Env: env, flags: flags}
	root.AddCommand(
		newGet(c), newExplain(c), newHistory(c), newUndo(c), newPause(c), newResume(c),
		newRecreate(c), newCancel(c), newRetry(c),
		newUpdate(c), newStatus(c), newHold(c), newRelease(c),
		newNode(c), newGPU(c),
	)
	return root
}

// A cli is what all verbs share.
type cli struct {
	Env
	flags *genericclioptions.ConfigFlags
}

// A verbError comes from a verb that was called rightly. Any other error of the command line
// is cobra's, about how it was called.
type verbError struct{ error }

func (e verbError) Unwrap() error { return e.error }

// A usageError says that the verb was called wrongly.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run makes a cobra function of a verb's.
func (c *cli) run(verb func(context.Context, *cluster, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cl, err := c.connect()
		if err != nil {
			return verbError{err}
		}
		if err := verb(cmd.Context(), cl, args); err != nil {
			return verbError{err}
		}
		return nil
	}
}

func exitCode(err error) int {
	var conflict *order.ConflictError
	var wrong usageError
	var fromVerb verbError
	switch {
	case err == nil:
		return Done
	case errors.As(err, &wrong), !errors.As(err, &fromVerb):
		return Usage
	case errors.As(err, &conflict), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return Conflict
	}
	return Failed
}
