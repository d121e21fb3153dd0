package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "file")
	holds := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("holds %q, %v, want %q", got, err, want)
		}
	}
	for _, text := range []string{"a long text", "short", ""} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		holds(text)
	}
	if err := Replace(path, []byte("last")); err != nil {
		t.Fatal(err)
	}
	// What a crash has left is in the way of nobody.
	if err := os.WriteFile(path+".new", []byte("half of something long"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds("last")
	if err := Replace(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	holds("new")
	// What cannot be written leaves the file as it is.
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("lost")); err == nil {
		t.Error("no error")
	}
	holds("new")
}
