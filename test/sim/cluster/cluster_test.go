package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

func newServer(t *testing.T) (*Server, *testclock.FakePassiveClock) {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := testclock.NewFakePassiveClock(time.Unix(1000, 0))
	return New(c, scheme), c
}

func newGroup(finalizers ...string) *v1alpha1.ServingGroup {
	g := &v1alpha1.ServingGroup{Spec: v1alpha1.ServingGroupSpec{Ordinal: new(int32(0)), Revision: "a"}}
	g.Namespace, g.Name, g.Finalizers = "ns", "m-0", finalizers
	return g
}

// create stores the objects.
func create(t *testing.T, c *Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// get reads an object of the same kind and name.
func get[T client.Object](t *testing.T, c client.Reader, like T, into T) T {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(like), into); err != nil {
		t.Fatal(err)
	}
	return into
}

func TestGenerationFollowsTheSpecAlone(t *testing.T) {
	s, _ := newServer(t)
	c := s.Direct("test")
	g := newGroup("keep")
	create(t, c, g)
	g.Annotations = map[string]string{"a": "b"}
	g.Status.Pods = 7
	if err := c.Update(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if g.Generation != 1 || g.Status.Pods != 0 {
		t.Errorf("after an annotation: generation %d, status %+v; want 1 and none", g.Generation, g.Status)
	}
	g.Status.Pods, g.Spec.Revision = 7, "b"
	if err := c.Status().Update(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if g.Generation != 1 || g.Status.Pods != 7 || g.Spec.Revision != "a" {
		t.Errorf("after a status update: generation %d, %d Pods, revision %s; want 1, 7, a", g.Generation, g.Status.Pods, g.Spec.Revision)
	}
	g.Spec.Revision = "b"
	if err := c.Update(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if g.Generation != 2 {
		t.Errorf("after a change of the spec: generation %d, want 2", g.Generation)
	}
	if err := c.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if g = get(t, c, g, &v1alpha1.ServingGroup{}); g.Generation != 3 || g.DeletionTimestamp == nil {
		t.Errorf("after the deletion: generation %d, deleting %v; want 3 and a time", g.Generation, g.DeletionTimestamp)
	}
	g.Finalizers = nil
	if err := c.Update(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if s.Stored(ServingGroup, client.ObjectKeyFromObject(g)) != nil {
		t.Error("the group is there without a finalizer")
	}
}

func TestWritesThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(c *Client, g *v1alpha1.ServingGroup) error
		want func(error) bool
	}{
		"a second object of the name": {
			func(c *Client, _ *v1alpha1.ServingGroup) error { return c.Create(t.Context(), newGroup()) },
			apierrors.IsAlreadyExists,
		},
		"an update of an older version": {
			func(c *Client, g *v1alpha1.ServingGroup) error {
				old := g.DeepCopy()
				g.Spec.Revision = "b"
				if err := c.Update(t.Context(), g); err != nil {
					return err
				}
				return c.Update(t.Context(), old)
			},
			apierrors.IsConflict,
		},
		"a deletion of another UID": {
			func(c *Client, g *v1alpha1.ServingGroup) error {
				uid := types.UID("other")
				return c.Delete(t.Context(), g, client.Preconditions{UID: &uid})
			},
			apierrors.IsConflict,
		},
		"a deletion of another version": {
			func(c *Client, g *v1alpha1.ServingGroup) error {
				version := "0"
				return c.Delete(t.Context(), g, client.Preconditions{ResourceVersion: &version})
			},
			apierrors.IsConflict,
		},
		"an ordinal that changes": {
			func(c *Client, g *v1alpha1.ServingGroup) error {
				g.Spec.Ordinal = new(int32(1))
				return c.Update(t.Context(), g)
			},
			apierrors.IsInvalid,
		},
		"an instance that stands twice": {
			func(c *Client, g *v1alpha1.ServingGroup) error {
				i := v1alpha1.RoleInstance{Role: "a", Ordinal: new(int32(0))}
				g.Spec.Instances = []v1alpha1.RoleInstance{i, i}
				return c.Update(t.Context(), g)
			},
			apierrors.IsInvalid,
		},
		"an update of what is gone": {
			func(c *Client, g *v1alpha1.ServingGroup) error {
				if err := c.Delete(t.Context(), g); err != nil {
					return err
				}
				return c.Update(t.Context(), g)
			},
			apierrors.IsNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newServer(t)
			c := s.Direct("test")
			g := newGroup()
			create(t, c, g)
			if err := tt.do(c, g); !tt.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAnUpdateThatChangesNothingIsNoWrite(t *testing.T) {
	s, _ := newServer(t)
	c := s.Direct("test")
	g := newGroup()
	create(t, c, g)
	before := s.Revision()
	if err := c.Update(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if s.Revision() != before {
		t.Error("it is in the log")
	}
}

func TestPodsGoGracefully(t *testing.T) {
	s, _ := newServer(t)
	c := s.Direct("test")
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "ns", "p"
	create(t, c, pod)
	pod.Spec.NodeName = "node"
	if err := c.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if pod = get(t, c, pod, &corev1.Pod{}); pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != 30 {
		t.Errorf("deletion %v, grace %v", pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds)
	}
	if err := s.Release("kubelet", pod); err != nil {
		t.Fatal(err)
	}
	if s.Stored(Pod, client.ObjectKeyFromObject(pod)) != nil {
		t.Error("the Pod is still there")
	}
	pending := &corev1.Pod{}
	pending.Namespace, pending.Name = "ns", "q"
	create(t, c, pending)
	if err := c.Delete(t.Context(), pending); err != nil || s.Stored(Pod, client.ObjectKeyFromObject(pending)) != nil {
		t.Errorf("a Pod without a node lingers, %v", err)
	}
}

func TestCachesLagAndNeverGoBack(t *testing.T) {
	s, clock := newServer(t)
	user := s.Direct("user")
	g := newGroup()
	create(t, user, g)
	c := s.Cached("coordinator", nil, func(string, int) int { return 0 })
	end := c.Begin("call")
	defer end()
	seen := get(t, c, g, &v1alpha1.ServingGroup{})
	clock.SetTime(time.Unix(1010, 0))
	seen.Spec.Revision = "b"
	if err := c.Update(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if got := get(t, c, g, &v1alpha1.ServingGroup{}); got.Spec.Revision != "a" {
		t.Error("its own write is visible at once")
	}
	if got := get(t, c.Live(), g, &v1alpha1.ServingGroup{}); got.Spec.Revision != "b" {
		t.Error("its own write is not stored")
	}
	for range 2 {
		if changed := c.Advance(ServingGroup, s.Changes(ServingGroup)); len(changed) > 1 {
			t.Errorf("%d changes", len(changed))
		}
	}
	c.Advance(ServingGroup, 1)
	if got := get(t, c, g, &v1alpha1.ServingGroup{}); got.Spec.Revision != "b" {
		t.Error("the cache went back")
	}
}

func TestAFrameIsAsOldAsItsOldestReading(t *testing.T) {
	s, clock := newServer(t)
	user := s.Direct("user")
	g := newGroup()
	create(t, user, g)
	var last Write
	s.Watch(func(w Write) { last = w })
	c := s.Cached("coordinator", nil, func(string, int) int { return 0 })
	clock.SetTime(time.Unix(1005, 0))
	g.Spec.Revision = "b"
	if err := user.Update(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(time.Unix(1009, 0))
	end := c.Begin("call")
	defer end()
	get(t, c, g, &v1alpha1.ServingGroup{})
	c.Advance(ServingGroup, s.Changes(ServingGroup))
	now := get(t, c, g, &v1alpha1.ServingGroup{})
	now.Spec.Revision = "c"
	if err := c.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if got := last.Frame.AsOf(ServingGroup); !got.Equal(time.Unix(1005, 0)) {
		t.Errorf("as of %v", got)
	}
	var revisions []string
	for _, o := range s.Versions(ServingGroup, client.ObjectKeyFromObject(g), last.Frame.AsOf(ServingGroup)) {
		revisions = append(revisions, o.(*v1alpha1.ServingGroup).Spec.Revision)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, revisions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestListsSelectByNamespaceLabelAndOwner(t *testing.T) {
	s, _ := newServer(t)
	owner := metav1.OwnerReference{Kind: "ServingGroup", Name: "m-0", UID: "u", Controller: new(true)}
	for _, name := range []string{"a", "b", "c", "without our label"} {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name, pod.Labels = "ns", name, map[string]string{"of": name, v1alpha1.LabelModelServing: "m"}
		if name == "without our label" {
			delete(pod.Labels, v1alpha1.LabelModelServing)
		}
		if name != "c" {
			pod.OwnerReferences = []metav1.OwnerReference{owner}
		}
		create(t, s.Direct("user"), pod)
	}
	c := s.Cached("coordinator", nil, func(string, int) int { return 0 })
	for name, tt := range map[string]struct {
		opts []client.ListOption
		want []string
	}{
		"all":                {nil, []string{"a", "b", "c"}},
		"of a namespace":     {[]client.ListOption{client.InNamespace("other")}, nil},
		"by a label":         {[]client.ListOption{client.MatchingLabels{"of": "b"}}, []string{"b"}},
		"by their owner":     {[]client.ListOption{client.MatchingFields{IndexOwner: "u"}}, []string{"a", "b"}},
		"by owner and label": {[]client.ListOption{client.MatchingFields{IndexOwner: "u"}, client.MatchingLabels{"of": "c"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var list corev1.PodList
			if err := c.List(t.Context(), &list, tt.opts...); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, pod := range list.Items {
				got = append(got, pod.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheCollectorDeletesWhatHasNoOwnerLeft(t *testing.T) {
	s, _ := newServer(t)
	c := s.Direct("user")
	g := newGroup()
	create(t, c, g)
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "ns", "p"
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ServingGroup", Name: g.Name, UID: g.UID}}
	create(t, c, pod)
	if n := len(s.Orphans()); n != 0 {
		t.Errorf("%d orphans while the owner lives", n)
	}
	if err := c.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	for _, o := range s.Orphans() {
		if err := s.Collect(o); err != nil {
			t.Fatal(err)
		}
	}
	if left := s.All(Pod); len(left) != 0 {
		t.Errorf("%d Pods are left", len(left))
	}
}
