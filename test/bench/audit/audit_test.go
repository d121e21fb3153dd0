package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func line(name string) string {
	return fmt.Sprintf(`{"kind":"Event","verb":"patch","user":{"username":"agent"},"objectRef":{"resource":"pods","subresource":"status","namespace":"default","name":%q},"responseStatus":{"code":200},"stageTimestamp":"2026-01-02T03:04:05.678901Z"}`+"\n", name)
}

func write(name string) Write {
	return Write{User: "agent", Verb: "patch", Resource: "pods", Subresource: "status", Namespace: "default", Name: name, Code: 200, At: time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)}
}

func add(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, m *Mark, want ...Write) {
	t.Helper()
	got, err := m.Since()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Since() (-want +got):\n%s", diff)
	}
}

func TestSince(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	add(t, path, line("before"))
	m, err := End(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // only read
	expect(t, m)
	whole := line("c")
	add(t, path, line("a")+line("b")+whole[:20])
	expect(t, m, write("a"), write("b"))
	add(t, path, whole[20:])
	expect(t, m, write("c"))
	expect(t, m)

	add(t, path, line("last of the old file"))
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	add(t, path, line("first of the new file"))
	expect(t, m, write("last of the old file"), write("first of the new file"))
	add(t, path, line("d"))
	expect(t, m, write("d"))
}

func TestSinceRefusesWhatIsNoLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	add(t, path, "")
	m, err := End(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // only read
	add(t, path, "not an event\n")
	if _, err := m.Since(); err == nil {
		t.Error("a line that is no event was taken for none")
	}
}
