package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// files writes a tree that looks like a mounted one.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, data := range content {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func TestDetect(t *testing.T) {
	for name, tt := range map[string]struct {
		files   map[string]string
		roots   []string
		unified bool
		fails   bool
	}{
		"version 2": {
			files: map[string]string{"cgroup.controllers": "cpu memory", "cgroup.procs": ""},
			roots: []string{"."}, unified: true,
		},
		"version 1 beside version 2": {
			files: map[string]string{"cpu/cgroup.procs": "", "memory/cgroup.procs": "", "unified/cgroup.procs": "", "unified/cgroup.controllers": ""},
			roots: []string{"cpu", "memory", "unified"},
		},
		"folders that are no hierarchy": {
			files: map[string]string{"cpu/cgroup.procs": "", "empty/x": ""},
			roots: []string{"cpu"},
		},
		"nothing mounted": {files: map[string]string{"x": ""}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			root := files(t, tt.files)
			tree, err := Detect(root)
			if (err != nil) != tt.fails {
				t.Fatalf("Detect() error = %v", err)
			}
			var roots []string
			for _, r := range tree.roots {
				rel, err := filepath.Rel(root, r)
				if err != nil {
					t.Fatal(err)
				}
				roots = append(roots, rel)
			}
			if diff := cmp.Diff(tt.roots, roots); diff != "" || tree.Unified() != tt.unified {
				t.Errorf("unified %t, roots (-want +got):\n%s", tree.Unified(), diff)
			}
		})
	}
}

func TestDetectCountsALinkedHierarchyOnce(t *testing.T) {
	root := files(t, map[string]string{"cpu,cpuacct/cgroup.procs": ""})
	if err := os.Symlink("cpu,cpuacct", filepath.Join(root, "cpu")); err != nil {
		t.Fatal(err)
	}
	tree, err := Detect(root)
	if err != nil || len(tree.roots) != 1 {
		t.Errorf("Detect() = %v, %v; want one root", tree.roots, err)
	}
}

func TestMakeCopiesCPUsDownInVersion1(t *testing.T) {
	root := files(t, map[string]string{
		"cpuset/cgroup.procs": "", "cpuset/cpuset.cpus": "0-1\n", "cpuset/cpuset.mems": "0\n",
		"cpuset/lab/cpuset.cpus": "\n", "cpuset/lab/cpuset.mems": "\n",
		"cpuset/lab/node1/cpuset.cpus": "1\n", "cpuset/lab/node1/cpuset.mems": "\n",
		"memory/cgroup.procs": "",
	})
	tree, err := Detect(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Make("/lab/node1"); err != nil {
		t.Fatal(err)
	}
	got := []string{
		read(t, root, "cpuset/lab/cpuset.cpus"), read(t, root, "cpuset/lab/cpuset.mems"),
		read(t, root, "cpuset/lab/node1/cpuset.cpus"), read(t, root, "cpuset/lab/node1/cpuset.mems"),
	}
	if diff := cmp.Diff([]string{"0-1", "0", "1", "0"}, got); diff != "" {
		t.Errorf("cpus and mems (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(root, "memory/lab/node1")); err != nil {
		t.Error(err)
	}
}

func TestMakeDelegatesInVersion2(t *testing.T) {
	all := "cpuset cpu io memory pids misc"
	root := files(t, map[string]string{
		"cgroup.controllers": all, "cgroup.subtree_control": "",
		"lab/cgroup.controllers": all, "lab/cgroup.subtree_control": "",
		"lab/node1/cgroup.controllers": all, "lab/node1/cgroup.subtree_control": "",
	})
	tree, err := Detect(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Make("/lab/node1"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", "lab", "lab/node1"} { // a plain file keeps the last write only
		if got := read(t, root, dir, "cgroup.subtree_control"); got != "+pids" {
			t.Errorf("%s/cgroup.subtree_control = %q", dir, got)
		}
	}
}

func TestProcesses(t *testing.T) {
	root := files(t, map[string]string{
		"cpu/cgroup.procs": "1\n2\n", "cpu/lab/cgroup.procs": "30\n", "cpu/lab/node1/pod/cgroup.procs": "31\n32\n",
		"memory/cgroup.procs": "", "memory/lab/cgroup.procs": "30\n33\n", "memory/lab2/cgroup.procs": "40\n",
	})
	tree, err := Detect(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{30, 31, 32, 33}, tree.Processes("/lab")); diff != "" {
		t.Errorf("Processes() (-want +got):\n%s", diff)
	}
}

func TestRemove(t *testing.T) {
	root := files(t, map[string]string{"cpu/cgroup.procs": ""})
	if err := os.MkdirAll(filepath.Join(root, "cpu/lab/node1/pod"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := Detect(root)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing
		if err := tree.Remove(t.Context(), "/lab"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "cpu/lab")); err == nil {
		t.Error("folder left")
	}
}

func TestTheMachineHasControlGroups(t *testing.T) {
	tree, err := Detect(Root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(tree.Processes("/"), os.Getpid()) {
		t.Errorf("process %s is in no control group", strconv.Itoa(os.Getpid()))
	}
}
