package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"pitstop.dev/agent/health"
	"pitstop.dev/agent/health/states"
	"pitstop.dev/cri"
)

// A checkError ends the process with a code of node-problem-detector's contract. What there is to say was printed.
type checkError struct{ code int }

func (e checkError) Error() string { return fmt.Sprintf("the check ends with %d", e.code) }

// exitCode is 1 for all but checks.
func exitCode(err error) int {
	if c, ok := errors.AsType[checkError](err); ok {
		return c.code
	}
	return 1
}

type checkFlags struct {
	flags
	agent string
	json  bool
}

// check is a plugin of node-problem-detector.
func check() *cobra.Command {
	f := checkFlags{}
	cmd := &cobra.Command{
		Use: "check", Short: "Says in one line how this node is; exits 0 if well, 1 with a problem, 2 if unknown",
		Long: "Says in one line of at most 80 characters how this node is, within 5 seconds and without the API server: a custom " +
			"plugin of node-problem-detector. It asks the agent of the node, and looks itself if that does not answer.\n\n" +
			"Exit codes: 0 all is well, 1 there is a problem, 2 something could not be found out.",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.agent, "agent", "unix://"+socketPath, "address of the agent: unix://PATH or http://HOST:PORT")
	fs.BoolVar(&f.json, "json", false, "print all that is known, as JSON")
	f.bindRuntime(fs)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		fmt.Fprintln(cmd.OutOrStdout(), err)
		return checkError{health.ExitCode(states.Unknown)}
	})
	return cmd
}

func (f checkFlags) run(ctx context.Context, out io.Writer) error {
	local := []health.Check{health.CheckOfKubelet(f.kubeletDir), health.CheckOfPlugins(f.kubeletDir, nil)}
	runtime, err := f.dial()
	if err == nil {
		defer runtime.Close() //nolint:errcheck // the process ends
		local = append(local, health.CheckOfRuntime(runtime, clock.RealClock{}), health.CheckOfDisk(runtime, f.minFree))
	} else {
		local = append(local, health.Check{Name: health.CheckRuntime, Look: func(context.Context) (states.Status, string) {
			return states.Unknown, err.Error()
		}})
	}
	s := health.AskOrLook(ctx, f.agent, health.NewChecks(local...))
	status, line := health.Sum(s.Checks)
	if f.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(s); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(out, line)
	}
	if code := health.ExitCode(status); code != 0 {
		return checkError{code}
	}
	return nil
}

// dial connects to the container runtime that the flags name, or to the first of the standard ones.
func (f flags) dial() (*cri.Client, error) {
	endpoint := f.runtime
	if endpoint == "" {
		var err error
		if endpoint, err = cri.Discover(f.runtimeRoot); err != nil {
			return nil, err
		}
	}
	return cri.Dial(endpoint, cri.Config{HostRoot: f.hostRoot})
}
