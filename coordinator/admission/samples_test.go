package admission_test

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/admission"
)

// TestSamples: what users copy is accepted, without a warning.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob("../../deploy/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var ms v1alpha1.ModelServing
		if err := yaml.UnmarshalStrict(data, &ms); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		warnings, errs := admission.Validate(nil, &ms)
		if len(warnings) > 0 || len(errs) > 0 {
			t.Errorf("%s: errors %v, warnings %q", file, errs.ToAggregate(), warnings)
		}
	}
}
