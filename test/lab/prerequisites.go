package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// cniDir is where Debian and Ubuntu keep the CNI plugins.
const cniDir = "/usr/lib/cni"

// needs maps what a lab runs to the Debian package that has it.
func needs() map[string]string {
	return map[string]string{
		"runc":                 "runc",
		"nft":                  "nftables",
		"ip":                   "iproute2",
		"unshare":              "util-linux",
		"nsenter":              "util-linux",
		"mount":                "mount",
		cniDir + "/ptp":        "containernetworking-plugins",
		cniDir + "/host-local": "containernetworking-plugins",
	}
}

// missing returns the packages that are not installed.
func missing(has func(string) bool) []string {
	var packages []string
	for command, pkg := range needs() {
		if !has(command) {
			packages = append(packages, pkg)
		}
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// prerequisites makes sure that the machine can run a lab and installs what is missing.
func prerequisites(ctx context.Context, log io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("a lab needs root: it makes mounts, control groups and networks")
	}
	has := func(command string) bool {
		_, err := exec.LookPath(command)
		return err == nil
	}
	packages := missing(has)
	if len(packages) == 0 {
		return nil
	}
	if !has("apt-get") {
		return fmt.Errorf("install what these Debian packages hold, then try again: %s", strings.Join(packages, " "))
	}
	_, _ = fmt.Fprintf(log, "installing %s\n", strings.Join(packages, " "))
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, packages...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(cmd.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	if still := missing(has); len(still) > 0 {
		return fmt.Errorf("still missing after their installation: %s", strings.Join(still, " "))
	}
	return nil
}
