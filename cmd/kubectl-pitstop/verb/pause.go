package verb

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// A pauseState is what pause and resume bring about, and print as JSON.
type pauseState struct {
	Namespace    string `json:"namespace"`
	ModelServing string `json:"modelServing"`
	Paused       bool   `json:"paused"`
	// Changed: it was not so before.
	Changed bool `json:"changed"`
	// Updating are the units that go on to their end although the ModelServing is paused.
	Updating []string `json:"updating"`
}

func newPause(c *cli) *cobra.Command {
	return c.pauseCommand(pauseState{Paused: true}, &cobra.Command{
		Use:   "pause MODELSERVING",
		Short: "Start no further updates of units",
		Long:  "Start no further updates of units. Those under way go on to their end; scaling and recovery go on.",
	})
}

func newResume(c *cli) *cobra.Command {
	return c.pauseCommand(pauseState{Paused: false}, &cobra.Command{
		Use:   "resume MODELSERVING",
		Short: "Start updates of units again",
	})
}

// pauseCommand completes a command that brings about what want says of paused.
func (c *cli) pauseCommand(want pauseState, cmd *cobra.Command) *cobra.Command {
	var f format
	cmd.Args = oneName
	addOutputFlag(cmd, &f)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		s, err := want.bring(ctx, cl, args[0])
		if err != nil {
			return err
		}
		if f == formatJSON {
			return printJSON(c.Streams.Out, s)
		}
		_, err = fmt.Fprint(c.Streams.Out, s.text())
		return err
	})
	return cmd
}

// bring writes spec.paused of the ModelServing that arg names, if it is not so already.
func (s pauseState) bring(ctx context.Context, cl *cluster, arg string) (pauseState, error) {
	name, err := servingName(arg)
	if err != nil {
		return s, err
	}
	ms, _, err := cl.serving(ctx, name)
	if err != nil {
		return s, err
	}
	if ms.DeletionTimestamp != nil {
		return s, &order.RefusalError{Object: "modelserving " + ms.Namespace + "/" + ms.Name, Why: "is being deleted"}
	}
	s.Changed = ms.Spec.Paused != s.Paused
	if s.Changed {
		if ms, err = s.write(ctx, cl, ms); err != nil {
			return s, err
		}
	}
	s.Namespace, s.ModelServing = ms.Namespace, ms.Name
	s.Updating = append([]string{}, ms.Status.Updating...)
	return s, nil
}

// write holds the UID but not the resourceVersion: whatever else is declared at the same time, this is
// right as well.
func (s pauseState) write(ctx context.Context, cl *cluster, ms *v1alpha1.ModelServing) (*v1alpha1.ModelServing, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": ms.UID},
		"spec":     map[string]any{"paused": s.Paused},
	})
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return cl.patchServing(ctx, ms.Name, patch, metav1.PatchOptions{})
}

func (s pauseState) text() string {
	word := map[bool]string{true: "paused", false: "resumed"}[s.Paused]
	if !s.Changed {
		word = map[bool]string{true: "is paused already", false: "is not paused"}[s.Paused]
	}
	text := fmt.Sprintf("modelserving %s/%s %s\n", s.Namespace, s.ModelServing, word)
	if s.Paused && len(s.Updating) > 0 {
		text += "under way, and going on to their end: " + strings.Join(s.Updating, ", ") + "\n"
	}
	return text
}
