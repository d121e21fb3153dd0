package binaries

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pitstop.dev/test/lab/await"
)

// A Config says where sources are and where binaries go.
type Config struct {
	Root  string    // of the repository
	Cache string    // folder of the cache
	Log   io.Writer // progress, for people
}

// A Set is the folders that hold the binaries, all complete.
type Set struct{ dirs map[string]string }

// buildLimit bounds a cold build, or the wait for somebody else's.
const buildLimit = 90 * time.Minute

// progressInterval is the time between two lines while a build runs.
const progressInterval = 15 * time.Second

// Path returns the full path of the binary called name.
func (s Set) Path(name string) string {
	for _, m := range modules() {
		if _, err := os.Lstat(filepath.Join(s.dirs[m.name], name)); err == nil {
			return filepath.Join(s.dirs[m.name], name)
		}
	}
	return name // starting it fails, and names it
}

// Cluster identifies the binaries that Kubernetes and its runtime consist of.
func (s Set) Cluster() string {
	return filepath.Base(s.dirs["kube"]) + " " + filepath.Base(s.dirs["runtime"])
}

// Ensure returns the binaries and builds those that the cache lacks. Two callers may do so
// at once, and a build that was interrupted leaves nothing that looks complete.
func Ensure(ctx context.Context, c Config) (Set, error) {
	set := Set{dirs: map[string]string{}}
	version, err := goTool(ctx, c.Root, "env", "GOVERSION").Output()
	if err != nil {
		return set, fmt.Errorf("the Go tool is needed to build the lab (https://go.dev/dl): %w", err)
	}
	for _, m := range modules() {
		hash, err := m.hash(c.Root, strings.TrimSpace(string(version)))
		if err != nil {
			return set, err
		}
		dir := filepath.Join(c.Cache, m.name+"-"+hash)
		if err := c.ensure(ctx, m, dir); err != nil {
			return set, err
		}
		set.dirs[m.name] = dir
	}
	return set, nil
}

func (c Config) ensure(ctx context.Context, m module, dir string) error {
	if complete(dir) {
		return nil
	}
	if err := os.MkdirAll(c.Cache, 0o755); err != nil {
		return err
	}
	unlock, err := Lock(ctx, dir+".lock", buildLimit)
	if err != nil {
		return err
	}
	defer unlock()
	if complete(dir) { // somebody else built it meanwhile
		return nil
	}
	temp := dir + ".new"
	if err := errors.Join(os.RemoveAll(temp), os.MkdirAll(temp, 0o755)); err != nil {
		return err
	}
	for _, b := range m.builds {
		if err := c.run(ctx, m, b, temp); err != nil {
			return err
		}
	}
	for name, target := range m.links {
		if err := os.Symlink(target, filepath.Join(temp, name)); err != nil {
			return err
		}
	}
	return os.Rename(temp, dir)
}

func complete(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

// run builds b into out and prints a line every now and then.
func (c Config) run(ctx context.Context, m module, b build, out string) error {
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	p := newProgress(c.Log, b.what)
	var output bytes.Buffer
	cmd := goTool(ctx, filepath.Join(c.Root, m.dir), b.args(out)...)
	cmd.Stderr = io.MultiWriter(&output, p)
	cmd.Stdout = cmd.Stderr // the same writer: no two writes at once
	stop := p.start()
	err := cmd.Run()
	stop()
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", b.what, err, lastLines(output.String()))
	}
	return nil
}

func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// goTool runs the Go tool as the module files want it, whatever the caller's settings are.
func goTool(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Lock takes the lock file at path, waiting up to limit for it; unlock lets it go. The end
// of the process does so too.
func Lock(ctx context.Context, path string, limit time.Duration) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = await.Until(ctx, "the lock "+path, limit, func(context.Context) error {
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// Root returns the root of the repository that contains the folder from.
func Root(from string) (string, error) {
	dir, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), "module pitstop.dev\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of pitstop.dev", from)
		}
	}
}
