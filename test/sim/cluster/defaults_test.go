package cluster

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"pitstop.dev/api/v1alpha1"
)

// crdSchema is what of a CRD's crdSchema the defaults are in.
type crdSchema struct {
	Default    any                  `json:"default"`
	Properties map[string]crdSchema `json:"properties"`
	Items      *crdSchema           `json:"items"`
}

// fill puts the defaults into a value, as the API server does.
func (s crdSchema) fill(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, p := range s.Properties {
			if _, there := v[name]; !there && p.Default != nil {
				v[name] = clean(p.Default)
			}
			p.fill(v[name])
		}
	case []any:
		for _, item := range v {
			if s.Items != nil {
				s.Items.fill(item)
			}
		}
	}
}

// clean copies a value that a crdSchema shares.
func clean(value any) any {
	if m, ok := value.(map[string]any); ok {
		out := map[string]any{}
		for k, v := range m {
			out[k] = clean(v)
		}
		return out
	}
	return value
}

func specSchema(t *testing.T, file string) crdSchema {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/crd/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema crdSchema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

func TestDefaultsAreThoseOfTheCRDs(t *testing.T) {
	role := v1alpha1.Role{Name: "a"}
	for name, tt := range map[string]struct {
		file string
		in   client.Object
		out  client.Object
	}{
		"a ModelServing that says nothing": {
			"pitstop.dev_modelservings.yaml",
			&v1alpha1.ModelServing{Spec: v1alpha1.ModelServingSpec{Template: v1alpha1.ServingGroupTemplate{Roles: []v1alpha1.Role{role}}}},
			&v1alpha1.ModelServing{},
		},
		"a ModelServing with half of a budget": {
			"pitstop.dev_modelservings.yaml",
			&v1alpha1.ModelServing{Spec: v1alpha1.ModelServingSpec{RolloutStrategy: v1alpha1.RolloutStrategy{
				RollingUpdateConfiguration: &v1alpha1.RollingUpdateConfiguration{MaxSurge: new(intstr.FromInt32(2))},
			}}},
			&v1alpha1.ModelServing{},
		},
		"an order that says nothing": {"pitstop.dev_inplaceupdates.yaml", &v1alpha1.InPlaceUpdate{}, &v1alpha1.InPlaceUpdate{}},
		"an order with a drain": {
			"pitstop.dev_inplaceupdates.yaml",
			&v1alpha1.InPlaceUpdate{Spec: v1alpha1.InPlaceUpdateSpec{Drain: &v1alpha1.Drain{}}},
			&v1alpha1.InPlaceUpdate{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			var object map[string]any
			if err := json.Unmarshal(data, &object); err != nil {
				t.Fatal(err)
			}
			specSchema(t, tt.file).fill(object["spec"])
			if data, err = json.Marshal(object); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, tt.out); err != nil {
				t.Fatal(err)
			}
			setDefaults(tt.in)
			if diff := cmp.Diff(tt.out, tt.in); diff != "" {
				t.Errorf("defaults (-CRD +simulation):\n%s", diff)
			}
		})
	}
}
