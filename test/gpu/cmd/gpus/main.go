// Command gpus is a lab with GPUs to try things on, none of which exists.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"pitstop.dev/test/gpu/play"
	"pitstop.dev/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gpus:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{Use: "gpus", Short: "The lab with GPUs in it, none of which exists", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(
		&cobra.Command{
			Use: "run", Short: "Bring up the lab, Pitstop, GPUs on each node and an engine; hold them until this is ended", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return play.Run(c.Context(), c.OutOrStdout()) },
		},
		&cobra.Command{
			Use: "xid NODE GPU XID", Short: "Have the driver report an error of a GPU, by its index", Args: cobra.ExactArgs(3),
			RunE: func(c *cobra.Command, args []string) error {
				xid, err := strconv.Atoi(args[2])
				if err != nil {
					return fmt.Errorf("XID %q: want a number, as 79", args[2])
				}
				return on(c.Context(), args, func(g play.GPUs, index int) error { return g.XID(c.Context(), index, xid) })
			},
		},
		&cobra.Command{
			Use: "recovery NODE GPU ACTION", Short: "Have the driver ask for an action on a GPU: " + strings.Join(play.Actions(), ", "), Args: cobra.ExactArgs(3),
			RunE: func(c *cobra.Command, args []string) error {
				return on(c.Context(), args, func(g play.GPUs, index int) error { return g.Recovery(c.Context(), index, args[2]) })
			},
		},
	)
	return root
}

// on does something to the GPU that the first two arguments name.
func on(ctx context.Context, args []string, do func(play.GPUs, int) error) error {
	index, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("GPU %q: want its index, as 0", args[1])
	}
	l, err := lab.Open(ctx, lab.Config{Log: os.Stderr})
	if err != nil {
		return err
	}
	gpus, err := play.On(l, args[0])
	if err != nil {
		return err
	}
	return do(gpus, index)
}
