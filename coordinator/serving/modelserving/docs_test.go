package modelserving_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/admission"
	"pitstop.dev/coordinator/plan"
)

const root = "../../../"

// The samples are read strictly, pass admission, and come up.
func TestSamplesComeUp(t *testing.T) {
	files, err := filepath.Glob(root + "deploy/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var ms v1alpha1.ModelServing
			if err := yaml.UnmarshalStrict(data, &ms); err != nil {
				t.Fatal(err)
			}
			if warnings, errs := admission.Validate(nil, &ms); len(warnings) > 0 || len(errs) > 0 {
				t.Errorf("admission: %v, %v", warnings, errs)
			}
			ms.Namespace, ms.Name = namespace, "ms"
			w := newWorld(t, &ms)
			w.decide = plan.Decide
			w.settle()
			st := w.serving().Status
			if st.ReadyReplicas != *ms.Spec.Replicas || conditionOf(w.serving(), v1alpha1.ConditionProgressing).Reason != "Complete" && ms.Spec.RolloutStrategy.MinReadySeconds == 0 {
				t.Errorf("status %+v", st)
			}
			for name, sg := range w.groups() {
				want := int32(0)
				for _, r := range ms.Spec.Template.Roles {
					want += *r.Replicas
				}
				if int32(len(sg.Spec.Instances)) != want {
					t.Errorf("%s has %d instances, want %d", name, len(sg.Spec.Instances), want)
				}
			}
		})
	}
}

// constants are the values of the string constants of a file whose names start with a prefix.
func constants(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, name := range spec.Names {
				if lit, ok := spec.Values[i].(*ast.BasicLit); ok {
					values[name.Name] = strings.Trim(lit.Value, `"`)
				}
			}
		}
		return true
	})
	return values
}

func TestTheHandbookExplainsEveryReason(t *testing.T) {
	page, err := os.ReadFile(root + "docs/modelserving.md")
	if err != nil {
		t.Fatal(err)
	}
	reasons := constants(t, root+"api/v1alpha1/reasons_workload.go")
	if len(reasons) < 30 {
		t.Fatalf("%d reasons found", len(reasons))
	}
	for name, reason := range reasons {
		if !strings.Contains(string(page), "`"+reason+"`") {
			t.Errorf("docs/modelserving.md lacks %s, %q", name, reason)
		}
	}
}
