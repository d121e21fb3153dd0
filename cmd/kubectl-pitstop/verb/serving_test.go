package verb_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/revision"
)

// newServingBench has ModelServing llm with one group of one Pod, two revisions of which it declares the
// second, and a live coordinator.
func newServingBench(t *testing.T, change ...func(*v1alpha1.ModelServing)) *bench {
	t.Helper()
	ms := serving("r/engine:v2")
	for _, c := range change {
		c(ms)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "pitstop-system", Name: "pitstop-coordinator"}}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-time.Second)}
	core := []runtime.Object{lease, member()}
	for i, image := range []string{"r/engine:v1", "r/engine:v2"} {
		core = append(core, stored(t, image, int64(i+1)))
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &bench{core: fake.NewClientset(core...), dynamic: dynamicfake.NewSimpleDynamicClient(scheme, ms, group())}
}

func serving(image string) *v1alpha1.ModelServing {
	return &v1alpha1.ModelServing{
		TypeMeta:   metav1.TypeMeta{APIVersion: "pitstop.dev/v1alpha1", Kind: "ModelServing"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm", UID: "ms-uid", ResourceVersion: "9", Generation: 2},
		Spec: v1alpha1.ModelServingSpec{
			Replicas: new(int32(1)),
			Template: v1alpha1.ServingGroupTemplate{Roles: []v1alpha1.Role{{
				Name: "decode", Replicas: new(int32(3)),
				EntryTemplate: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: image}}}},
			}}},
		},
		Status: v1alpha1.ModelServingStatus{ObservedGeneration: 2, Replicas: 1, Updating: []string{"llm-0"}, UpdateRevision: "llm-2", CurrentRevision: "llm-1"},
	}
}

// stored is the revision that declares an image. Its name is its number.
func stored(t *testing.T, image string, number int64) *appsv1.ControllerRevision {
	t.Helper()
	ms := serving(image)
	data, err := revision.Project(&ms.Spec)
	if err != nil {
		t.Fatal(err)
	}
	cr, err := revision.New(ms, data, number, 0)
	if err != nil {
		t.Fatal(err)
	}
	cr.Name, cr.CreationTimestamp = fmt.Sprintf("llm-%d", number), metav1.NewTime(now.Add(-time.Hour))
	return cr
}

func group() *v1alpha1.ServingGroup {
	return &v1alpha1.ServingGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "pitstop.dev/v1alpha1", Kind: "ServingGroup"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "llm-0", UID: "sg-uid", OwnerReferences: []metav1.OwnerReference{{UID: "ms-uid", Controller: new(true)}},
		},
		Spec: v1alpha1.ServingGroupSpec{
			Ordinal: new(int32(0)), Revision: "llm-1",
			Instances: []v1alpha1.RoleInstance{{Role: "decode", Ordinal: new(int32(0))}},
			Updates:   []v1alpha1.UnitUpdate{{Attempt: 3, Method: v1alpha1.UnitRecreate, Target: "llm-2", Previous: "llm-1", Permit: v1alpha1.PermitDrain}},
		},
		Status: v1alpha1.ServingGroupStatus{
			Pods: 1, LivePods: 1,
			Instances: []v1alpha1.InstanceStatus{{Role: "decode", Ordinal: new(int32(0)), Phase: v1alpha1.InstanceRunning, Pods: 1, LivePods: 1}},
			Updates: []v1alpha1.UnitUpdateStatus{{
				Attempt: 3, Stage: v1alpha1.UnitDraining, Since: metav1.NewTime(now.Add(-time.Minute)), Reason: v1alpha1.UnitWaitingDrain, Message: "running 3",
			}},
		},
	}
}

func member() *corev1.Pod {
	p := pod()
	p.Name, p.UID = "llm-0-decode-0-0", "member-uid"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "pitstop.dev/v1alpha1", Kind: "ServingGroup", Name: "llm-0", UID: "sg-uid", Controller: new(true)}}
	p.Labels = map[string]string{
		v1alpha1.LabelModelServing: "llm", v1alpha1.LabelRole: "decode", v1alpha1.LabelInstance: "0", v1alpha1.LabelIndex: "0", v1alpha1.LabelRevision: "llm-1",
	}
	return p
}

// declared is the ModelServing as the API server has it.
func (b *bench) declared(t *testing.T) v1alpha1.ModelServing {
	t.Helper()
	got, err := b.dynamic.Resource(v1alpha1.ModelServings).Namespace("ns").Get(t.Context(), "llm", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var ms v1alpha1.ModelServing
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, &ms); err != nil {
		t.Fatal(err)
	}
	return ms
}

func image(ms v1alpha1.ModelServing) string {
	return ms.Spec.Template.Roles[0].EntryTemplate.Spec.Containers[0].Image
}

func (b *bench) printed(t *testing.T, want string) {
	t.Helper()
	if diff := cmp.Diff(want, b.out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestGet(t *testing.T) {
	b := newServingBench(t)
	for _, args := range [][]string{{"get", "llm"}, {"get", "ms/llm"}, {"get"}, {"get", "-A"}} {
		b.want(t, b.run(t.Context(), args...), 0)
		b.printed(t, `ModelServing ns/llm  target 2  current 1
1 groups declared: 1 live, 0 ready, 0 available, 0 updated

  NAME                    REVISION  READY  NODE    STATE
~ llm-0                   1 old     0/1            to 2: Draining 60s
  │  running 3
~ └─ decode-0             1 old     0/1
     └─ llm-0-decode-0-0  1         yes    node-a

~ under way  ! not as it should be; what is waited for: kubectl pitstop explain modelserving/llm -n ns
`)
	}
	b.want(t, b.run(t.Context(), "get", "llm", "-o", "json"), 0)
	var one struct {
		ModelServing string
		Groups       []struct{ Name string }
	}
	if err := json.Unmarshal(b.out.Bytes(), &one); err != nil || one.ModelServing != "llm" || len(one.Groups) != 1 {
		t.Errorf("printed %s, %v", b.out, err)
	}
	b.want(t, b.run(t.Context(), "get", "-o", "json"), 0)
	var all struct {
		Items []struct{ ModelServing string }
	}
	if err := json.Unmarshal(b.out.Bytes(), &all); err != nil || len(all.Items) != 1 || all.Items[0].ModelServing != "llm" {
		t.Errorf("printed %s, %v", b.out, err)
	}
}

func TestGetOfNothing(t *testing.T) {
	b := newBench(t)
	b.want(t, b.run(t.Context(), "get"), 0, "no ModelServings found in namespace ns")
	b.want(t, b.run(t.Context(), "get", "-A"), 0, "no ModelServings found\n")
	b.want(t, b.run(t.Context(), "get", "-o", "json"), 0)
	b.printed(t, "{\n  \"items\": []\n}\n")
}

func TestExplainServing(t *testing.T) {
	b := newServingBench(t)
	for _, arg := range []string{"modelserving/llm", "ms/llm", "ModelServings/llm"} {
		b.want(t, b.run(t.Context(), "explain", arg), 0)
		b.printed(t, `ModelServing: ns/llm
Now:          0 of 1 groups are available; 0 of 1 are at the target llm-2 and in no update
Coordinator:  alive, seen 1s ago

Unit:         llm-0: attempt 3 brings it to llm-2
Stage:        Draining for 60s (since 2026-01-02T14:59:00Z), permit Drain
Reason:       Draining: requests are still running in a Pod of the unit, or their number is unknown
It says:      running 3
Way on:       the last request ends, or the drain timeout of the ModelServing comes and cuts what is left
`)
	}
	b.want(t, b.run(t.Context(), "explain", "ms/llm", "-o", "json"), 0)
	var printed struct {
		Waits []struct{ Unit, Stage, Reason string }
	}
	if err := json.Unmarshal(b.out.Bytes(), &printed); err != nil || len(printed.Waits) != 1 || printed.Waits[0].Unit != "llm-0" || printed.Waits[0].Stage != "Draining" {
		t.Errorf("printed %s, %v", b.out, err)
	}
	b.want(t, b.run(t.Context(), "explain", "pod/llm-0-decode-0-0"), 0)
	if !strings.Contains(b.out.String(), `ServingGroup "llm-0"`) {
		t.Errorf("output: %s", b.out)
	}
}

func TestHistory(t *testing.T) {
	b := newServingBench(t)
	b.want(t, b.run(t.Context(), "history", "llm"), 0)
	b.printed(t, `NUMBER  REVISION  AGE   USED BY
1       llm-1     60m   current, 1 group, 1 open update
        decode.entry.containers[engine].image: r/engine:v1
2       llm-2     60m   declared now, target, 1 open update
        decode.entry.containers[engine].image: r/engine:v1 -> r/engine:v2
`)
	b.want(t, b.run(t.Context(), "history", "modelserving/llm", "-o", "json"), 0)
	var printed struct{ Revisions []struct{ Number int } }
	if err := json.Unmarshal(b.out.Bytes(), &printed); err != nil || len(printed.Revisions) != 2 || printed.Revisions[1].Number != 2 {
		t.Errorf("printed %s, %v", b.out, err)
	}
}

func TestUndo(t *testing.T) {
	for _, args := range [][]string{{"undo", "llm"}, {"undo", "ms/llm", "--to-revision", "1"}} {
		b := newServingBench(t)
		b.want(t, b.run(t.Context(), args...), 0)
		b.printed(t, `modelserving ns/llm goes back to revision 1 (llm-1):
  decode.entry.containers[engine].image: r/engine:v2 -> r/engine:v1
follow it with `+"`kubectl pitstop get llm -n ns`\n")
		if ms := b.declared(t); image(ms) != "r/engine:v1" || *ms.Spec.Template.Roles[0].Replicas != 3 || len(ms.Status.Updating) != 1 {
			t.Errorf("%v declared %+v", args, ms)
		}
	}
}

func TestUndoAsJSON(t *testing.T) {
	b := newServingBench(t, func(ms *v1alpha1.ModelServing) { ms.Spec.Paused = true })
	b.want(t, b.run(t.Context(), "undo", "llm", "-o", "json"), 0)
	b.printed(t, `{
  "namespace": "ns",
  "modelServing": "llm",
  "toRevision": 1,
  "name": "llm-1",
  "changes": [
    {
      "path": "roles[decode].entryTemplate.spec.containers[engine].image",
      "before": "r/engine:v2",
      "after": "r/engine:v1"
    }
  ],
  "notes": [
    "the ModelServing is paused: the rollout starts with `+"`kubectl pitstop resume llm`"+`"
  ]
}
`)
}

func TestUndoOnlyShows(t *testing.T) {
	b := newServingBench(t)
	var options metav1.PatchOptions
	b.dynamic.PrependReactor("patch", "modelservings", func(a clienttesting.Action) (bool, runtime.Object, error) {
		options = a.(clienttesting.PatchActionImpl).PatchOptions
		return true, unstructuredOf(t, serving("r/engine:v1")), nil
	})
	b.want(t, b.run(t.Context(), "undo", "llm", "--dry-run"), 0)
	if len(options.DryRun) != 1 || options.DryRun[0] != metav1.DryRunAll || !strings.Contains(b.out.String(), "would go back to revision 1") {
		t.Errorf("options %+v, output %s", options, b.out)
	}
}

// A conflict with the coordinator's status is nobody's fault and passes; one with another declaration
// ends the command.
func TestUndoAtTheSameTime(t *testing.T) {
	conflict := apierrors.NewConflict(v1alpha1.ModelServings.GroupResource(), "llm", nil)
	for name, tt := range map[string]struct {
		change func(*v1alpha1.ModelServing)
		times  int
		code   int
		want   string
	}{
		"a new status":         {func(ms *v1alpha1.ModelServing) { ms.ResourceVersion, ms.Status.ReadyReplicas = "10", 1 }, 1, 0, ""},
		"a new spec":           {func(ms *v1alpha1.ModelServing) { ms.ResourceVersion, ms.Generation = "10", 3 }, 1, 3, "changed or replaced by someone else"},
		"another of its name":  {func(ms *v1alpha1.ModelServing) { ms.UID = "new-uid" }, 1, 3, "changed or replaced by someone else"},
		"a status without end": {func(*v1alpha1.ModelServing) {}, 100, 3, "changed or replaced by someone else"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newServingBench(t)
			var sent []string
			b.dynamic.PrependReactor("patch", "modelservings", func(a clienttesting.Action) (bool, runtime.Object, error) {
				var patch struct {
					Metadata struct{ ResourceVersion string }
				}
				if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &patch); err != nil {
					t.Error(err)
				}
				sent = append(sent, patch.Metadata.ResourceVersion)
				if len(sent) > tt.times {
					return false, nil, nil
				}
				ms := serving("r/engine:v2")
				tt.change(ms)
				if err := b.dynamic.Tracker().Update(v1alpha1.ModelServings, unstructuredOf(t, ms), "ns"); err != nil {
					t.Error(err)
				}
				return true, nil, conflict
			})
			b.want(t, b.run(t.Context(), "undo", "llm"), tt.code, tt.want)
			if sent[0] != "9" || tt.code == 0 && sent[1] != "10" || len(sent) > 5 {
				t.Errorf("sent resourceVersions %v", sent)
			}
		})
	}
}

func TestPauseAndResume(t *testing.T) {
	b := newServingBench(t)
	for _, tt := range []struct {
		args   []string
		want   string
		paused bool
	}{
		{[]string{"resume", "llm"}, "modelserving ns/llm is not paused\n", false},
		{[]string{"pause", "llm"}, "modelserving ns/llm paused\nunder way, and going on to their end: llm-0\n", true},
		{[]string{"pause", "ms/llm"}, "modelserving ns/llm is paused already\nunder way, and going on to their end: llm-0\n", true},
		{[]string{"resume", "llm", "-o", "json"}, "{\n  \"namespace\": \"ns\",\n  \"modelServing\": \"llm\",\n  \"paused\": false,\n  \"changed\": true,\n  \"updating\": [\n    \"llm-0\"\n  ]\n}\n", false},
	} {
		b.want(t, b.run(t.Context(), tt.args...), 0)
		b.printed(t, tt.want)
		if ms := b.declared(t); ms.Spec.Paused != tt.paused || image(ms) != "r/engine:v2" {
			t.Errorf("%v declared %+v", tt.args, ms.Spec)
		}
	}
	var writes int
	for _, a := range b.dynamic.Actions() {
		if a.GetVerb() != "get" {
			writes++
		}
	}
	if writes != 2 {
		t.Errorf("%d writes, want one for each change", writes)
	}
}

// The API server answers "invalid" to a patch with another UID.
func TestPauseOfAnotherOfItsName(t *testing.T) {
	b := newServingBench(t)
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "pitstop.dev", Kind: "ModelServing"}, "llm", field.ErrorList{
		field.Invalid(field.NewPath("metadata", "uid"), "ms-uid", "field is immutable"),
	})
	b.dynamic.PrependReactor("patch", "modelservings", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if patch := string(a.(clienttesting.PatchAction).GetPatch()); patch != `{"metadata":{"uid":"ms-uid"},"spec":{"paused":true}}` {
			t.Errorf("patch %s", patch)
		}
		return true, nil, invalid
	})
	b.want(t, b.run(t.Context(), "pause", "llm"), 3, "changed or replaced by someone else")
}

func TestServingRefused(t *testing.T) {
	leaving := func(ms *v1alpha1.ModelServing) { ms.DeletionTimestamp = new(metav1.NewTime(now)) }
	for name, tt := range map[string]struct {
		change func(*v1alpha1.ModelServing)
		args   []string
		code   int
		want   []string
	}{
		"get of none":                 {nil, []string{"get", "lm"}, 1, []string{"modelserving ns/lm does not exist", `did you mean "llm"?`}},
		"get in another namespace":    {func(ms *v1alpha1.ModelServing) { ms.Namespace = "prod" }, []string{"get", "llm"}, 1, []string{"is in prod: name the namespace with -n"}},
		"get of a Pod":                {nil, []string{"get", "pod/llm"}, 2, []string{"NAME or modelserving/NAME"}},
		"get of no name":              {nil, []string{"get", "ms/"}, 2, []string{"NAME or modelserving/NAME"}},
		"get of one in all":           {nil, []string{"get", "llm", "-A"}, 2, []string{"exclude each other"}},
		"get of two":                  {nil, []string{"get", "llm", "lm"}, 2, []string{"at most 1 arg"}},
		"explain of none":             {nil, []string{"explain", "ms/lm"}, 1, []string{"modelserving ns/lm does not exist"}},
		"explain of no Pod but one":   {nil, []string{"explain", "llm"}, 1, []string{"pod ns/llm does not exist, and a ModelServing of that name does", "kubectl pitstop explain modelserving/llm -n ns"}},
		"explain of another kind":     {nil, []string{"explain", "deployment/llm"}, 2, []string{"neither POD nor pod/POD nor modelserving/NAME"}},
		"explain of an empty name":    {nil, []string{"explain", "modelserving/"}, 2, []string{"neither POD nor pod/POD nor modelserving/NAME"}},
		"history of none":             {nil, []string{"history", "lm"}, 1, []string{"does not exist"}},
		"history of nothing":          {nil, []string{"history"}, 2, []string{"accepts 1 arg"}},
		"undo of none":                {nil, []string{"undo", "lm"}, 1, []string{"does not exist"}},
		"undo to what is not":         {nil, []string{"undo", "llm", "--to-revision", "7"}, 1, []string{"has no revision 7; there are: 1, 2 (declared now)"}},
		"undo to the declared":        {nil, []string{"undo", "llm", "--to-revision", "2"}, 1, []string{"declares already what revision 2 says"}},
		"undo to a negative":          {nil, []string{"undo", "llm", "--to-revision=-1"}, 2, []string{"--to-revision -1"}},
		"undo to a word":              {nil, []string{"undo", "llm", "--to-revision", "last"}, 2, []string{"invalid argument"}},
		"undo of what is leaving":     {leaving, []string{"undo", "llm"}, 1, []string{"is being deleted"}},
		"pause of none":               {nil, []string{"pause", "lm"}, 1, []string{"does not exist"}},
		"pause of what is leaving":    {leaving, []string{"pause", "llm"}, 1, []string{"is being deleted"}},
		"resume of two":               {nil, []string{"resume", "llm", "lm"}, 2, []string{"accepts 1 arg"}},
		"a format that there is not":  {nil, []string{"history", "llm", "-o", "wide"}, 2, []string{"there is: json"}},
		"pause of a Pod, by its kind": {nil, []string{"pause", "pod/llm"}, 2, []string{"NAME or modelserving/NAME"}},
	} {
		t.Run(name, func(t *testing.T) {
			change := tt.change
			if change == nil {
				change = func(*v1alpha1.ModelServing) {}
			}
			b := newServingBench(t, change)
			b.want(t, b.run(t.Context(), tt.args...), tt.code, tt.want...)
			for _, a := range append(b.core.Actions(), b.dynamic.Actions()...) {
				if a.GetVerb() != "get" && a.GetVerb() != "list" {
					t.Errorf("wrote: %v", a)
				}
			}
		})
	}
}

// Whoever lacks a right learns which.
func TestServingForbidden(t *testing.T) {
	for name, tt := range map[string]struct {
		verb, resource string
		args           []string
		want           string
	}{
		"to get the ModelServing":     {"get", "modelservings", []string{"get", "llm"}, "you may not get modelservings.pitstop.dev in namespace ns; ask for that right, with the ClusterRole pitstop-view"},
		"to list ModelServings":       {"list", "modelservings", []string{"get", "-A"}, "you may not list modelservings.pitstop.dev in all namespaces"},
		"to list groups":              {"list", "servinggroups", []string{"get", "llm"}, "you may not list servinggroups.pitstop.dev in namespace ns"},
		"to list Pods":                {"list", "pods", []string{"get", "llm"}, "you may not list pods in namespace ns; ask for that right, with the ClusterRole view"},
		"to list updates":             {"list", "inplaceupdates", []string{"get", "llm"}, "you may not list inplaceupdates.pitstop.dev in namespace ns"},
		"to list groups, for explain": {"list", "servinggroups", []string{"explain", "ms/llm"}, "you may not list servinggroups.pitstop.dev in namespace ns"},
		"to list revisions":           {"list", "controllerrevisions", []string{"history", "llm"}, "you may not list controllerrevisions.apps in namespace ns"},
		"to undo":                     {"patch", "modelservings", []string{"undo", "llm"}, "you may not patch modelservings.pitstop.dev in namespace ns; ask for that right, with the ClusterRole pitstop-edit"},
		"to pause":                    {"patch", "modelservings", []string{"pause", "llm"}, "you may not patch modelservings.pitstop.dev in namespace ns"},
		"to get a Pod":                {"get", "pods", []string{"explain", "llm"}, "you may not get pods in namespace ns"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newServingBench(t)
			b.forbid(tt.verb, tt.resource)
			b.want(t, b.run(t.Context(), tt.args...), 1, tt.want, `User "joe" cannot`)
		})
	}
}

func (b *bench) forbid(verb, resource string) {
	refuse := func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "llm", fmt.Errorf("User %q cannot %s", "joe", verb))
	}
	b.core.PrependReactor(verb, resource, refuse)
	b.dynamic.PrependReactor(verb, resource, refuse)
}

// Without the right to read revisions their names tell what is outdated.
func TestGetWithoutRevisions(t *testing.T) {
	b := newServingBench(t)
	b.forbid("list", "controllerrevisions")
	b.want(t, b.run(t.Context(), "get", "llm"), 0)
	if !strings.Contains(b.out.String(), "1 old") || b.err.Len() > 0 {
		t.Errorf("output %s, errors %s", b.out, b.err)
	}
	b.want(t, b.run(t.Context(), "explain", "ms/llm"), 0)
}

// A webhook's answer is "forbidden" too, and no right helps against it.
func TestUndoThatAWebhookRefuses(t *testing.T) {
	b := newServingBench(t)
	b.forbid("patch", "modelservings")
	b.core.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		want := &authorizationv1.ResourceAttributes{Verb: "patch", Group: "pitstop.dev", Resource: "modelservings", Namespace: "ns"}
		if diff := cmp.Diff(want, review.Spec.ResourceAttributes); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
		review.Status.Allowed = true
		return true, review, nil
	})
	b.want(t, b.run(t.Context(), "undo", "llm"), 1, "a policy or webhook objects")
	if strings.Contains(b.err.String(), "you may not") {
		t.Errorf("errors: %s", b.err)
	}
}

func TestUndoThatIsInvalid(t *testing.T) {
	b := newServingBench(t)
	b.dynamic.PrependReactor("patch", "modelservings", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Group: "pitstop.dev", Kind: "ModelServing"}, "llm", field.ErrorList{
			field.Invalid(field.NewPath("spec", "template"), "x", "a budget of zero"),
		})
	})
	b.want(t, b.run(t.Context(), "undo", "llm"), 1, "a budget of zero")
}

func TestServingNotInstalled(t *testing.T) {
	b := newServingBench(t)
	unknownPath := apierrors.NewGenericServerResponse(404, "get", v1alpha1.ModelServings.GroupResource(), "llm", "404 page not found", 0, true)
	b.dynamic.PrependReactor("*", "modelservings", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, unknownPath })
	for _, args := range [][]string{{"get"}, {"get", "llm"}, {"get", "-A"}, {"explain", "ms/llm"}, {"history", "llm"}, {"undo", "llm"}, {"pause", "llm"}, {"resume", "llm"}} {
		b.want(t, b.run(t.Context(), args...), 1, "has no resource modelservings.pitstop.dev", "kubectl apply --server-side -k deploy/base")
	}
}
