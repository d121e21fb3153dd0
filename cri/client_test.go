package cri_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/cri"
	"pitstop.dev/cri/fake"
)

const ref = "registry.test/app:v1"

func dial(t *testing.T, r *fake.Runtime, cfg cri.Config) *cri.Client {
	t.Helper()
	c, err := cri.Dial(r.Endpoint(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// running returns a fake with one Pod that runs ref in a container named app.
func running(t *testing.T) (r *fake.Runtime, id string) {
	t.Helper()
	r = fake.Start(t, clock.RealClock{})
	r.Publish(ref, fake.Image{})
	if err := r.EnsureImage(ref); err != nil {
		t.Fatal(err)
	}
	r.RunPod(fake.Pod{UID: "uid", Namespace: "ns", Name: "pod"})
	return r, startContainer(t, r, 0)
}

func startContainer(t *testing.T, r *fake.Runtime, n int) (id string) {
	t.Helper()
	id, err := r.StartContainer(fake.Container{PodUID: "uid", Name: "app", Image: ref, RestartCount: n})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestDialRefusesWhatIsNoSocketPath(t *testing.T) {
	for _, endpoint := range []string{"", "run/containerd.sock", "tcp://127.0.0.1:1", "unix://relative.sock"} {
		if c, err := cri.Dial(endpoint, cri.Config{}); err == nil {
			_ = c.Close()
			t.Errorf("Dial(%q) took it", endpoint)
		}
	}
}

func TestDialIsLazy(t *testing.T) {
	path := filepath.Join(socketDir(t), "cri.sock")
	c, err := cri.Dial(path, cri.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Version(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("Version() without a runtime: %v", err)
	}
	r := fake.New(clock.RealClock{})
	if err := r.Listen(path); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	eventually(t, "the runtime answers", func() bool {
		v, err := c.Version(t.Context())
		return err == nil && v == cri.Version{Runtime: "containerd", Version: "v2.4.2"}
	})
}

func TestPullReportsGrowth(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  cri.Config
		want int64
	}{
		"of the runtime's own count": {cri.Config{}, 300},
		"of the file system where it is seen": {cri.Config{HostRoot: "/host", Statfs: func() func(string) (cri.FileSystem, error) {
			n := uint64(1000)
			return func(path string) (cri.FileSystem, error) {
				if !strings.HasPrefix(path, "/host/var/lib/containerd/") {
					return cri.FileSystem{}, errors.New("wrong path " + path)
				}
				n += 7
				return cri.FileSystem{UsedBytes: n}, nil
			}
		}()}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
			r := fake.Start(t, clock.RealClock{})
			r.Publish(ref, fake.Image{})
			r.HoldPulls(ref)
			tt.cfg.Clock = clk
			c := dial(t, r, tt.cfg)
			seen := make(chan cri.Progress)
			done := make(chan error)
			go func() { done <- c.Pull(t.Context(), ref, func(p cri.Progress) { seen <- p }) }()
			eventually(t, "the pull and its first look", func() bool {
				return r.Count("PullImage", ref) == 1 && r.Count("ImageFsInfo", "") == 1
			})
			r.Downloaded(ref, 300)
			eventually(t, "a tick is waited for", clk.HasWaiters)
			clk.Step(time.Second)
			if got := <-seen; got.Bytes != tt.want || got.Elapsed != time.Second {
				t.Errorf("progress %+v, want %d bytes after 1 s", got, tt.want)
			}
			r.FailNext("ImageFsInfo", status.Error(codes.Unknown, "boom"))
			clk.Step(time.Second)
			if got := <-seen; got.Bytes != tt.want || got.Elapsed != 2*time.Second {
				t.Errorf("progress %+v while the runtime does not say, want %d bytes after 2 s", got, tt.want)
			}
			r.ReleasePulls(ref)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPullEndsWithItsContext(t *testing.T) {
	r := fake.Start(t, clock.RealClock{})
	r.Publish(ref, fake.Image{})
	r.HoldPulls(ref)
	c := dial(t, r, cri.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Pull(ctx, ref, nil) }()
	eventually(t, "the pull", func() bool { return r.Count("PullImage", ref) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Pull() = %v", err)
	}
	if _, err := c.Image(t.Context(), ref); !errors.Is(err, cri.ErrImageNotFound) {
		t.Errorf("Image() after a cancelled pull: %v", err)
	}
}

func TestPlatformOfAnImage(t *testing.T) {
	for name, tt := range map[string]struct {
		image cri.Image
		node  string
		fits  bool
	}{
		"the node's own":           {cri.Image{OS: "linux", Architecture: "arm64", Variant: "v8"}, "arm64", true},
		"the runtime does not say": {cri.Image{}, "amd64", true},
		"32 bit on amd64":          {cri.Image{OS: "linux", Architecture: "386"}, "amd64", true},
		"32 bit on arm64":          {cri.Image{OS: "linux", Architecture: "arm", Variant: "v7"}, "arm64", true},
		"arm64 on amd64":           {cri.Image{OS: "linux", Architecture: "arm64"}, "amd64", false},
		"arm on amd64":             {cri.Image{OS: "linux", Architecture: "arm"}, "amd64", false},
		"windows":                  {cri.Image{OS: "windows", Architecture: "amd64"}, "amd64", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tt.image.Check(tt.node); errors.Is(err, cri.ErrWrongPlatform) == tt.fits || (err == nil) != tt.fits {
				t.Errorf("Check(%s) = %v, want it to fit: %t", tt.node, err, tt.fits)
			}
		})
	}
}

// The image of a container must be comparable with the proof whatever the runtime.
func TestImageIDsOfEveryRuntime(t *testing.T) {
	for name, tt := range map[string]struct {
		runtime, version string
		userImage        string
	}{
		"containerd 1.7": {"containerd", "v1.7.27", ref},
		"containerd 2.2": {"containerd", "v2.2.0", ref},
		"containerd 2.4": {"containerd", "v2.4.2", ref},
		"k3s":            {"containerd", "v2.0.5-k3s2.32", ref},
		"CRI-O":          {"cri-o", "1.34.1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, id := running(t)
			r.SetVersion(tt.runtime, tt.version)
			c := dial(t, r, cri.Config{})
			image, err := c.Image(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			if err := image.Check(runtime.GOARCH); err != nil || image.Architecture != runtime.GOARCH {
				t.Errorf("platform %s/%s, %v", image.OS, image.Architecture, err)
			}
			p, err := c.Pod(t.Context(), "uid")
			if err != nil {
				t.Fatal(err)
			}
			got, _ := p.Newest("app")
			if got.ID != id || got.ImageID != image.ID || !strings.HasPrefix(image.ID, "sha256:") || got.UserImage != tt.userImage {
				t.Errorf("container %s of image %s (%q), want %s of %s (%q)", got.ID, got.ImageID, got.UserImage, id, image.ID, tt.userImage)
			}
			// The collector takes the image: the container still says what it runs.
			r.EvictImage(ref)
			p, err = c.Pod(t.Context(), "uid")
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := p.Newest("app"); got.ImageID != image.ID {
				t.Errorf("image id %q once the image is gone, want %s", got.ImageID, image.ID)
			}
		})
	}
}

func TestPodHasEveryAttemptAndSandbox(t *testing.T) {
	r, first := running(t)
	c := dial(t, r, cri.Config{})
	r.Exit(first, 3)
	second := startContainer(t, r, 1)
	r.RunPod(fake.Pod{UID: "other", Namespace: "ns", Name: "other"})
	r.StopPod("uid") // kubelet rebuilds the sandbox
	newest := r.RunPod(fake.Pod{UID: "uid", Namespace: "ns", Name: "pod", Attempt: 1})
	third := startContainer(t, r, 2)
	p, err := c.Pod(t.Context(), "uid")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Sandboxes) != 2 || p.Sandboxes[0].ID != newest || !p.Sandboxes[0].Ready || p.Sandboxes[1].Ready {
		t.Errorf("sandboxes %+v", p.Sandboxes)
	}
	type record struct {
		ID     string
		State  cri.State
		Count  int
		Code   int32
		Reason string
	}
	var got []record
	for _, c := range p.Containers {
		got = append(got, record{c.ID, c.State, c.RestartCount, c.ExitCode, c.Reason})
	}
	want := []record{
		{third, cri.Running, 2, 0, ""},
		{second, cri.Exited, 1, 137, "Error"},
		{first, cri.Exited, 0, 3, "Error"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
}

// A record that goes between the list and its status is left out; any other failure is one.
func TestPodWhileKubeletCleansUp(t *testing.T) {
	r, _ := running(t)
	c := dial(t, r, cri.Config{})
	r.FailNext("ContainerStatus", status.Error(codes.NotFound, "gone"))
	if p, err := c.Pod(t.Context(), "uid"); err != nil || len(p.Containers) != 0 || len(p.Sandboxes) != 1 {
		t.Errorf("Pod() = %+v, %v", p, err)
	}
	r.FailNext("ContainerStatus", status.Error(codes.Unavailable, "down"))
	if _, err := c.Pod(t.Context(), "uid"); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("Pod() = %v, want unavailable", err)
	}
}

func TestStop(t *testing.T) {
	t.Run("an error is not a death", func(t *testing.T) {
		r, id := running(t)
		c := dial(t, r, cri.Config{})
		r.FailNext("StopContainer", status.Error(codes.Unknown, "failed to kill container: ttrpc: closed"))
		if err := c.Stop(t.Context(), id, time.Second); err == nil || errors.Is(err, cri.ErrStopTimeout) {
			t.Errorf("Stop() = %v", err)
		}
		p, err := c.Pod(t.Context(), "uid")
		if got, _ := p.Newest("app"); err != nil || got.State != cri.Running {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("a process that SIGKILL does not end", func(t *testing.T) {
		r, id := running(t)
		c := dial(t, r, cri.Config{})
		r.Wedge(id)
		begin := time.Now()
		if err := c.Stop(t.Context(), id, 0); !errors.Is(err, cri.ErrStopTimeout) {
			t.Errorf("Stop() = %v", err)
		}
		if took := time.Since(begin); took < 4*time.Second || took > 8*time.Second {
			t.Errorf("it took %s, want 5 s", took)
		}
		if r.Signalled(id) {
			t.Error("the stop signal was sent although there was no grace")
		}
	})
	t.Run("the runtime's own deadline", func(t *testing.T) {
		r, id := running(t)
		c := dial(t, r, cri.Config{})
		r.FailNext("StopContainer", status.Error(codes.DeadlineExceeded, "context deadline exceeded"))
		if err := c.Stop(t.Context(), id, time.Second); !errors.Is(err, cri.ErrStopTimeout) {
			t.Errorf("Stop() = %v", err)
		}
	})
	t.Run("a cancelled caller", func(t *testing.T) {
		r, id := running(t)
		r.Stubborn(id)
		c := dial(t, r, cri.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Stop(ctx, id, time.Hour) }()
		eventually(t, "the stop", func() bool { return r.Signalled(id) })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Stop() = %v", err)
		}
	})
	t.Run("gone on a runtime that says so", func(t *testing.T) {
		r, id := running(t)
		c := dial(t, r, cri.Config{})
		r.FailNext("StopContainer", status.Error(codes.NotFound, "no such container"))
		if err := c.Stop(t.Context(), id, time.Second); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	})
}

func TestFreeBytes(t *testing.T) {
	r := fake.Start(t, clock.RealClock{})
	seen := func(path string) (cri.FileSystem, error) {
		if path != "/host/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs" {
			return cri.FileSystem{}, errors.New("no such folder: " + path)
		}
		return cri.FileSystem{FreeBytes: 42}, nil
	}
	for name, tt := range map[string]struct {
		cfg  cri.Config
		want uint64
		err  error
	}{
		"below the host's root":  {cri.Config{HostRoot: "/host", Statfs: seen}, 42, nil},
		"host not mounted":       {cri.Config{Statfs: seen}, 0, cri.ErrSpaceUnknown},
		"that folder is missing": {cri.Config{HostRoot: "/elsewhere", Statfs: seen}, 0, cri.ErrSpaceUnknown},
		"the real statfs":        {cri.Config{HostRoot: "/no/such/root"}, 0, cri.ErrSpaceUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := dial(t, r, tt.cfg).FreeBytes(t.Context())
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("FreeBytes() = %d, %v, want %d, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// A call ends with its context even if the runtime never answers.
func TestCallsEndWithTheirContext(t *testing.T) {
	r := fake.Start(t, clock.RealClock{})
	c := dial(t, r, cri.Config{})
	for method, call := range map[string]func(context.Context) error{
		"Version":        func(ctx context.Context) error { _, err := c.Version(ctx); return err },
		"ImageStatus":    func(ctx context.Context) error { _, err := c.Image(ctx, ref); return err },
		"RemoveImage":    func(ctx context.Context) error { return c.RemoveImage(ctx, ref) },
		"ImageFsInfo":    func(ctx context.Context) error { _, err := c.ImageFS(ctx); return err },
		"ListContainers": func(ctx context.Context) error { _, err := c.Pod(ctx, "uid"); return err },
		"PullImage":      func(ctx context.Context) error { return c.Pull(ctx, ref, nil) },
	} {
		r.HangNext(method)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", method, err)
		}
		cancel()
	}
}

// eventually tries until ok, with a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); !ok(); <-tick.C {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
