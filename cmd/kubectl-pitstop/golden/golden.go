// Package golden compares what tests print with files in their testdata, and with -rewrite writes these anew
// for somebody to review. Only tests import it.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//nolint:gochecknoglobals // a flag of tests has to be there before testing parses them
var rewrite = flag.Bool("rewrite", false, "rewrite the golden files, and what is generated into docs")

// Rewrite reports whether files are to be written anew.
func Rewrite() bool { return *rewrite }

// Compare compares text with the file of that name in testdata. Blanks in the name are written as hyphens, and
// commas left out.
func Compare(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", strings.NewReplacer(" ", "-", ",", "").Replace(name))
	if Rewrite() {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
