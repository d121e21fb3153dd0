package pins

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/revision"
)

// stored is a revision of two roles, of which decode has this image.
func stored(t *testing.T, name, decode string) *appsv1.ControllerRevision {
	t.Helper()
	role := func(name, image string) v1alpha1.Role {
		return v1alpha1.Role{Name: name, EntryTemplate: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: image}}}}}
	}
	ms := &v1alpha1.ModelServing{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm"}}
	ms.Spec.Template.Roles = []v1alpha1.Role{role("decode", decode), role("prefill", "v1")}
	data, err := revision.Project(&ms.Spec)
	if err != nil {
		t.Fatal(err)
	}
	cr, err := revision.New(ms, data, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	cr.Name = name
	return cr
}

func TestSame(t *testing.T) {
	damaged := stored(t, "damaged", "v1")
	damaged.Data.Raw = []byte("{")
	p := Of([]*appsv1.ControllerRevision{
		stored(t, "first", "v1"), stored(t, "decode-new", "v2"), stored(t, "again", "v1"), damaged,
	})
	for name, tt := range map[string]struct {
		unit Unit
		a, b string
		want bool
	}{
		"one revision":                      {Unit{"ns", "decode"}, "first", "first", true},
		"a role that changes":               {Unit{"ns", "decode"}, "first", "decode-new", false},
		"a role that does not":              {Unit{"ns", "prefill"}, "first", "decode-new", true},
		"a group of which a role changes":   {Unit{"ns", ""}, "first", "decode-new", false},
		"a group of which none does":        {Unit{"ns", ""}, "first", "again", true},
		"a role that is in neither":         {Unit{"ns", "router"}, "first", "again", false},
		"one that was not read":             {Unit{"ns", "decode"}, "first", "nowhere", false},
		"neither was read":                  {Unit{"ns", ""}, "there", "nowhere", false},
		"not read, and the same":            {Unit{"ns", ""}, "nowhere", "nowhere", true},
		"one cannot be read":                {Unit{"ns", "prefill"}, "first", "damaged", false},
		"of that name in another namespace": {Unit{"other", ""}, "first", "again", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := p.Same(tt.unit, tt.a, tt.b); got != tt.want {
				t.Errorf("Same() = %t", got)
			}
		})
	}
	if Pins(nil).Same(Unit{"ns", ""}, "first", "again") {
		t.Error("nothing was read, and two names are the same")
	}
}
