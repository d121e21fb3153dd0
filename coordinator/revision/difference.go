package revision

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// difference is a field that two values read from JSON do not have in common. nil is its absence.
type difference struct {
	path     string
	old, new any
}

// String says it in words.
func (d difference) String() string {
	if d.old == nil {
		return d.path + " is added: " + shown(d.new)
	}
	if d.new == nil {
		return d.path + " is removed: " + shown(d.old)
	}
	old, updated := text(d.old), text(d.new)
	n := 0
	if max(len(old), len(updated)) > enough {
		n = common(old, updated)
	}
	return d.path + " changes from " + shorten(old, n) + " to " + shorten(updated, n)
}

// enough is how many characters of a value are shown.
const enough = 80

func shown(v any) string { return shorten(text(v), 0) }

// shorten leaves the first n bytes out, and what is too much.
func shorten(s string, n int) string {
	const before = 16 // what of the same is left, as a context
	if n > before {
		s = "..." + strings.ToValidUTF8(s[n-before:], "")
	}
	if runes := []rune(s); len(runes) > enough {
		s = string(runes[:enough]) + "..."
	}
	return s
}

// common is the length of what both start with.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// differences returns all, in the order of their paths. What one side lacks is one difference, however
// much it is, and is named down to the one field that it has.
func differences(path string, a, b any) []difference {
	x, left := a.(map[string]any)
	y, right := b.(map[string]any)
	if left && right || left && b == nil && len(x) == 1 || right && a == nil && len(y) == 1 {
		return fieldDifferences(path, x, y)
	}
	list, left := a.([]any)
	other, right := b.([]any)
	switch {
	case left && right, left && b == nil, right && a == nil:
		return listDifferences(path, list, other)
	case text(a) == text(b):
		return nil
	}
	return []difference{{path, a, b}}
}

func fieldDifferences(path string, x, y map[string]any) []difference {
	var out []difference
	keys := slices.Collect(maps.Keys(x))
	keys = slices.AppendSeq(keys, maps.Keys(y))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		out = append(out, differences(child(path, key), x[key], y[key])...)
	}
	return out
}

// fieldName is what a field of the API may be named; all else is a key of a map.
var fieldName = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)

func child(path, key string) string {
	if fieldName.MatchString(key) {
		return path + "." + key
	}
	return path + "[" + key + "]"
}
