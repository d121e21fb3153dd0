//go:build lab

package contract_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"pitstop.dev/cri"
	"pitstop.dev/cri/contract"
	"pitstop.dev/test/lab"
)

// startLimit bounds the start of the runtime, without the first build of its binaries.
const startLimit = 2 * time.Minute

// TestContainerd tries one real containerd in all cases. It needs root.
func TestContainerd(t *testing.T) {
	dir, err := os.MkdirTemp("", "cri") //nolint:usetesting // a socket's path has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	c := lab.Config{StateDir: dir, Log: t.Output()}
	if _, err := lab.Build(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	r, err := lab.StartRuntime(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startLimit)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
			return // the folder may hold mounts
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := &labSubject{Runtime: r, program: build(t, "./sleeper")}
	contract.Run(t, func(*testing.T) contract.Subject { return s })
}

// A labSubject is a real containerd with its registry.
type labSubject struct {
	*lab.Runtime
	program []byte // of every image
}

func (s *labSubject) Endpoint() string { return "unix://" + s.RuntimeSocket }

func (s *labSubject) Config() cri.Config { return cri.Config{HostRoot: "/"} }

func (s *labSubject) Publish(t *testing.T, i contract.Image) string {
	t.Helper()
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	if i.Platform != contract.Here {
		platform.Architecture = "s390x"
	}
	image := s.image(t, i, platform)
	var err error
	if i.Platform == contract.Nowhere {
		err = s.Registry().PushIndex(t.Context(), i.Name, mutate.AppendManifests(empty.Index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}}))
	} else {
		err = s.Push(t.Context(), i.Name, image)
	}
	if err == nil && i.Private {
		err = s.Registry().Login(t.Context(), authn.Basic{Username: "user", Password: "secret"})
		t.Cleanup(func() {
			if err := s.Registry().Logout(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Registry().Ref(i.Name)
}

// image returns the sleeper as an image that content and nothing else sets apart.
func (s *labSubject) image(t *testing.T, i contract.Image, p v1.Platform) v1.Image {
	t.Helper()
	image, err := lab.StaticImage("/sleeper", s.program)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = p.OS, p.Architecture
	file.Config.Labels = map[string]string{"content": i.Content}
	if i.Stubborn {
		file.Config.Cmd = []string{"stubborn"}
	}
	image, err = mutate.ConfigFile(image, file)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// FirstProcess looks for the one process whose control groups name the container.
func (s *labSubject) FirstProcess(t *testing.T, id string) int32 {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		groups, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(groups), id) {
			continue // most processes are others, and some have gone
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		return int32(pid)
	}
	t.Fatalf("no process of container %s", id)
	return 0
}

func (s *labSubject) RegistryDown(t *testing.T) {
	t.Helper()
	do(t, s.Registry().Stop)
}

func (s *labSubject) RegistryUp(t *testing.T) {
	t.Helper()
	do(t, s.Registry().Start)
}

func (s *labSubject) Down(t *testing.T) {
	t.Helper()
	do(t, s.StopContainerd)
}

func (s *labSubject) Up(t *testing.T) {
	t.Helper()
	do(t, s.StartContainerd)
}

func do(t *testing.T, what func(context.Context) error) {
	t.Helper()
	if err := what(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// build returns the static binary of a package.
func build(t *testing.T, pkg string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
