package agent

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/gpu/residency"
	"pitstop.dev/readiness"
)

// A sight is what was read about one Pod in one look.
type sight struct {
	key    types.NamespacedName
	now    time.Time
	pod    *corev1.Pod             // nil: there is none
	order  *v1alpha1.InPlaceUpdate // nil: there is none for this Pod
	token  string
	track  *track
	record journal.Record
	gate   readiness.Gate
	cri    cri.Pod
	node   Node
	proof  func(image string) Proof
	hash   func(container, image string) string // kubelet's
	drain  readiness.Drain
	// elsewhere is the node of the Pod if it runs on another one.
	elsewhere string
	looks     []residency.Sample // looks at its GPUs that are over since the last one
}

// look reads the Pod and its order. A Pod that the cache does not have is asked for: what is
// missing there may only be late.
func (a *Agent) look(ctx context.Context, key types.NamespacedName) (sight, error) {
	s := sight{key: key, now: a.cfg.Clock.Now()}
	order, ordered := a.updates.get(key)
	pod, found := a.pods.get(key)
	if !found && ordered {
		live, err := a.api.pod(ctx, key)
		if err != nil && !apierrors.IsNotFound(err) {
			return s, err
		}
		pod = live
	}
	a.see(&s, pod, order)
	return s, nil
}

// see keeps what of a Pod and an order is this node's; both may be nil.
func (a *Agent) see(s *sight, pod *corev1.Pod, order *v1alpha1.InPlaceUpdate) {
	switch {
	case pod == nil:
	case pod.Spec.NodeName == a.cfg.NodeName:
		s.pod = pod
		s.gate = readiness.GateOf(pod)
	default:
		s.elsewhere = pod.Spec.NodeName
	}
	if order != nil && order.Spec.NodeName == a.cfg.NodeName && order.DeletionTimestamp == nil {
		s.order = order
	}
}

// observe returns all that the decision about the order depends on. read asks the node for what is not in
// the API.
func (a *Agent) observe(s *sight, read func()) Update {
	u := Update{Order: orderOf(s.order, s.pod), Report: reportOf(s.order)}
	s.token = s.order.Token()
	if s.pod == nil || s.pod.UID != s.order.Spec.PodUID || s.pod.DeletionTimestamp != nil {
		u.Pod.Gone, u.Pod.Elsewhere = true, s.elsewhere
		return u
	}
	s.track = a.tracks.of(s.key, s.token, s.pod.UID, s.now)
	a.images.forget(func(token string) bool { return token != s.token && sameOrder(token, s.token) })
	a.takeLooks(s)
	read()
	u.PatchDenied, u.Node = s.track.denied, s.node
	u.Stage, u.Since = a.tracks.since(s)
	a.observePod(s, &u)
	for _, c := range s.order.Spec.Containers {
		u.Order.Want = append(u.Order.Want, c.Name)
	}
	a.observeContainers(s, &u)
	a.observeGPUs(s, &u)
	return u
}

// observeOrphan is observe for a Pod with a hold of ours whose order is gone.
func (a *Agent) observeOrphan(s *sight, read func()) Update {
	u := Update{Order: Order{StopTimeout: defaultStop, Deadline: time.Hour}}
	s.token = s.pod.Annotations[v1alpha1.HoldInPlace]
	s.track = a.tracks.of(s.key, s.token, s.pod.UID, s.now)
	read()
	if mark := s.patched(); mark.Token != "" {
		u.Order.StopTimeout = mark.StopTimeout
	}
	u.Pod.Gone, u.Node = s.pod.DeletionTimestamp != nil, s.node
	a.observePod(s, &u)
	a.observeContainers(s, &u)
	return u
}

// defaultStop bounds the stop of an old container where neither order nor Pod says otherwise any
// more.
const defaultStop = 30 * time.Second

// read asks journal, runtime and kubelet.
func (a *Agent) read(ctx context.Context, s *sight) {
	s.record = a.keeper.read(ctx, s.pod.UID)
	s.proof = func(image string) Proof { return a.images.proof(ctx, s.token, image) }
	s.hash = cri.KubeletHash
	var err error
	s.cri, err = a.cfg.Runtime.Pod(ctx, string(s.pod.UID))
	_, journaled := a.keeper.open(ctx)
	s.node = Node{RuntimeUp: err == nil, JournalOpen: journaled}
	patched := s.patched().Token
	if patched != "" {
		s.node.KubeletUp = a.kubelet.up(ctx)
	}
	if s.order != nil && patched != s.token && s.order.Spec.Permit.Allows(v1alpha1.PermitDrain) {
		a.notNow(ctx, s.pod, &s.node)
		a.notWhileSick(s)
	}
}

func (a *Agent) observePod(s *sight, u *Update) {
	pod := s.pod
	u.Pod = Pod{
		Gone:                 u.Pod.Gone,
		Failed:               pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded,
		HasGate:              readiness.HasGate(pod),
		GateOpen:             s.gate.Open,
		Patched:              Patch{Token: s.patched().Token, At: s.patched().At},
		NotReadyAcknowledged: readiness.Acknowledged(pod),
		Announced:            readiness.Announced(pod),
		Hold:                 Hold{Token: pod.Annotations[v1alpha1.HoldInPlace]},
	}
	if s.gate.Token != "" && s.gate.Token == u.Pod.Hold.Token {
		u.Pod.Hold.LoweredAt, u.Pod.Hold.Acknowledged = s.gate.LoweredAt, s.gate.AcknowledgedAt
		s.track.acked = s.gate.AcknowledgedAt
	}
	for _, h := range readiness.Holds(pod) {
		if v1alpha1.HoldPrefix+h.Holder != v1alpha1.HoldInPlace {
			u.Pod.OtherHolders = append(u.Pod.OtherHolders, h.Holder)
		}
	}
	current := statusIsCurrent(pod, s.cri)
	u.Pod.ContainersReady = current && readiness.ContainersReady(pod)
	u.Pod.Ready = current && readiness.Ready(pod)
	if u.Pod.ContainersReady && s.track.ready.IsZero() {
		s.track.ready = s.readySince()
	} else if !u.Pod.ContainersReady {
		s.track.ready = time.Time{}
	}
	if s.order != nil {
		u.Pod.patchedByOrder = u.Pod.Patched.Token == s.token
		u.Pod.LabelsDue = labelsDue(s.order, pod)
		u.Drain, s.drain = a.drains.state(u.Order, pod)
	}
}

// since returns where the attempt was last seen to stand, and since when.
func (t *tracks) since(s *sight) (v1alpha1.Stage, time.Time) {
	st := s.order.Status
	if s.track.stage == "" && st.Attempt == s.order.Spec.Attempt && st.StageSince != nil {
		t.move(s.track, st.Stage, st.StageSince.Time)
		s.track.patient = ptr.Deref(st.ProgressSince, metav1.MicroTime{}).Time
		if st.Reason == v1alpha1.WaitingPermit || st.Reason == v1alpha1.WaitingHeld {
			s.track.patient = s.now
		}
	}
	return s.track.stage, latest(s.track.since, s.track.patient)
}

// readySince is when all containers were ready: now, or when kubelet says for a process that has
// only just begun to look.
func (s *sight) readySince() time.Time {
	for _, c := range s.pod.Status.Conditions {
		if c.Type == corev1.ContainersReady && s.track.seen.Equal(s.now) {
			return c.LastTransitionTime.Time
		}
	}
	return s.now
}

// statusIsCurrent reports whether kubelet's status is about the containers that run now. While
// it is about those before, their readiness says nothing.
func statusIsCurrent(pod *corev1.Pod, seen cri.Pod) bool {
	for _, c := range pod.Spec.Containers {
		i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		now, ok := seen.Newest(c.Name)
		if i < 0 || !ok || bareID(pod.Status.ContainerStatuses[i].ContainerID) != now.ID {
			return false
		}
	}
	return true
}

func orderOf(o *v1alpha1.InPlaceUpdate, pod *corev1.Pod) Order {
	out := Order{
		Token: o.Token(), Attempt: o.Spec.Attempt, ByHand: o.ByHand(),
		Permit: o.Spec.Permit, OpenAt: o.Spec.OpenAt,
		Propagation: o.Spec.Propagation(), StopTimeout: o.Spec.StopTimeout(), Deadline: o.Spec.ProgressDeadline(),
	}
	if d := o.Spec.Drain; d != nil {
		out.DrainMode, out.DrainFor = d.Mode, d.Timeout()
	}
	if pod != nil {
		out.Foreign, out.ForeignReason = foreign(o, pod)
	}
	return out
}

// foreign says why the order is not one that may be followed; empty if it may.
func foreign(o *v1alpha1.InPlaceUpdate, pod *corev1.Pod) (string, v1alpha1.Reason) {
	var group types.UID
	for _, ref := range pod.OwnerReferences {
		if ref.Kind == "ServingGroup" && sameGroup(ref.APIVersion) {
			group = ref.UID
		}
	}
	owned := slices.ContainsFunc(o.OwnerReferences, func(r ownerReference) bool { return r.Kind == "Pod" && r.UID == pod.UID })
	switch {
	case group != o.Spec.ServingGroupUID && group != "":
		return "the Pod belongs to a ServingGroup, whose controller alone gives orders for it: change the ModelServing instead", v1alpha1.RefusedForeign
	case group != o.Spec.ServingGroupUID:
		return "servingGroupUID is set and the Pod belongs to no ServingGroup", v1alpha1.RefusedForeign
	case !owned && o.ByHand():
		return "the order is not owned by its Pod: delete it and use kubectl pitstop update, or set the owner reference in a new attempt", v1alpha1.RefusedNotOwned
	}
	return "", ""
}

// reportBefore is the report on an attempt that nothing has been reported of: what is known of the
// ones before it. The status may be several attempts behind.
func reportBefore(o *v1alpha1.InPlaceUpdate) Report {
	st := o.Status
	r := Report{Superseded: o.Spec.Attempt > 1}
	if st.Stage.Ended() {
		r.Closed = st.Attempt
		r.Superseded = st.Attempt < o.Spec.Attempt-1
	}
	return r
}

func reportOf(o *v1alpha1.InPlaceUpdate) Report {
	st := o.Status
	if st.Attempt != o.Spec.Attempt {
		return reportBefore(o)
	}
	r := Report{Attempt: st.Attempt, Stage: st.Stage, Reason: st.Reason, Message: st.Message}
	if st.StageSince != nil {
		r.Since = st.StageSince.Time
	}
	return r
}

func labelsOf(o *v1alpha1.InPlaceUpdate) map[string]string {
	labels := make(map[string]string, len(o.Spec.Labels)+1)
	for k, v := range o.Spec.Labels {
		labels[k] = string(v)
	}
	if o.Spec.Revision != "" {
		labels[v1alpha1.LabelRevision] = o.Spec.Revision
	}
	return labels
}

// annotationsOf are the annotations that the opening write sets.
func annotationsOf(o *v1alpha1.InPlaceUpdate) map[string]string {
	if o.Spec.RoleDigest == "" {
		return nil
	}
	return map[string]string{v1alpha1.RoleDigest: o.Spec.RoleDigest}
}

func labelsDue(o *v1alpha1.InPlaceUpdate, pod *corev1.Pod) bool {
	if o.Spec.RoleDigest != "" && pod.Annotations[v1alpha1.RoleDigest] != o.Spec.RoleDigest {
		return true
	}
	for k, want := range labelsOf(o) {
		if got, ok := pod.Labels[k]; got != want || ok != (want != "") {
			return true
		}
	}
	return false
}
