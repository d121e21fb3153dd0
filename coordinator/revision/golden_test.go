package revision

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"pitstop.dev/api/v1alpha1"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files of testdata/v1 anew: every running Pod is then outdated")

// TestSameDeclarationSameBytes reads every spelling of a declaration. All have the bytes that stand in
// testdata/v1, and these are what is stored in clusters: later builds must come to the same.
func TestSameDeclarationSameBytes(t *testing.T) {
	var names strings.Builder
	for _, dir := range glob(t, "testdata/same/*") {
		golden := filepath.Join("testdata/v1", filepath.Base(dir)+".json")
		for _, file := range glob(t, dir+"/*.yaml") {
			d := project(t, spec(t, string(read(t, file))))
			data := encode(t, d)
			if *rewrite && file == glob(t, dir+"/*.yaml")[0] {
				write(t, golden, data)
				names.WriteString(derived(t, filepath.Base(dir), d))
			}
			if diff := cmp.Diff(pretty(t, read(t, golden)), pretty(t, data)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
			if string(data) != string(read(t, golden)) {
				t.Errorf("%s: the bytes differ", file)
			}
		}
	}
	if *rewrite {
		write(t, "testdata/v1/names.txt", []byte(names.String()))
	}
}

// TestStoredDataIsUnderstood reads what the first build stored.
func TestStoredDataIsUnderstood(t *testing.T) {
	var names strings.Builder
	for _, file := range glob(t, "testdata/v1/*.json") {
		d, err := Decode(holding(read(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(read(t, file)), string(encode(t, d))); diff != "" {
			t.Errorf("%s, encoded anew (-want +got):\n%s", file, diff)
		}
		names.WriteString(derived(t, strings.TrimSuffix(filepath.Base(file), ".json"), d))
	}
	if diff := cmp.Diff(string(read(t, "testdata/v1/names.txt")), names.String()); diff != "" {
		t.Errorf("names and digests, which stand on Pods (-want +got):\n%s", diff)
	}
}

// derived are the names that follow from the data.
func derived(t *testing.T, name string, d Data) string {
	t.Helper()
	ms := &v1alpha1.ModelServing{ObjectMeta: metav1.ObjectMeta{Name: name}}
	var lines strings.Builder
	for _, collisions := range []int32{0, 1} {
		cr, err := New(ms, d, 1, collisions)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "%s\n", cr.Name)
	}
	for _, r := range d.Roles {
		fmt.Fprintf(&lines, "\t%s %s\n", r.Name, d.RoleDigest(r.Name))
	}
	return lines.String()
}

func holding(data []byte) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "stored"},
		Data:       runtime.RawExtension{Raw: data},
	}
}

// spec reads a ModelServingSpec from YAML, strictly.
func spec(t *testing.T, text string) *v1alpha1.ModelServingSpec {
	t.Helper()
	var s v1alpha1.ModelServingSpec
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return &s
}

func project(t *testing.T, s *v1alpha1.ModelServingSpec) Data {
	t.Helper()
	before := s.DeepCopy()
	d, err := Project(s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s); diff != "" {
		t.Fatalf("Project changed the spec (-before +after):\n%s", diff)
	}
	return d
}

func encode(t *testing.T, d Data) []byte {
	t.Helper()
	data, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func pretty(t *testing.T, data []byte) string {
	t.Helper()
	text, err := yaml.JSONToYAML(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	slices.Sort(files)
	return files
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
