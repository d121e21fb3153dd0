package history

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

const (
	// mostChanges are shown of one revision; the JSON form has all.
	mostChanges = 12
	// widest is a value that is shown whole.
	widest = 60
)

// Text returns the history for people.
func (h History) Text() string {
	var b strings.Builder
	width := len("REVISION")
	for _, e := range h.Revisions {
		width = max(width, len(e.Name))
	}
	fmt.Fprintf(&b, "%-7s %-*s  %-5s %s\n", "NUMBER", width, "REVISION", "AGE", "USED BY")
	for _, e := range h.Revisions {
		age := duration.HumanDuration(max(0, h.Now.Sub(e.Created.Time)))
		fmt.Fprintf(&b, "%-7d %-*s  %-5s %s\n", e.Number, width, e.Name, age, e.uses())
		for _, line := range e.content() {
			fmt.Fprintf(&b, "        %s\n", printers.EscapeTerminal(line))
		}
	}
	if h.Note != "" {
		fmt.Fprintf(&b, "\n%s\n", printers.EscapeTerminal(h.Note))
	}
	return b.String()
}

// uses says in a few words what refers to the revision.
func (e Entry) uses() string {
	var all []string
	say := func(is bool, word string) {
		if is {
			all = append(all, word)
		}
	}
	say(e.Declared, "declared now")
	say(e.Uses.Target, "target")
	say(e.Uses.Current, "current")
	say(len(e.Uses.Groups) > 0, count(len(e.Uses.Groups), "group"))
	say(len(e.Uses.Instances) > 0, count(len(e.Uses.Instances), "instance"))
	say(len(e.Uses.Updates) > 0, count(len(e.Uses.Updates), "open update"))
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// content says what changed, or, where there is nothing to compare with, which images there are.
func (e Entry) content() []string {
	if e.Problem != "" {
		return []string{"cannot be read: " + e.Problem}
	}
	if len(e.Changes) > 0 {
		return Lines(e.Changes)
	}
	var lines []string
	for _, i := range e.Images {
		lines = append(lines, fmt.Sprintf("%s.%s.containers[%s].image: %s", i.Role, strings.TrimSuffix(i.Template, "Template"), i.Container, cut(i.Image)))
	}
	return lines
}

// Lines says what changed, a line for each of the first changes.
func Lines(changes []Change) []string {
	var lines []string
	for i, c := range changes {
		if i == mostChanges {
			return append(lines, fmt.Sprintf("and %d more: -o json lists them", len(changes)-i))
		}
		lines = append(lines, c.String())
	}
	return lines
}

// String is the change in one line.
func (c Change) String() string {
	path := brief(c.Path)
	switch {
	case c.Before == nil:
		return path + ": added" + value(c.After)
	case c.After == nil:
		return path + ": removed" + value(c.Before)
	}
	return fmt.Sprintf("%s: %s -> %s", path, cut(text(c.Before)), cut(text(c.After)))
}

// value shows what was added or removed if it is short.
func value(v any) string {
	if s := text(v); len(s) <= widest {
		return " " + s
	}
	return ""
}

// brief leaves out of a path what is the same everywhere.
func brief(path string) string {
	if rest, ok := strings.CutPrefix(path, "roles["); ok {
		path = strings.Replace(rest, "]", "", 1)
	}
	return strings.NewReplacer(".entryTemplate.spec.", ".entry.", ".workerTemplate.spec.", ".worker.", ".entryTemplate.", ".entry.", ".workerTemplate.", ".worker.").Replace(path)
}

// cut shortens a value in the middle: both ends of an image's name tell something.
func cut(s string) string {
	r := []rune(s)
	if len(r) <= widest {
		return s
	}
	return string(r[:widest/2]) + "…" + string(r[len(r)-widest/2:])
}
