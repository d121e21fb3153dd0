package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pitstop.dev/test/lab/process"
)

// Down ends everything that belongs to the lab and removes its state folder. It needs no
// lab that is whole: whatever is left of one, after a crash or a failed Up, goes.
func Down(ctx context.Context, c Config) error {
	c, err := c.complete()
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, c)
	if err != nil {
		return err
	}
	defer unlock()
	return down(ctx, c)
}

func down(ctx context.Context, c Config) error {
	if err := endOrphans(ctx); err != nil {
		return err
	}
	g := process.Group{Dir: c.StateDir}
	_, err := os.Stat(c.StateDir)
	present := err == nil || len(g.Marked()) > 0
	if err := endAll(ctx, g, cgroupOf(c.StateDir)); err != nil || !present {
		return err
	}
	s, err := readState(c.StateDir)
	if err != nil {
		_, _ = fmt.Fprintf(c.Log, "the lab's state is not readable, kernel settings stay as they are: %v\n", err)
	}
	failed := errors.Join(
		removeProxyTables(ctx),
		removeForward(ctx),
		awaitNoPodLinks(ctx, podRange),
		restoreSysctls(s.Sysctls),
		removeAll(c.StateDir),
	)
	for _, dir := range s.Made {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// endAll ends a group's processes and the containers in its control group. The programs
// go first, so that none of them starts a container again.
func endAll(ctx context.Context, g process.Group, path string) error {
	tree, err := cgroups()
	if err != nil {
		return err
	}
	if err := g.KillMarked(ctx); err != nil {
		return err
	}
	if err := tree.Kill(ctx, path); err != nil {
		return err
	}
	return tree.Remove(ctx, path)
}

// removeAll unmounts what is mounted below dir, then removes it.
func removeAll(dir string) error {
	points, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(points) {
		if err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", p, err)
		}
	}
	return os.RemoveAll(dir)
}

// mountsBelow lists the mount points at dir and below it, in the order of their mounting.
func mountsBelow(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var points []string
	for scan := bufio.NewScanner(f); scan.Scan(); {
		fields := strings.Fields(scan.Text())
		if len(fields) < 5 {
			continue
		}
		p := unescape(fields[4])
		if p == dir || strings.HasPrefix(p, dir+string(filepath.Separator)) {
			points = append(points, p)
		}
	}
	return points, nil
}

// unescape undoes the octal codes of blanks in mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
