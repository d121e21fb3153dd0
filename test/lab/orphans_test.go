//go:build lab

package lab_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pitstop.dev/test/lab"
	"pitstop.dev/test/lab/await"
	"pitstop.dev/test/lab/process"
)

// dieIn names the folder of the runtime that TestDyingOwner starts.
const dieIn = "LAB_TEST_DIE_IN"

// TestDyingOwner is the process that TestRuntimeOfADeadOwner kills.
func TestDyingOwner(t *testing.T) {
	dir := os.Getenv(dieIn)
	if dir == "" {
		return // nobody wants to kill it
	}
	r, err := lab.StartRuntime(t.Context(), lab.Config{StateDir: dir})
	must(t, err)
	runSandbox(t, r)
	fmt.Println("\nready", r.Cgroup)
	<-t.Context().Done()
}

func TestRuntimeOfADeadOwner(t *testing.T) {
	dir := t.TempDir()
	owner := exec.Command(os.Args[0], "-test.run=^TestDyingOwner$", "-test.v", "-test.timeout=1m")
	owner.Env = append(owner.Environ(), dieIn+"="+dir)
	out, err := owner.StdoutPipe()
	must(t, err)
	must(t, owner.Start())
	cgroup := ""
	for lines := bufio.NewScanner(out); cgroup == "" && lines.Scan(); {
		cgroup, _ = strings.CutPrefix(lines.Text(), "ready ")
		if cgroup == lines.Text() {
			cgroup = ""
		}
	}
	must(t, owner.Process.Kill())
	_ = owner.Wait() // killed
	if cgroup == "" {
		t.Fatal("the owner did not start its runtime")
	}
	g := process.Group{Dir: dir}
	must(t, await.Until(t.Context(), "the end of containerd", 10*time.Second, func(context.Context) error {
		if _, ok := g.Running("runtime-containerd"); ok {
			return fmt.Errorf("it outlives its owner")
		}
		return nil
	}))
	if len(g.Marked()) == 0 {
		t.Error("no shim is left: this test shows nothing")
	}

	r, err := lab.StartRuntime(t.Context(), lab.Config{StateDir: t.TempDir()})
	must(t, err)
	defer func() { must(t, r.Close(t.Context())) }()
	if left := g.Marked(); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*" + cgroup)
	if err != nil || len(groups) > 0 {
		t.Errorf("control groups left: %v, %v", groups, err)
	}
}

// runSandbox starts an empty Pod.
func runSandbox(t *testing.T, r *lab.Runtime) {
	t.Helper()
	conn := dial(t, r)
	_, err := cri.NewRuntimeServiceClient(conn).RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{
		Config: &cri.PodSandboxConfig{
			Metadata: &cri.PodSandboxMetadata{Name: "p", Uid: t.Name(), Namespace: "default"},
			Linux:    &cri.LinuxPodSandboxConfig{CgroupParent: r.Cgroup},
		},
	})
	must(t, err)
}
