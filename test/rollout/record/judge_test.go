package record_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/rollout/record"
)

// film strings frames together.
type film struct{ frames []record.Frame }

func (f *film) show(t watch.EventType, o client.Object) {
	f.frames = append(f.frames, record.Frame{Version: uint64(len(f.frames) + 1), Type: t, Object: o})
}

func owned(name string, uid types.UID, owner types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, UID: uid, Labels: map[string]string{v1alpha1.LabelModelServing: "ms"},
		OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: new(true)}},
	}
}

// serving declares two groups.
func serving(updating ...string) *v1alpha1.ModelServing {
	ms := &v1alpha1.ModelServing{ObjectMeta: metav1.ObjectMeta{Name: "ms", UID: "ms", Generation: 1}}
	ms.Spec.Replicas = new(int32(2))
	ms.Status.ObservedGeneration = 1
	ms.Status.Updating = updating
	return ms
}

func group(ordinal int32, revision string) *v1alpha1.ServingGroup {
	name := v1alpha1.ServingGroupName("ms", ordinal)
	return &v1alpha1.ServingGroup{ObjectMeta: owned(name, types.UID(name), "ms"), Spec: v1alpha1.ServingGroupSpec{
		Ordinal: &ordinal, Revision: revision, Instances: []v1alpha1.RoleInstance{{Role: "engine", Ordinal: new(int32(0))}},
	}}
}

func pod(ordinal int32, revision string, status corev1.ConditionStatus) *corev1.Pod {
	g := v1alpha1.ServingGroupName("ms", ordinal)
	p := &corev1.Pod{ObjectMeta: owned(v1alpha1.PodName(g, "engine", 0, 0), types.UID(g+"-pod"), types.UID(g))}
	p.Labels[v1alpha1.LabelServingGroup], p.Labels[v1alpha1.LabelRevision] = g, revision
	p.Labels[v1alpha1.LabelRole], p.Labels[v1alpha1.LabelInstance] = "engine", "0"
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	return p
}

func going(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return p
}

// steady is a ModelServing of two groups in service.
func steady() *film {
	f := &film{}
	f.show(watch.Added, serving())
	for _, name := range []string{"a", "b"} {
		f.show(watch.Added, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for i := range int32(2) {
		f.show(watch.Added, group(i, "a"))
		f.show(watch.Added, pod(i, "a", corev1.ConditionTrue))
	}
	return f
}

func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		act  func(*film)
		want string // a part of the only violation; empty: none
	}{
		"one of two goes, booked": {func(f *film) {
			f.show(watch.Modified, serving("ms-1"))
			f.show(watch.Modified, going(pod(1, "a", corev1.ConditionTrue)))
			f.show(watch.Deleted, pod(1, "a", corev1.ConditionFalse))
			f.show(watch.Modified, group(1, "b"))
			f.show(watch.Added, pod(1, "b", corev1.ConditionFalse))
		}, ""},
		"a Pod goes without an entry in the ledger": {func(f *film) {
			f.show(watch.Modified, going(pod(1, "a", corev1.ConditionTrue)))
		}, "in the ledger"},
		"the second goes before the first is back": {func(f *film) {
			f.show(watch.Modified, serving("ms-1"))
			f.show(watch.Modified, pod(1, "a", corev1.ConditionFalse))
			f.show(watch.Modified, pod(0, "a", corev1.ConditionFalse))
		}, "0 groups available, 1 are promised"},
		"a unit that was chosen before a scale-up goes on": {func(f *film) {
			f.show(watch.Modified, serving("ms-1"))
			more := serving("ms-1")
			more.Spec.Replicas, more.Generation, more.Status.ObservedGeneration = new(int32(3)), 2, 2
			f.show(watch.Modified, more)
			f.show(watch.Modified, pod(1, "a", corev1.ConditionFalse))
		}, ""},
		"a unit that is chosen after a scale-up waits for the new group": {func(f *film) {
			more := serving()
			more.Spec.Replicas, more.Generation, more.Status.ObservedGeneration = new(int32(3)), 2, 2
			f.show(watch.Modified, more)
			f.show(watch.Modified, pod(1, "a", corev1.ConditionFalse))
		}, "1 groups available, 2 are promised"},
		"the entry of a group that was removed does not count": {func(f *film) {
			f.show(watch.Modified, serving("ms-7", "ms-1"))
		}, ""},
		"two units are booked": {func(f *film) {
			f.show(watch.Modified, serving("ms-0", "ms-1"))
		}, "2 units in update, at most 1"},
		"a Pod is made before the pin says so": {func(f *film) {
			f.show(watch.Modified, serving("ms-1"))
			f.show(watch.Deleted, pod(1, "a", corev1.ConditionFalse))
			f.show(watch.Added, pod(1, "b", corev1.ConditionFalse))
		}, "pinned to a"},
		"a revision is named before it is stored": {func(f *film) {
			f.show(watch.Modified, group(1, "c"))
		}, "revision c, which is not stored"},
		"a third group is made": {func(f *film) {
			f.show(watch.Added, group(2, "a"))
		}, "3 groups live, at most 2+0"},
		"a foreign Pod with our labels counts for nothing": {func(f *film) {
			p := pod(1, "x", corev1.ConditionFalse)
			p.Name, p.OwnerReferences[0].UID = "foreign", "somebody"
			f.show(watch.Added, p)
			f.show(watch.Modified, going(p))
		}, ""},
		"a group that the test broke may go": {func(f *film) {
			p := going(pod(0, "a", corev1.ConditionTrue))
			f.show(watch.Modified, p)
			f.show(watch.Modified, serving("ms-1"))
			f.show(watch.Modified, going(pod(1, "a", corev1.ConditionTrue)))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := steady()
			tt.act(f)
			j := record.Judge{Rules: record.Rules{Name: "ms", MaxUnavailable: 1, Workers: map[string]int32{"engine": 0}}}
			if strings.Contains(name, "broke") {
				j.Broken = map[string]bool{"ms-0": true}
			}
			got := j.Run(f.frames)
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("violations %q, want one with %q", got, tt.want)
			}
			if j.Judged == 0 {
				t.Error("no frame was judged")
			}
		})
	}
}
