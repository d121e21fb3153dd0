package verb

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/history"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// undoFlags are the flags of undo.
type undoFlags struct {
	number int64
	dryRun bool
	format format
}

// An undone is what undo prints as JSON.
type undone struct {
	Namespace    string `json:"namespace"`
	ModelServing string `json:"modelServing"`
	DryRun       bool   `json:"dryRun,omitempty"`
	history.Undo `json:",inline"`
}

func newUndo(c *cli) *cobra.Command {
	var f undoFlags
	cmd := &cobra.Command{
		Use:   "undo MODELSERVING [--to-revision NUMBER]",
		Short: "Go back to an earlier revision of a ModelServing",
		Long: "Go back to an earlier revision: its templates, workerReplicas and schedulerName are declared again, replicas, " +
			"budgets and partition stay as they are today. Then the ordinary rollout runs.",
		Example: "  kubectl pitstop undo llm\n  kubectl pitstop undo llm --to-revision 3 --dry-run",
		Args:    oneName,
	}
	cmd.Flags().Int64Var(&f.number, "to-revision", history.Before, "number of the revision, from history; 0: the one before the declared one")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would change, and have the API server judge it, without changing it")
	addOutputFlag(cmd, &f.format)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		if f.number < 0 {
			return usagef("--to-revision %d: a number from `kubectl pitstop history`, or 0 for the one before", f.number)
		}
		undo, err := c.undo(ctx, cl, args[0], f)
		if err != nil {
			return err
		}
		return c.undone(undo, f.format)
	})
	return cmd
}

// undoTries bounds how often undo reads anew because the status of the ModelServing changed in between.
const undoTries = 5

// undo declares the revision. A conflict with a new status is no conflict of ours: only who declares
// something else at the same time is.
func (c *cli) undo(ctx context.Context, cl *cluster, arg string, f undoFlags) (undone, error) {
	var seen *v1alpha1.ModelServing
	for try := 1; ; try++ {
		facts, object, err := c.past(ctx, cl, arg)
		if err != nil {
			return undone{}, err
		}
		ms := facts.Serving
		if seen != nil && (ms.UID != seen.UID || ms.Generation != seen.Generation) {
			return undone{}, changed(cl, ms.Name)
		}
		seen = ms
		undo, err := history.To(facts, f.number)
		if err != nil {
			return undone{}, err
		}
		patch, err := undo.Patch(object.Object)
		if err != nil {
			return undone{}, err
		}
		_, err = cl.patchServing(ctx, ms.Name, patch, f.options())
		var conflict *order.ConflictError
		if errors.As(err, &conflict) && try < undoTries {
			continue
		}
		return undone{ms.Namespace, ms.Name, f.dryRun, undo}, err
	}
}

func (f undoFlags) options() metav1.PatchOptions {
	if f.dryRun {
		return metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	}
	return metav1.PatchOptions{}
}

func (c *cli) undone(u undone, f format) error {
	if f == formatJSON {
		return printJSON(c.Streams.Out, u)
	}
	out := c.Streams.Out
	verb := "goes"
	if u.DryRun {
		verb = "would go"
	}
	fmt.Fprintf(out, "modelserving %s/%s %s back to revision %d (%s):\n", u.Namespace, u.ModelServing, verb, u.Number, u.Name)
	for _, line := range history.Lines(u.Changes) {
		fmt.Fprintf(out, "  %s\n", line)
	}
	for _, note := range u.Notes {
		fmt.Fprintf(out, "note: %s\n", note)
	}
	if !u.DryRun {
		fmt.Fprintf(out, "follow it with `kubectl pitstop get %s -n %s`\n", u.ModelServing, u.Namespace)
	}
	return nil
}
