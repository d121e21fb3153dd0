package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

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
			"Exit codes: 0 all is well, 1 there is a problem, 2 something could not be found out, or it was called wrongly.",
		SilenceUsage: true, SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unasked(cmd, fmt.Errorf("%q: check takes flags alone; %s", args[0], helpLists))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return unasked(cmd, err)
			}
			err := f.run(cmd.Context(), cmd.OutOrStdout())
			if _, said := errors.AsType[checkError](err); err != nil && !said {
				return unasked(cmd, err)
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.agent, "agent", "unix://"+socketPath, "address of the agent: unix://PATH or http://HOST:PORT")
	fs.BoolVar(&f.json, "json", false, "print all that is known, as JSON")
	f.bindRuntime(fs)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return unasked(cmd, fmt.Errorf("%w; %s", err, helpLists))
	})
	return cmd
}

const helpLists = "pitstop-agent check --help lists them"

// unasked says why nothing was looked at. The node is unknown then: 1, as other programs end with, would be a problem of it.
func unasked(cmd *cobra.Command, err error) error {
	fmt.Fprintln(cmd.OutOrStdout(), err)
	return checkError{health.ExitCode(states.Unknown)}
}

func (f checkFlags) validate() error {
	if path, ok := strings.CutPrefix(f.agent, "unix://"); ok && filepath.IsAbs(path) {
		return f.validateRuntime()
	}
	if u, err := url.Parse(f.agent); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--agent is %q: want unix:///PATH or http://HOST:PORT", f.agent)
	}
	return f.validateRuntime()
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
