//go:build lab

package deploy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/lab"
)

// swap is the patch with which the agent changes an image.
func swap(pod *corev1.Pod) string {
	return fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":%q},
		{"op":"test","path":"/spec/containers/0/image","value":"engine:1"},
		{"op":"replace","path":"/spec/containers/0/image","value":"engine:2"},
		{"op":"add","path":"/metadata/annotations/pitstop.dev~1patched-at","value":"x"}]`, pod.UID)
}

func TestTheAgentMayDoItsWork(t *testing.T) {
	ctx := t.Context()
	a := must(agentOn(ctx, node1))(t)
	pod := must(plane.admin.pod(ctx, "work", func(p *corev1.Pod) { p.Annotations = nil }))(t)
	now := time.Unix(2e9, 0)

	status := func(data []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		denied(t, a.merge(ctx, pod, string(data), "status"), "")
		pod = must(a.CoreV1().Pods(apps).Get(ctx, pod.Name, metav1.GetOptions{}))(t)
	}
	opening, needed := readiness.Sync(pod, now)
	if !needed {
		t.Fatal("a new Pod needs no opening")
	}
	status(opening, nil)
	status(readiness.Lower(pod, "uid/1", now))
	if len(readiness.Holds(pod)) != 1 {
		t.Errorf("holds %v after the gate was lowered", readiness.Holds(pod))
	}
	status(readiness.Announce(pod, "uid/1"))
	if readiness.Announced(pod) != "uid/1" {
		t.Errorf("annotations %v after the router was asked", pod.Annotations)
	}
	status(readiness.Acknowledge(pod, "uid/1", now))
	denied(t, a.patch(ctx, pod, types.JSONPatchType, swap(pod)), "")
	pod = must(a.CoreV1().Pods(apps).Get(ctx, pod.Name, metav1.GetOptions{}))(t)
	if pod.Spec.Containers[0].Image != "engine:2" {
		t.Errorf("image %s", pod.Spec.Containers[0].Image)
	}
	status(readiness.Raise(pod, readiness.Opening{
		Labels: map[string]string{v1alpha1.LabelRevision: "b", "pitstop.dev/stable": "", "pitstop.dev/canary": "true"},
		Remove: []string{v1alpha1.PatchedAt},
	}, now))
	if pod.Labels[v1alpha1.LabelRevision] != "b" || !readiness.GateOf(pod).Open {
		t.Errorf("labels %v, gate %+v after the opening", pod.Labels, readiness.GateOf(pod))
	}
	status([]byte(`{"status":{"conditions":[{"type":"pitstop.dev/GPUHealthy","status":"True"}]}}`), nil)
	status([]byte(`{"metadata":{"annotations":{"`+v1alpha1.HoldDevice+`":"lost"}}}`), nil)

	u := must(plane.admin.order(ctx, pod.Name, func(*v1alpha1.InPlaceUpdateSpec) {}))(t)
	denied(t, a.reorder(ctx, u, "status", func(u *v1alpha1.InPlaceUpdate) { u.Status.Stage = v1alpha1.StagePrepared }), "")
	denied(t, leaseOf(ctx, a, node1), "")
	denied(t, leaseOf(ctx, a, node1), "")
	denied(t, eventOf(ctx, a, pod, node1), "")
	denied(t, a.mergeNode(ctx, node1, `{"status":{"conditions":[{"type":"pitstop.dev/GPUHealthy","status":"False"}]}}`), "")

	for what, err := range map[string]error{
		"pods of the node": func() error {
			_, err := a.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node1})
			return err
		}(),
		"orders for the node": a.orders.Get().Resource("inplaceupdates").Param("fieldSelector", "spec.nodeName="+node1).Do(ctx).Error(),
		"its node": func() error {
			_, err := a.CoreV1().Nodes().Get(ctx, node1, metav1.GetOptions{})
			return err
		}(),
	} {
		if err != nil {
			t.Errorf("read %s: %v", what, err)
		}
	}
}

// leaseOf makes or renews the Lease of a node.
func leaseOf(ctx context.Context, c client, node string) error {
	leases := c.CoordinationV1().Leases(system)
	lease, err := leases.Get(ctx, v1alpha1.AgentLeaseName(node), metav1.GetOptions{})
	if err != nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AgentLeaseName(node)}}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		return err
	}
	lease.Spec.HolderIdentity = new("me")
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// eventOf writes an event about a Pod that says that it comes from a node.
func eventOf(ctx context.Context, c client, pod *corev1.Pod, node string) error {
	_, err := c.CoreV1().Events(apps).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "e-"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: apps, Name: pod.Name, UID: pod.UID},
		Reason:         "R", Type: corev1.EventTypeNormal, Source: corev1.EventSource{Component: "pitstop-agent", Host: node},
	}, metav1.CreateOptions{})
	return err
}

func TestTheAgentMayPatchNothingElseOfAPod(t *testing.T) {
	ctx := t.Context()
	a := must(agentOn(ctx, node1))(t)
	image := `{"spec":{"containers":[{"name":"engine","image":"engine:2"}]}}`
	gate := `{"status":{"conditions":[{"type":"pitstop.dev/InService","status":"True"}]}}`
	elsewhere := func(p *corev1.Pod) { p.Spec.NodeName = node2 }
	answered := func(p *corev1.Pod) {
		p.Annotations[v1alpha1.Draining], p.Annotations[v1alpha1.Drained] = "uid/1", "uid/1"
	}
	ungated := func(p *corev1.Pod) { p.Spec.ReadinessGates = nil }
	otherGate := func(p *corev1.Pod) { p.Spec.ReadinessGates[0].ConditionType = "example.com/InService" }
	for name, tt := range map[string]struct {
		pod   func(*corev1.Pod)
		patch string
		want  string
	}{
		"an image":                              {patch: image},
		"all images":                            {patch: `{"spec":{"containers":[{"name":"engine","image":"e:2"},{"name":"peer","image":"p:2"}]}}`},
		"a Pod of another node":                 {elsewhere, image, "may not change a Pod of node " + node2},
		"a Pod of no node":                      {func(p *corev1.Pod) { p.Spec.NodeName = "" }, image, "may not change a Pod of node (none)"},
		"a Pod without the gate":                {ungated, image, "without the readiness gate"},
		"a Pod with another gate":               {otherGate, image, "without the readiness gate"},
		"a Pod with another UID":                {patch: `{"metadata":{"uid":"1"},"spec":{"containers":[{"name":"engine","image":"engine:2"}]}}`, want: "uid"},
		"the image of an init container":        {patch: `{"spec":{"initContainers":[{"name":"init","image":"init:2"}]}}`, want: "not spec.initContainers"},
		"a deadline":                            {patch: `{"spec":{"activeDeadlineSeconds":5}}`, want: "not spec.activeDeadlineSeconds"},
		"a toleration":                          {patch: `{"spec":{"tolerations":[{"key":"x","operator":"Exists"}]}}`, want: "not spec.tolerations"},
		"an environment variable":               {patch: `{"spec":{"containers":[{"name":"engine","env":[{"name":"A","value":"c"}]}]}}`, want: "may not change fields"},
		"another container":                     {patch: `{"spec":{"containers":[{"name":"new","image":"x"}]}}`, want: "may not add or remove containers"},
		"a label under pitstop.dev/":            {patch: `{"metadata":{"labels":{"pitstop.dev/revision":"b"}}}`},
		"a label":                               {patch: `{"metadata":{"labels":{"app":"other"}}}`, want: "not app"},
		"a new label":                           {patch: `{"metadata":{"labels":{"x":"y"}}}`, want: "not x"},
		"a label under a name like ours":        {patch: `{"metadata":{"labels":{"pitstop.development/x":"y"}}}`, want: "not pitstop.development/x"},
		"a label removed":                       {patch: `{"metadata":{"labels":{"app":null}}}`, want: "not app"},
		"all labels removed":                    {patch: `{"metadata":{"labels":null}}`, want: "not app"},
		"an annotation":                         {patch: `{"metadata":{"annotations":{"team":"y"}}}`, want: "not team"},
		"an annotation removed":                 {patch: `{"metadata":{"annotations":{"team":null}}}`, want: "not team"},
		"a hold of the coordinator":             {patch: `{"metadata":{"annotations":{"pitstop.dev/hold.unit":null}}}`, want: "not pitstop.dev/hold.unit"},
		"a hold of an operator":                 {patch: `{"metadata":{"annotations":{"pitstop.dev/hold.alice":"x"}}}`, want: "not pitstop.dev/hold.alice"},
		"the question to a router":              {patch: `{"metadata":{"annotations":{"pitstop.dev/draining":"uid/1"}}}`},
		"the answer of a router removed":        {patch: `{"metadata":{"annotations":{"pitstop.dev/drained":null,"pitstop.dev/draining":null}}}`, pod: answered},
		"its own hold":                          {patch: `{"metadata":{"annotations":{"pitstop.dev/hold.inplace":"x"}}}`},
		"a finalizer":                           {patch: `{"metadata":{"finalizers":["example.com/g"]}}`, want: "neither finalizers nor owners"},
		"a finalizer removed":                   {patch: `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/f"]}}`, want: "neither finalizers nor owners"},
		"an owner":                              {patch: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"1"}]}}`, want: "neither finalizers nor owners"},
		"status: the gate":                      {patch: gate},
		"status: a Pod of another node":         {elsewhere, gate, "may not change a Pod of node " + node2},
		"status: a Pod without the gate":        {ungated, gate, "without the readiness gate"},
		"status: a Pod with another UID":        {patch: `{"metadata":{"uid":"1"},"status":{"conditions":[{"type":"pitstop.dev/InService","status":"True"}]}}`, want: "uid"},
		"status: the phase":                     {patch: `{"status":{"phase":"Failed"}}`, want: "not status.phase"},
		"status: a message":                     {patch: `{"status":{"message":"x"}}`, want: "not status.message"},
		"status: an address":                    {patch: `{"status":{"podIP":"198.18.0.10","podIPs":[{"ip":"198.18.0.10"}]}}`, want: "status.podIP"},
		"status: all containers removed":        {patch: `{"status":{"containerStatuses":null}}`, want: "not status.containerStatuses"},
		"status: a container's readiness":       {patch: `{"status":{"containerStatuses":[{"name":"engine","ready":false}]}}`, want: "not status.containerStatuses"},
		"status: Ready":                         {patch: `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, want: "not Ready"},
		"status: a condition like ours":         {patch: `{"status":{"conditions":[{"type":"pitstop.dev/Other","status":"True"}]}}`, want: "not pitstop.dev/Other"},
		"status: a condition removed":           {patch: `{"status":{"conditions":[{"type":"Ready","$patch":"delete"}]}}`, want: "not Ready"},
		"status: all conditions removed":        {patch: `{"status":{"conditions":null}}`, want: "not ContainersReady, Ready"},
		"status: a label":                       {patch: `{"metadata":{"labels":{"app":"other"}}}`, want: "not app"},
		"status: a router's answer removed":     {answered, `{"metadata":{"annotations":{"pitstop.dev/drained":null}}}`, ""},
		"status: an annotation":                 {patch: `{"metadata":{"annotations":{"team":"y"}}}`, want: "not team"},
		"status: the hold of the coordinator":   {patch: `{"metadata":{"annotations":{"pitstop.dev/hold.unit":null}}}`, want: "not pitstop.dev/hold.unit"},
		"status: a finalizer removed":           {patch: `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/f"]}}`, want: "neither finalizers nor owners"},
		"status: how its GPUs are":              {patch: `{"status":{"conditions":[{"type":"pitstop.dev/GPUHealthy","status":"False","reason":"DeviceLost","message":"x"}]}}`},
		"status: a lost GPU, and its hold":      {patch: `{"metadata":{"annotations":{"pitstop.dev/hold.device":"x"}},"status":{"conditions":[{"type":"pitstop.dev/GPUHealthy","status":"False"}]}}`},
		"status: the hold for a sick GPU":       {patch: `{"metadata":{"annotations":{"pitstop.dev/hold.gpu-health":"x"}}}`, want: "not pitstop.dev/hold.gpu-health"},
		"status: a label and the gate together": {patch: `{"metadata":{"labels":{"x":"y"}},` + gate[1:], want: "not x"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.pod == nil {
				tt.pod = func(*corev1.Pod) {}
			}
			pod := must(plane.admin.pod(ctx, "patch", tt.pod))(t)
			var sub []string
			if strings.HasPrefix(name, "status") {
				sub = []string{"status"}
			}
			denied(t, a.merge(ctx, pod, tt.patch, sub...), tt.want)
			live := must(plane.admin.CoreV1().Pods(apps).Get(ctx, pod.Name, metav1.GetOptions{}))(t)
			if changed := live.ResourceVersion != pod.ResourceVersion; changed != (tt.want == "") {
				t.Errorf("the Pod changed: %t", changed)
			}
		})
	}
}

func TestTheSwapIsBoundToOnePod(t *testing.T) {
	ctx := t.Context()
	a := must(agentOn(ctx, node1))(t)
	pod := must(plane.admin.pod(ctx, "bound", func(*corev1.Pod) {}))(t)
	other := must(plane.admin.pod(ctx, "other", func(*corev1.Pod) {}))(t)
	denied(t, a.patch(ctx, pod, types.JSONPatchType, swap(other)), "the server rejected our request")
}

func TestAnUpdateHasNoMoreRightsThanAPatch(t *testing.T) {
	ctx := t.Context()
	a := must(agentOn(ctx, node1))(t)
	pod := must(plane.admin.pod(ctx, "rights", func(*corev1.Pod) {}))(t)
	_, put := a.CoreV1().Pods(apps).Update(ctx, pod, metav1.UpdateOptions{})
	_, putStatus := a.CoreV1().Pods(apps).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	_, create := a.CoreV1().Pods(apps).Create(ctx, pod, metav1.CreateOptions{})
	_, secrets := a.CoreV1().Secrets(apps).List(ctx, metav1.ListOptions{})
	_, secret := a.CoreV1().Secrets(system).Get(ctx, "x", metav1.GetOptions{})
	_, order := a.order(ctx, pod.Name, func(*v1alpha1.InPlaceUpdateSpec) {})
	u := must(plane.admin.order(ctx, pod.Name, func(*v1alpha1.InPlaceUpdateSpec) {}))(t)
	for what, err := range map[string]error{
		"put a pod":           put,
		"put a pod's status":  putStatus,
		"create a pod":        create,
		"delete a pod":        a.CoreV1().Pods(apps).Delete(ctx, pod.Name, metav1.DeleteOptions{}),
		"evict a pod":         a.CoreV1().RESTClient().Post().Namespace(apps).Resource("pods").Name(pod.Name).SubResource("eviction").Body([]byte(`{}`)).Do(ctx).Error(),
		"resize a pod":        a.merge(ctx, pod, `{}`, "resize"),
		"debug a pod":         a.merge(ctx, pod, `{}`, "ephemeralcontainers"),
		"list secrets":        secrets,
		"read a secret":       secret,
		"create an order":     order,
		"change an order":     a.reorder(ctx, u, "", func(u *v1alpha1.InPlaceUpdate) { u.Spec.Attempt++ }),
		"delete an order":     a.orders.Delete().Namespace(apps).Resource("inplaceupdates").Name(u.Name).Do(ctx).Error(),
		"patch a node":        patchNode(ctx, a, node1),
		"delete its lease":    a.CoordinationV1().Leases(system).Delete(ctx, v1alpha1.AgentLeaseName(node1), metav1.DeleteOptions{}),
		"a lease elsewhere":   leaseIn(ctx, a, "kube-node-lease", node1),
		"a token of its own":  tokenOf(ctx, a),
		"change its policies": a.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "pitstop-agent-pods", metav1.DeleteOptions{}),
	} {
		t.Run(what, func(t *testing.T) { denied(t, err, "pitstop-agent\" cannot") })
	}
}

func patchNode(ctx context.Context, c client, node string) error {
	_, err := c.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
	return err
}

func leaseIn(ctx context.Context, c client, namespace, name string) error {
	_, err := c.CoordinationV1().Leases(namespace).Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func tokenOf(ctx context.Context, c client) error {
	return c.CoreV1().RESTClient().Post().Namespace(system).Resource("serviceaccounts").Name("pitstop-agent").
		SubResource("token").Body([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`)).Do(ctx).Error()
}

func TestWhatElseTheAgentWritesIsOfItsNode(t *testing.T) {
	ctx := t.Context()
	a := must(agentOn(ctx, node1))(t)
	pod := must(plane.admin.pod(ctx, "node", func(p *corev1.Pod) { p.Spec.NodeName = node2 }))(t)
	u := must(plane.admin.order(ctx, pod.Name, func(s *v1alpha1.InPlaceUpdateSpec) { s.NodeName = node2 }))(t)
	condition := func(kind string) string {
		return `{"status":{"conditions":[{"type":"` + kind + `","status":"False"}]}}`
	}
	if err := leaseOf(ctx, plane.admin, node2); err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		err  error
		want string
	}{
		"a report on an order for another node": {
			a.reorder(ctx, u, "status", func(u *v1alpha1.InPlaceUpdate) { u.Status.Stage = v1alpha1.StageFailed }),
			"may not write inplaceupdates of node " + node2,
		},
		"another node's lease, created": {leaseOf(ctx, a, "node3"), "may not write leases of node node3"},
		"another node's lease, renewed": {leaseOf(ctx, a, node2), "may not write leases of node " + node2},
		"a lease of others":             {leaseIn(ctx, a, system, "coordinator"), "may not write leases of others"},
		"an event of another node":      {eventOf(ctx, a, pod, node2), "may not write events of node " + node2},
		"an event of no node":           {eventOf(ctx, a, pod, ""), "may not write events of others"},
		"another node's condition":      {a.mergeNode(ctx, node2, condition("pitstop.dev/GPUHealthy")), "may not write nodes of node " + node2},
		"its own condition":             {a.mergeNode(ctx, node1, condition("pitstop.dev/GPUHealthy")), ""},
		"a foreign condition":           {a.mergeNode(ctx, node1, condition("Ready")), "not Ready"},
		"a new foreign condition":       {a.mergeNode(ctx, node1, condition("x")), "not x"},
		"a condition removed":           {a.mergeNode(ctx, node1, `{"status":{"conditions":[{"type":"Ready","$patch":"delete"}]}}`), "not Ready"},
		"what the node offers":          {a.mergeNode(ctx, node1, `{"status":{"capacity":{"cpu":"1"}}}`), "status.capacity"},
		"a label of the node":           {a.mergeNode(ctx, node1, `{"metadata":{"labels":{"x":"y"}}}`), "may not change the metadata"},
		"an annotation of the node":     {a.mergeNode(ctx, node1, `{"metadata":{"annotations":{"x":"y"}}}`), "may not change the metadata"},
	} {
		t.Run(what, func(t *testing.T) { denied(t, tt.err, tt.want) })
	}
}

func TestATokenWithoutANodeMayWriteNothing(t *testing.T) {
	ctx := t.Context()
	a := must(account(ctx, lab.Account{Namespace: system, Name: "pitstop-agent"}))(t)
	pod := must(plane.admin.pod(ctx, "stolen", func(*corev1.Pod) {}))(t)
	unscheduled := must(plane.admin.pod(ctx, "stolen", func(p *corev1.Pod) { p.Spec.NodeName = "" }))(t)
	u := must(plane.admin.order(ctx, pod.Name, func(*v1alpha1.InPlaceUpdateSpec) {}))(t)
	gate := `{"status":{"conditions":[{"type":"pitstop.dev/InService","status":"True"}]}}`
	for what, err := range map[string]error{
		"an image":                     a.patch(ctx, pod, types.JSONPatchType, swap(pod)),
		"an image of a Pod of no node": a.patch(ctx, unscheduled, types.JSONPatchType, swap(unscheduled)),
		"a gate":                       a.merge(ctx, pod, gate, "status"),
		"a gate of a Pod of no node":   a.merge(ctx, unscheduled, gate, "status"),
		"a report":                     a.reorder(ctx, u, "status", func(u *v1alpha1.InPlaceUpdate) { u.Status.Stage = v1alpha1.StageFailed }),
		"a lease":                      leaseOf(ctx, a, node1),
		"an event":                     eventOf(ctx, a, pod, node1),
		"an event of no node":          eventOf(ctx, a, pod, ""),
		"a condition of a node":        a.mergeNode(ctx, node1, `{"status":{"conditions":[{"type":"pitstop.dev/GPUHealthy","status":"True"}]}}`),
	} {
		t.Run(what, func(t *testing.T) { denied(t, err, "names no node") })
	}
}

func TestHoldsOfPitstopAreSetByPitstop(t *testing.T) {
	ctx := t.Context()
	user := plane.admin // all rights, and no holder
	annotation := func(key, value string) string {
		return `{"metadata":{"annotations":{"` + key + `":` + value + `}}}`
	}
	for name, tt := range map[string]struct{ patch, sub, want string }{
		"hold.inplace set":             {annotation(v1alpha1.HoldInPlace, `"x"`), "", v1alpha1.HoldInPlace + " is set by Pitstop only"},
		"hold.device set":              {annotation(v1alpha1.HoldDevice, `"x"`), "", v1alpha1.HoldDevice},
		"hold.gpu-health set":          {annotation(v1alpha1.HoldGPUHealth, `"x"`), "", v1alpha1.HoldGPUHealth},
		"hold.unit changed":            {annotation(v1alpha1.HoldUnit, `"z"`), "", v1alpha1.HoldUnit},
		"hold.unit through the status": {annotation(v1alpha1.HoldUnit, `"z"`), "status", v1alpha1.HoldUnit},
		"hold.unit unchanged":          {`{"metadata":{"labels":{"x":"y"}}}`, "", ""},
		"kubelet's status":             {`{"status":{"message":"x"}}`, "status", ""},
		"hold.unit removed":            {annotation(v1alpha1.HoldUnit, "null"), "", ""},
		"a hold of its own":            {annotation(v1alpha1.HoldPrefix+"alice", `"x"`), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := must(plane.admin.pod(ctx, "hold", func(*corev1.Pod) {}))(t)
			var sub []string
			if tt.sub != "" {
				sub = []string{tt.sub}
			}
			denied(t, user.merge(ctx, pod, tt.patch, sub...), tt.want)
		})
	}
}
