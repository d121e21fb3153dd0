//go:build lab

package lab_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"pitstop.dev/test/lab"
)

// isolated is set in the process that runs the tests.
const isolated = "LAB_TEST_ISOLATED"

// network gives a new network namespace a default interface, then runs its arguments.
const network = `set -e
ip link set lo up
ip link add eth0 type veth peer name eth1
ip address add 192.0.2.10/24 dev eth0
ip link set eth0 up
ip link set eth1 up
ip route add default dev eth0
exec "$@"`

// TestMain runs the tests in a network of their own, so that they may bring labs up and
// down beside the machine's own one.
func TestMain(m *testing.M) {
	if os.Getenv(isolated) != "" {
		os.Exit(m.Run())
	}
	if err := isolate(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func isolate(ctx context.Context) error {
	if err := lab.Prepare(ctx, lab.Config{Log: os.Stderr}); err != nil { // there is no way out later
		return err
	}
	args := append([]string{"--net", "--", "/bin/sh", "-c", network, "sh", os.Args[0]}, os.Args[1:]...)
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.Env = append(cmd.Environ(), isolated+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
