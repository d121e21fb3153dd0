package diagnose

import (
	"flag"
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
)

var rewrite = flag.Bool("rewrite", false, "rewrite the reasons in docs/operations.md")

// reasons returns the constants of type Reason that api declares, by name, as the source has
// them: a list kept by hand could lack the newest.
func reasons(t *testing.T) map[string]v1alpha1.Reason {
	t.Helper()
	files, err := filepath.Glob("../../../api/v1alpha1/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("find the API's source: %v, %d files", err, len(files))
	}
	found := map[string]v1alpha1.Reason{}
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
			if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "Reason" {
				return true
			}
			word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found[spec.Names[0].Name] = v1alpha1.Reason(word)
			return true
		})
	}
	if len(found) < 30 {
		t.Fatalf("only %d reasons found in the API's source", len(found))
	}
	return found
}

func TestEveryReasonIsExplained(t *testing.T) {
	for name, reason := range reasons(t) {
		text, ok := Explain(reason)
		if !ok || text.Why == "" || text.Way == "" {
			t.Errorf("%s (%s) lacks a text: %+v", name, reason, text)
		}
		if kind := KindOf(reason); kind == Unlisted || !strings.HasPrefix(name, string(kind)) {
			t.Errorf("%s (%s) is of kind %q", name, reason, kind)
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
}

// The handbook's table is made of the same texts; -rewrite brings it up to date.
func TestHandbookListsEveryReason(t *testing.T) {
	const (
		path  = "../../../docs/operations.md"
		start = "<!-- reasons: written by go test ./cmd/kubectl-pitstop/diagnose -rewrite -->\n"
		end   = "<!-- end of reasons -->\n"
	)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), start)
	have, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", path, start, end)
	}
	want := Handbook(reasonsInOrder(t))
	if *rewrite {
		if err := os.WriteFile(path, []byte(head+start+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func reasonsInOrder(t *testing.T) []v1alpha1.Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../api/v1alpha1/reasons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := reasons(t)
	var ordered []v1alpha1.Reason
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if reason, ok := all[spec.Names[0].Name]; ok {
				ordered = append(ordered, reason)
			}
		}
		return true
	})
	if len(ordered) != len(all) {
		t.Fatalf("%d reasons in reasons.go, %d in the API", len(ordered), len(all))
	}
	return ordered
}
