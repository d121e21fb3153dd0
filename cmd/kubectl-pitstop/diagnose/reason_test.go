package diagnose

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/golden"
)

// A constant is one word of a closed list as the source has it.
type constant struct{ name, word string }

// constants returns the constants of a type that api declares, in the order of the source: a list
// kept by hand could lack the newest.
func constants(t *testing.T, of string) []constant {
	t.Helper()
	files, err := filepath.Glob("../../../api/v1alpha1/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("find the API's source: %v, %d files", err, len(files))
	}
	var found []constant
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if declared, ok := spec.Type.(*ast.Ident); !ok || declared.Name != of {
				return true
			}
			word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, constant{spec.Names[0].Name, word})
			return true
		})
	}
	return found
}

// words returns the constants of a type as values of it, and fails the test if there are fewer
// than are known to be.
func words[T ~string](t *testing.T, of string, atLeast int) []T {
	t.Helper()
	var all []T
	for _, c := range constants(t, of) {
		all = append(all, T(c.word))
	}
	if len(all) < atLeast {
		t.Fatalf("only %d constants of type %s found in the API's source", len(all), of)
	}
	return all
}

func TestEveryReasonIsExplained(t *testing.T) {
	for _, c := range constants(t, "Reason") {
		name, reason := c.name, v1alpha1.Reason(c.word)
		text, ok := Explain(reason)
		if !ok || text.Why == "" || text.Way == "" {
			t.Errorf("%s (%s) lacks a text: %+v", name, reason, text)
		}
		if kind := KindOf(reason); kind == Unlisted || !strings.HasPrefix(name, string(kind)) {
			t.Errorf("%s (%s) is of kind %q", name, reason, kind)
		}
	}
}

func TestEveryReasonOfAWorkloadIsExplained(t *testing.T) {
	for _, c := range constants(t, "ConditionReason") {
		text, ok := ExplainCondition(v1alpha1.ConditionReason(c.word))
		if !ok || text.Why == "" || text.Way == "" {
			t.Errorf("%s (%s) lacks a text: %+v", c.name, c.word, text)
		}
		prefix := ConditionOf(v1alpha1.ConditionReason(c.word))
		if prefix == v1alpha1.ConditionReady {
			prefix = "Group" // Ready is a condition of ServingGroups alone
		}
		if prefix == "" || !strings.Contains(c.name, prefix) {
			t.Errorf("%s (%s) belongs to condition %q", c.name, c.word, prefix)
		}
	}
	for _, c := range constants(t, "UnitReason") {
		text, ok := ExplainUnit(v1alpha1.UnitReason(c.word))
		if !ok || text.Why == "" || text.Way == "" {
			t.Errorf("%s (%s) lacks a text: %+v", c.name, c.word, text)
		}
	}
}

func TestEveryReasonOfAGPUIsExplained(t *testing.T) {
	for _, c := range constants(t, "GPUReason") {
		r := v1alpha1.GPUReason(c.word)
		if text, ok := ExplainGPU(r); !ok || text.Why == "" || text.Way == "" {
			t.Errorf("%s (%s) lacks a text: %+v", c.name, r, text)
		}
		if status := StatusOfGPU(r); status == "" || !strings.HasPrefix(c.name, "GPU"+string(status)) {
			t.Errorf("%s (%s) goes with status %q", c.name, r, status)
		}
	}
}

func TestAnUnknownReasonIsNotExplained(t *testing.T) {
	if text, ok := Explain("NoSuchReason"); ok {
		t.Errorf("Explain() = %+v", text)
	}
	if kind := KindOf("NoSuchReason"); kind != Unlisted {
		t.Errorf("KindOf() = %q", kind)
	}
	if text, ok := ExplainCondition("NoSuchReason"); ok || ConditionOf("NoSuchReason") != "" {
		t.Errorf("ExplainCondition() = %+v", text)
	}
	if text, ok := ExplainUnit("NoSuchReason"); ok {
		t.Errorf("ExplainUnit() = %+v", text)
	}
	if text, ok := ExplainGPU("NoSuchReason"); ok || StatusOfGPU("NoSuchReason") != "" {
		t.Errorf("ExplainGPU() = %+v", text)
	}
}

// The handbook's tables are made of the same texts; -rewrite brings them up to date.
func TestHandbookListsEveryReason(t *testing.T) {
	const path = "../../../docs/operations.md"
	for name, want := range map[string]string{
		"reasons":          Handbook(words[v1alpha1.Reason](t, "Reason", 40)),
		"workload reasons": WorkloadHandbook(words[v1alpha1.ConditionReason](t, "ConditionReason", 20), words[v1alpha1.UnitReason](t, "UnitReason", 5)),
		"GPU reasons":      GPUHandbook(words[v1alpha1.GPUReason](t, "GPUReason", 12)),
	} {
		start := "<!-- " + name + ": written by go test ./cmd/kubectl-pitstop/diagnose -rewrite -->\n"
		end := "<!-- end of " + name + " -->\n"
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, ok := strings.Cut(string(data), start)
		have, tail, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s lacks the marks %q and %q", path, start, end)
		}
		if golden.Rewrite() {
			if err := os.WriteFile(path, []byte(head+start+want+end+tail), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", path, name, diff)
		}
	}
}
