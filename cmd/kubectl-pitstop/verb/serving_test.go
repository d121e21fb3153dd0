package verb_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
			Namespace: "ns", Name: "llm-0", UID: "sg-uid", OwnerReferences: []metav1.OwnerReference{{Kind: "ModelServing", Name: "llm", UID: "ms-uid", Controller: new(true)}},
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
		v1alpha1.LabelModelServing: "llm", v1alpha1.LabelServingGroup: "llm-0", v1alpha1.LabelRole: "decode", v1alpha1.LabelInstance: "0", v1alpha1.LabelIndex: "0", v1alpha1.LabelRevision: "llm-1",
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
		"history of nothing":          {nil, []string{"history"}, 2, []string{"MODELSERVING is missing: kubectl pitstop history"}},
		"undo of none":                {nil, []string{"undo", "lm"}, 1, []string{"does not exist"}},
		"undo to what is not":         {nil, []string{"undo", "llm", "--to-revision", "7"}, 1, []string{"has no revision 7; there are: 1, 2 (declared now)"}},
		"undo to the declared":        {nil, []string{"undo", "llm", "--to-revision", "2"}, 1, []string{"declares already what revision 2 says"}},
		"undo to a negative":          {nil, []string{"undo", "llm", "--to-revision=-1"}, 2, []string{"--to-revision -1"}},
		"undo to a word":              {nil, []string{"undo", "llm", "--to-revision", "last"}, 2, []string{"invalid argument"}},
		"undo of what is leaving":     {leaving, []string{"undo", "llm"}, 1, []string{"is being deleted"}},
		"pause of none":               {nil, []string{"pause", "lm"}, 1, []string{"does not exist"}},
		"pause of what is leaving":    {leaving, []string{"pause", "llm"}, 1, []string{"is being deleted"}},
		"resume of two":               {nil, []string{"resume", "llm", "lm"}, 2, []string{"2 arguments where one MODELSERVING is wanted"}},
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
			b.wroteNothing(t)
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

func TestServingNotInstalled(t *testing.T) {
	b := newServingBench(t)
	unknownPath := apierrors.NewGenericServerResponse(404, "get", v1alpha1.ModelServings.GroupResource(), "llm", "404 page not found", 0, true)
	b.dynamic.PrependReactor("*", "modelservings", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, unknownPath })
	for _, args := range [][]string{{"get"}, {"get", "llm"}, {"get", "-A"}, {"explain", "ms/llm"}, {"history", "llm"}, {"undo", "llm"}, {"pause", "llm"}, {"resume", "llm"}} {
		b.want(t, b.run(t.Context(), args...), 1, "has no resource modelservings.pitstop.dev", "kubectl apply --server-side -k deploy/base")
	}
}
