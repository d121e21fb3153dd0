package history_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/golden"
	"pitstop.dev/cmd/kubectl-pitstop/history"
	"pitstop.dev/cmd/kubectl-pitstop/order"
	"pitstop.dev/coordinator/revision"
)

var now = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

// spec declares a role prefill with workers and a role decode.
func spec(image string) v1alpha1.ModelServingSpec {
	container := func(name, image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image, Args: []string{"--tp", "8"}}}}}
	}
	return v1alpha1.ModelServingSpec{
		Replicas: new(int32(4)),
		Template: v1alpha1.ServingGroupTemplate{Roles: []v1alpha1.Role{
			{Name: "prefill", Replicas: new(int32(2)), WorkerReplicas: 2, EntryTemplate: container("engine", image), WorkerTemplate: new(container("worker", image))},
			{Name: "decode", EntryTemplate: container("engine", image)},
		}},
	}
}

// facts are those of a ModelServing with these revisions, one a day, that declares the last of them.
// Two groups are pinned to the last and two to the one before.
func facts(t *testing.T, specs ...v1alpha1.ModelServingSpec) history.Facts {
	t.Helper()
	f := history.Facts{Now: now, Serving: &v1alpha1.ModelServing{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm", UID: "ms-uid", ResourceVersion: "9"},
		Spec:       *specs[len(specs)-1].DeepCopy(),
	}}
	for i, s := range specs {
		data, err := revision.Project(&s)
		if err != nil {
			t.Fatal(err)
		}
		cr, err := revision.New(f.Serving, data, int64(i+1), 0)
		if err != nil {
			t.Fatal(err)
		}
		cr.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(i-len(specs)) * 24 * time.Hour))
		f.Revisions = append([]*appsv1.ControllerRevision{cr}, f.Revisions...) // in no order
	}
	f.Serving.Status.UpdateRevision = f.Revisions[0].Name
	f.Serving.Status.CurrentRevision = f.Revisions[min(1, len(specs)-1)].Name
	for n := range int32(4) {
		sg := &v1alpha1.ServingGroup{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ServingGroupName("llm", n), OwnerReferences: []metav1.OwnerReference{{UID: "ms-uid", Controller: new(true)}}},
			Spec:       v1alpha1.ServingGroupSpec{Ordinal: new(n), Revision: f.Serving.Status.CurrentRevision},
		}
		if n > 1 {
			sg.Spec.Revision = f.Serving.Status.UpdateRevision
		}
		f.Groups = append(f.Groups, sg)
	}
	return f
}

// manyFields changes a field of each kind.
func manyFields(s *v1alpha1.ModelServingSpec) {
	s.SchedulerName = "volcano"
	entry := &s.Template.Roles[0].EntryTemplate
	entry.Labels = map[string]string{"app.kubernetes.io/part-of": "llm"}
	entry.Spec.TerminationGracePeriodSeconds = new(int64(60))
	c := &entry.Spec.Containers[0]
	c.Image = "registry.example.com/a-team-with-a-long-name/a-model-server-with-a-long-name:v2@sha256:0123456789abcdef"
	c.Args = []string{"--tp", "4"}
	c.Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
	c.Ports = []corev1.ContainerPort{{ContainerPort: 8000}}
	entry.Spec.Containers = append(entry.Spec.Containers, corev1.Container{Name: "proxy", Image: "r/proxy:v1"})
	s.Template.Roles[0].WorkerReplicas = 3
	s.Template.Roles[1].Name = "router"
}

func TestHistory(t *testing.T) {
	changed := func(change func(*v1alpha1.ModelServingSpec)) v1alpha1.ModelServingSpec {
		s := spec("r/engine:v1")
		change(&s)
		return s
	}
	for name, f := range map[string]history.Facts{
		"one revision": facts(t, spec("r/engine:v1")),
		"three revisions": facts(t, spec("r/engine:v1"), spec("r/engine:v2"), changed(func(s *v1alpha1.ModelServingSpec) {
			s.Template.Roles[1].EntryTemplate.Spec.Containers[0].Image = "r/engine:v3"
		})),
		"many fields": facts(t, spec("r/engine:v1"), changed(manyFields)),
		"a list grows": facts(t, spec("r/engine:v1"), changed(func(s *v1alpha1.ModelServingSpec) {
			s.Template.Roles[1].EntryTemplate.Spec.Containers[0].Args = []string{"--tp", "8", "--verbose"}
		})),
		"an order changes": facts(t, changed(func(s *v1alpha1.ModelServingSpec) {
			s.Template.Roles[1].EntryTemplate.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}
		}), changed(func(s *v1alpha1.ModelServingSpec) {
			s.Template.Roles[1].EntryTemplate.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "B", Value: "2"}, {Name: "A", Value: "1"}, {Name: "C", Value: "3"}}
		})),
		"unreadable": with(facts(t, spec("r/engine:v1"), spec("r/engine:v2"), spec("r/engine:v3")), func(f *history.Facts) {
			f.Revisions[1].Data.Raw = []byte(`{"version":"v9"}`)
		}),
		"not stored yet": with(facts(t, spec("r/engine:v1"), spec("r/engine:v2")), func(f *history.Facts) { f.Serving.Spec = spec("r/engine:v3") }),
		"none":           with(facts(t, spec("r/engine:v1")), func(f *history.Facts) { f.Revisions = nil }),
		"of others": with(facts(t, spec("r/engine:v1"), spec("r/engine:v2")), func(f *history.Facts) {
			f.Revisions[1].OwnerReferences[0].UID = "other"
			f.Groups[3].OwnerReferences[0].UID = "other"
		}),
		"in the middle of updates": with(facts(t, spec("r/engine:v1"), spec("r/engine:v2")), func(f *history.Facts) {
			f.Groups[0].Spec.Instances = []v1alpha1.RoleInstance{{Role: "prefill", Ordinal: new(int32(1)), Revision: f.Revisions[0].Name}}
			f.Groups[0].Spec.Updates = []v1alpha1.UnitUpdate{{Unit: "prefill-0", Target: f.Revisions[0].Name, Previous: f.Revisions[1].Name}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			golden.Compare(t, name+".txt", history.Of(f).Text())
		})
	}
}

// The JSON form is a contract: scripts read it.
func TestHistoryAsJSON(t *testing.T) {
	f := facts(t, spec("r/engine:v1"), spec("r/engine:v2"))
	data, err := json.MarshalIndent(history.Of(f), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "history.json", string(data)+"\n")
}

func with(f history.Facts, change func(*history.Facts)) history.Facts {
	change(&f)
	return f
}

func TestUndo(t *testing.T) {
	three := func() history.Facts { return facts(t, spec("r/engine:v1"), spec("r/engine:v2"), spec("r/engine:v3")) }
	for name, tt := range map[string]struct {
		facts  history.Facts
		number int64
		want   int64 // the revision gone back to
		refuse []string
	}{
		"to the one before":           {three(), history.Before, 2, nil},
		"to a number":                 {three(), 1, 1, nil},
		"before it was taken up":      {with(three(), func(f *history.Facts) { f.Serving.Spec = spec("r/engine:v4") }), history.Before, 3, nil},
		"declared again, not stored":  {with(three(), func(f *history.Facts) { f.Serving.Spec = spec("r/engine:v1") }), history.Before, 3, nil},
		"to a number that is not":     {three(), 7, 0, []string{"modelserving ns/llm has no revision 7", "there are: 1, 2, 3 (declared now)"}},
		"to the declared one":         {three(), 3, 0, []string{"declares already what revision 3 says"}},
		"nothing before":              {facts(t, spec("r/engine:v1")), history.Before, 0, []string{"no stored revision before", "there are: 1 (declared now)"}},
		"nothing stored":              {with(three(), func(f *history.Facts) { f.Revisions = nil }), history.Before, 0, []string{"no revision is stored"}},
		"the one before is damaged":   {with(three(), func(f *history.Facts) { f.Revisions[1].Data.Raw = []byte("{") }), history.Before, 0, []string{"revision 2 of modelserving ns/llm cannot be read", "2 (cannot be read)"}},
		"past a damaged one":          {with(three(), func(f *history.Facts) { f.Revisions[1].Data.Raw = []byte("{") }), 1, 1, nil},
		"the one before is another's": {with(three(), func(f *history.Facts) { f.Revisions[1].OwnerReferences[0].UID = "other" }), history.Before, 1, nil},
		"the one before is leaving":   {with(three(), func(f *history.Facts) { f.Revisions[1].DeletionTimestamp = new(metav1.NewTime(now)) }), history.Before, 1, nil},
		"being deleted":               {with(three(), func(f *history.Facts) { f.Serving.DeletionTimestamp = new(metav1.NewTime(now)) }), history.Before, 0, []string{"is being deleted"}},
		"what no revision can say":    {with(three(), func(f *history.Facts) { f.Serving.Spec.Template.Roles[0].WorkerTemplate = nil }), history.Before, 0, []string{"cannot be compared"}},
	} {
		t.Run(name, func(t *testing.T) {
			undo, err := history.To(tt.facts, tt.number)
			var refusal *order.RefusalError
			switch {
			case tt.refuse == nil:
				if err != nil || undo.Number != tt.want || len(undo.Changes) == 0 {
					t.Errorf("To() = %+v, %v, want revision %d", undo, err, tt.want)
				}
			case !errors.As(err, &refusal):
				t.Errorf("To() = %+v, %v, want a refusal", undo, err)
			default:
				for _, word := range tt.refuse {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("error lacks %q: %v", word, err)
					}
				}
			}
		})
	}
}

// A patch declares the revision and nothing else: what is not versioned stays, also what this build
// does not know.
func TestUndoPatch(t *testing.T) {
	old, today := spec("r/engine:v1"), spec("r/engine:v2")
	old.SchedulerName = "volcano"
	old.Template.Roles = append(old.Template.Roles, v1alpha1.Role{Name: "cache", EntryTemplate: old.Template.Roles[1].EntryTemplate})
	today.Replicas, today.Paused = new(int32(7)), true
	today.Template.Roles[0].Replicas, today.Template.Roles[0].Partition = new(int32(5)), new(intstr.FromInt32(1))
	today.Template.Roles = append(today.Template.Roles, v1alpha1.Role{Name: "router", EntryTemplate: today.Template.Roles[1].EntryTemplate})
	today.RolloutStrategy.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{Partition: new(intstr.FromInt32(2))}
	f := facts(t, old, today)
	read, err := runtime.DefaultUnstructuredConverter.ToUnstructured(f.Serving)
	if err != nil {
		t.Fatal(err)
	}
	read["spec"].(map[string]any)["template"].(map[string]any)["roles"].([]any)[0].(map[string]any)["later"] = "kept"
	undo, err := history.To(f, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"role router is not in the revision and goes", "role cache comes back with 1 replica",
		"the ModelServing is paused: the rollout starts with `kubectl pitstop resume llm`",
		"the partition stays 2: groups with an ordinal below it keep the revision that they have",
	}
	if diff := cmp.Diff(want, undo.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	patch, err := undo.Patch(read)
	if err != nil {
		t.Fatal(err)
	}
	got := patched(t, read, patch)
	if got.UID != "ms-uid" || got.ResourceVersion != "9" || !strings.Contains(string(patch), `"resourceVersion":"9"`) || !strings.Contains(string(patch), `"later":"kept"`) {
		t.Errorf("patch %s", patch)
	}
	expected := f.Serving.DeepCopy()
	expected.Spec.SchedulerName = "volcano"
	roles := expected.Spec.Template.Roles
	for i := range roles[:2] {
		roles[i].EntryTemplate, roles[i].WorkerTemplate = old.Template.Roles[i].EntryTemplate, old.Template.Roles[i].WorkerTemplate
	}
	expected.Spec.Template.Roles = append(roles[:2], v1alpha1.Role{Name: "cache", Replicas: new(int32(1)), EntryTemplate: old.Template.Roles[2].EntryTemplate})
	if diff := cmp.Diff(expected.Spec, got.Spec); diff != "" {
		t.Errorf("declared (-want +got):\n%s", diff)
	}
}

// patched is what a merge patch makes of a ModelServing, if it is one of these fields alone.
func patched(t *testing.T, read map[string]any, patch []byte) v1alpha1.ModelServing {
	t.Helper()
	var ms v1alpha1.ModelServing
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read, &ms); err != nil {
		t.Fatal(err)
	}
	var fields struct {
		Metadata struct{ UID, ResourceVersion string }
		Spec     struct {
			SchedulerName *string
			Template      struct {
				Roles []v1alpha1.Role
			}
		}
	}
	var keys struct {
		Metadata, Spec map[string]any
	}
	if err := json.Unmarshal(patch, &keys); err != nil || len(keys.Metadata) != 2 || len(keys.Spec) != 2 || len(keys.Spec["template"].(map[string]any)) != 1 {
		t.Fatalf("patch %s: %v", patch, err)
	}
	if err := json.Unmarshal(patch, &fields); err != nil {
		t.Fatal(err)
	}
	ms.Spec.SchedulerName = ptr.Deref(fields.Spec.SchedulerName, "")
	ms.Spec.Template.Roles = fields.Spec.Template.Roles
	ms.UID, ms.ResourceVersion = types.UID(fields.Metadata.UID), fields.Metadata.ResourceVersion
	return ms
}
