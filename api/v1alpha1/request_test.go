package v1alpha1

import (
	"strings"
	"testing"
)

func TestARequestIsReadAsItIsWritten(t *testing.T) {
	for _, want := range [][2]string{{"1", ""}, {"6b1f-4c", "llm-0"}, {"x", "llm-0/decode-1"}, {"x", strings.Repeat("y", 340)}} {
		id, unit, ok := ParseRequest(FormatRequest(want[0], want[1]))
		if !ok || id != want[0] || unit != want[1] {
			t.Errorf("%q: %q, %q, %t", want, id, unit, ok)
		}
	}
}

// What cannot be read has an id all the same, by which it is answered once.
func TestARequestThatCannotBeRead(t *testing.T) {
	for _, value := range []string{"", "  ", "a b c", strings.Repeat("x", 65), "x " + strings.Repeat("y", 341), "x " + strings.Repeat("y", 500), strings.Repeat("é", 40)} {
		if id, unit, ok := ParseRequest(value); ok || len(id) > 64 || unit != "" || id == "" && strings.TrimSpace(value) != "" {
			t.Errorf("%q: %q, %q, %t", value, id, unit, ok)
		}
	}
}
