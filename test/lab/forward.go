package lab

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// forwardRules let traffic from and to Pods pass a machine whose FORWARD chain drops it, as
// one with Docker or a firewall does.
func forwardRules() [][]string {
	comment := []string{"-m", "comment", "--comment", "pitstop-lab", "-j", "ACCEPT"}
	return [][]string{
		append([]string{"FORWARD", "-s", labRange}, comment...),
		append([]string{"FORWARD", "-d", labRange}, comment...),
	}
}

// allowForward adds what of the rules is missing, unless the machine forwards everything.
// A machine without iptables has no such chain.
func allowForward(ctx context.Context) error {
	if _, err := exec.LookPath("iptables"); err != nil {
		return nil //nolint:nilerr // nothing to allow
	}
	out, err := iptables(ctx, "-S", "FORWARD")
	if err != nil {
		return err
	}
	if forwardsAll(out) {
		return nil
	}
	for _, rule := range forwardRules() {
		if _, err := iptables(ctx, append([]string{"-C"}, rule...)...); err == nil {
			continue
		}
		if _, err := iptables(ctx, append([]string{"-I"}, rule...)...); err != nil {
			return err
		}
	}
	return nil
}

// forwardsAll tells whether the chain that `iptables -S` printed is as the kernel made it.
func forwardsAll(chain string) bool { return strings.TrimSpace(chain) == "-P FORWARD ACCEPT" }

// removeForward takes the rules away, as often as they are there.
func removeForward(ctx context.Context) error {
	if _, err := exec.LookPath("iptables"); err != nil {
		return nil //nolint:nilerr // nothing was allowed
	}
	for _, rule := range forwardRules() {
		for {
			if _, err := iptables(ctx, append([]string{"-C"}, rule...)...); err != nil {
				break // it is not there
			}
			if _, err := iptables(ctx, append([]string{"-D"}, rule...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

func iptables(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "iptables", append([]string{"-w", "5"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
