package binaries

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pitstop.dev/test/lab/await"
)

// repository writes a module with one program and returns its root and description.
func repository(t *testing.T) (string, module) {
	t.Helper()
	root := t.TempDir()
	write(t, root, "go.mod", "module pitstop.dev\n\ngo 1.26.0\n")
	write(t, root, "hello/main.go", "package main\n\nfunc main() { print(\"hello\") }\n")
	return root, module{
		name: "own", dir: ".", sources: []string{"go.mod", "hello"},
		builds: []build{{what: "hello", packages: []string{"./hello"}, ldflags: "-s"}},
		links:  map[string]string{"hallo": "hello"},
	}
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestHash(t *testing.T) {
	root, m := repository(t)
	hash := func(m module, version string) string {
		t.Helper()
		h, err := m.hash(root, version)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hash(m, "go1.26.0")
	write(t, root, "hello/main_test.go", "package main\n")
	if hash(m, "go1.26.0") != first {
		t.Error("a test changes the hash")
	}
	if hash(m, "go1.26.1") == first {
		t.Error("another Go version has the same hash")
	}
	flags := m
	flags.builds = []build{{what: "hello", packages: []string{"./hello"}, ldflags: "-s -w"}}
	if hash(flags, "go1.26.0") == first {
		t.Error("other flags have the same hash")
	}
	write(t, root, "hello/more.go", "package main\n")
	if hash(m, "go1.26.0") == first {
		t.Error("another source has the same hash")
	}
	m.sources = append(m.sources, "missing")
	if _, err := m.hash(root, "go1.26.0"); err == nil {
		t.Error("a missing source is no error")
	}
}

func TestEnsureBuildsOnceForTwoCallers(t *testing.T) {
	root, m := repository(t)
	var log safeBuffer
	c := Config{Root: root, Cache: t.TempDir(), Log: &log}
	dir := filepath.Join(c.Cache, "own-1")
	write(t, dir+".new", "hello", "what an interrupted build left")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := c.ensure(t.Context(), m, dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	out, err := exec.Command(filepath.Join(dir, "hallo")).CombinedOutput()
	if err != nil || string(out) != "hello" {
		t.Errorf("program says %q, %v", out, err)
	}
	if n := strings.Count(log.String(), "building hello\n"); n != 1 {
		t.Errorf("built %d times:\n%s", n, log.String())
	}
}

func TestEnsureLeavesNothingCompleteWhenABuildFails(t *testing.T) {
	root, m := repository(t)
	write(t, root, "hello/main.go", "package main\n\nfunc main() { nonsense() }\n")
	c := Config{Root: root, Cache: t.TempDir(), Log: &safeBuffer{}}
	dir := filepath.Join(c.Cache, "own-1")
	err := c.ensure(t.Context(), m, dir)
	if err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("ensure() = %v, want the compiler's message", err)
	}
	if complete(dir) {
		t.Error("a failed build looks complete")
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(t.Context(), path, 2*await.Interval); err == nil {
		t.Error("took a lock that is held")
	}
	unlock()
	unlock, err = Lock(t.Context(), path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestRoot(t *testing.T) {
	root, _ := repository(t)
	write(t, root, "a/go.mod", "module pitstop.dev/a\n")
	write(t, root, "a/b/x", "")
	if got, err := Root(filepath.Join(root, "a/b")); err != nil || got != root {
		t.Errorf("Root() = %q, %v; want %q", got, err, root)
	}
	if _, err := Root(t.TempDir()); err == nil {
		t.Error("found the repository outside of it")
	}
}

func TestTheSourcesOfAllModulesExist(t *testing.T) {
	root, err := Root(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules() {
		if _, err := m.hash(root, "go"); err != nil {
			t.Error(err)
		}
	}
}

func TestProgressCountsPackages(t *testing.T) {
	var log safeBuffer
	p := newProgress(&log, "it")
	stop := p.start()
	_, err := p.Write([]byte("a\nb\n"))
	stop()
	if err != nil || !strings.Contains(log.String(), "built it: 0s, 2 packages compiled\n") {
		t.Errorf("%v, log:\n%s", err, log.String())
	}
}

// safeBuffer is a bytes.Buffer for several goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
