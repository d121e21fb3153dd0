//go:build lab

package lab_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/random"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pitstop.dev/test/lab"
)

func TestRuntime(t *testing.T) {
	ctx := t.Context()
	r, err := lab.StartRuntime(ctx, lab.Config{StateDir: t.TempDir(), Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	t.Cleanup(func() {
		if !closed {
			_ = r.Close(t.Context())
		}
	})
	conn := dial(t, r)
	runtime, images := cri.NewRuntimeServiceClient(conn), cri.NewImageServiceClient(conn)
	pull := func(ref string) error {
		_, err := images.PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: r.Registry().Ref(ref)}})
		return err
	}

	t.Run("runs a sandbox", func(t *testing.T) { runSandbox(t, r) })
	t.Run("runs a command on its own mounts", func(t *testing.T) {
		cmd, err := r.Command(ctx, r.Binary("crictl"), "--runtime-endpoint", "unix:///run/containerd/containerd.sock", "pods", "-q")
		must(t, err)
		out, err := cmd.Output()
		if err != nil || len(strings.Fields(string(out))) != 1 {
			t.Errorf("crictl pods: %v: %s", err, out)
		}
	})
	t.Run("pulls as fast as the registry sends", func(t *testing.T) {
		img, err := random.Image(2<<20, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Push(ctx, "slow:v1", img), r.Registry().Throttle(ctx, 1<<20)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := pull("slow:v1"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 1500*time.Millisecond || took > 10*time.Second {
			t.Errorf("2 MiB at 1 MiB/s took %s", took)
		}
	})
	t.Run("does not pull from a stopped registry, and does once it is back", func(t *testing.T) {
		img, err := random.Image(1<<10, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Push(ctx, "late:v1", img), r.Registry().Stop(ctx)); err != nil {
			t.Fatal(err)
		}
		if err := pull("late:v1"); err == nil {
			t.Error("pulled from a stopped registry")
		}
		if err := r.Registry().Start(ctx); err != nil {
			t.Fatal(err)
		}
		if err := pull("late:v1"); err != nil {
			t.Error(err)
		}
	})
	t.Run("keeps its sandboxes through a restart", func(t *testing.T) {
		if err := r.RestartContainerd(ctx); err != nil {
			t.Fatal(err)
		}
		list, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
		if err != nil || len(list.GetItems()) != 1 || list.GetItems()[0].GetState() != cri.PodSandboxState_SANDBOX_READY {
			t.Errorf("sandboxes after a restart: %v, %v", list.GetItems(), err)
		}
	})
	t.Run("leaves nothing behind", func(t *testing.T) {
		closed = true
		if err := r.Close(ctx); err != nil {
			t.Fatal(err)
		}
		groups, err := filepath.Glob("/sys/fs/cgroup/*" + r.Cgroup)
		if err != nil || len(groups) > 0 {
			t.Errorf("control groups left: %v, %v", groups, err)
		}
		out, err := exec.CommandContext(ctx, "ps", "-eo", "args").Output()
		if err != nil || strings.Contains(string(out), r.Dir) {
			t.Errorf("processes left: %v, %s", err, out)
		}
	})
}

// dial returns a connection to a runtime, open until the end of the test.
func dial(t *testing.T, r *lab.Runtime) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+r.RuntimeSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
