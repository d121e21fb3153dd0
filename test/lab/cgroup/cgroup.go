// Package cgroup makes, empties and removes a folder in every control group hierarchy of
// the machine, whether that is version 1, version 2 or both.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pitstop.dev/test/lab/await"
)

// Root is where control groups are mounted.
const Root = "/sys/fs/cgroup"

// killLimit bounds the wait for the end of killed processes.
const killLimit = 20 * time.Second

// A Tree is the set of hierarchies under one mount point.
type Tree struct {
	roots   []string
	unified bool
}

// Detect reads which hierarchies are mounted under root.
func Detect(root string) (Tree, error) {
	if exists(filepath.Join(root, "cgroup.controllers")) {
		return Tree{roots: []string{root}, unified: true}, nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return Tree{}, err
	}
	var t Tree
	for _, e := range entries { // cpu may be a link to cpu,cpuacct: folders only
		dir := filepath.Join(root, e.Name())
		if e.IsDir() && exists(filepath.Join(dir, "cgroup.procs")) {
			t.roots = append(t.roots, dir)
		}
	}
	if len(t.roots) == 0 {
		return Tree{}, fmt.Errorf("no control groups are mounted under %s", root)
	}
	return t, nil
}

// Unified reports whether the machine has version 2 only.
func (t Tree) Unified() bool { return t.unified }

// Make creates path, such as /lab/node1, in every hierarchy, ready for containers below it.
func (t Tree) Make(path string) error {
	for _, root := range t.roots {
		dir := root
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			if t.unified {
				if err := delegate(dir); err != nil {
					return err
				}
			}
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := inherit(parent, dir); err != nil {
				return err
			}
		}
		if t.unified {
			if err := delegate(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// controllers are those that a kubelet or runc may ask for.
const controllers = " cpuset cpu io memory hugetlb pids rdma "

// delegate lets the children of dir use the controllers that dir has (version 2).
func delegate(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for c := range strings.FieldsSeq(string(data)) {
		if !strings.Contains(controllers, " "+c+" ") {
			continue
		}
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("control group %s holds processes itself, so its controllers cannot be given to children: "+
				"run in the root control group, or move these processes into a child first: %w", dir, err)
		}
		if err != nil {
			return fmt.Errorf("enable controller %s below %s: %w", c, dir, err)
		}
	}
	return nil
}

// inherit fills the two files that are empty in a new cpuset folder (version 1) and without
// which no process may enter it.
func inherit(parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.TrimSpace(string(have)) != "" {
			continue // not a cpuset hierarchy, or set already
		}
		want, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(want)) == "" {
			continue // version 2: empty means all of the parent's
		}
		if err := os.WriteFile(filepath.Join(dir, name), want, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Kill ends every process in path and below it, and returns once none is left.
func (t Tree) Kill(ctx context.Context, path string) error {
	return await.Until(ctx, "the end of all processes in control group "+path, killLimit, func(context.Context) error {
		pids := t.Processes(path)
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended by itself
		}
		if len(pids) > 0 {
			return fmt.Errorf("%d processes left, one is %d", len(pids), pids[0])
		}
		return nil
	})
}

// Processes returns the ids of the processes in path and below it.
func (t Tree) Processes(path string) []int {
	var pids []int
	for _, dir := range t.folders(path) {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // removed meanwhile
		}
		for f := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// Remove removes path and all below it, which must hold no process. What does not exist is
// removed already.
func (t Tree) Remove(ctx context.Context, path string) error {
	return await.Until(ctx, "the removal of control group "+path, killLimit, func(context.Context) error {
		var failed error
		for _, dir := range slices.Backward(t.folders(path)) {
			if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
				failed = fmt.Errorf("remove %s: %w", dir, err)
			}
		}
		return failed
	})
}

// folders lists path and what is below it in every hierarchy, parents first.
func (t Tree) folders(path string) []string {
	var dirs []string
	for _, root := range t.roots {
		_ = filepath.WalkDir(filepath.Join(root, path), func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, p)
			}
			return nil // a folder that vanishes while it is read is what we want
		})
	}
	return dirs
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
