package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheHandbooksCommandsAreUnderstood reads them and runs none.
func TestTheHandbooksCommandsAreUnderstood(t *testing.T) {
	found := 0
	for _, file := range []string{"docs/development.md", "test/gpu/play/play.go"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range regexp.MustCompile(`\./test/gpu/cmd/gpus [^#\n]*`).FindAllString(string(text), -1) {
			found++
			words := strings.Fields(line)[1:]
			cmd, args, err := command().Find(words)
			if err == nil {
				err = cmd.ValidateArgs(args)
			}
			if err != nil || cmd.Name() != words[0] {
				t.Errorf("%s: %q: %v", file, line, err)
			}
		}
	}
	if found < 4 {
		t.Errorf("%d commands found", found)
	}
}
