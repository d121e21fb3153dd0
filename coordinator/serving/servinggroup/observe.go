package servinggroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
	"pitstop.dev/coordinator/revision"
)

// IndexOwner is the index of objects by the UID of their controller.
const IndexOwner = "ownerUID"

// liveTries is how often Pods are read until the group is the same before and after.
const liveTries = 2

// A sight is what was read in one look.
type sight struct {
	sg *v1alpha1.ServingGroup
	// ms is nil if the owner is gone.
	ms     *v1alpha1.ModelServing
	pods   map[string]*corev1.Pod
	orders map[string]*v1alpha1.InPlaceUpdate
	data   map[string]revision.Data
	snap   pods.Snapshot
}

// A source says from where a look reads the ServingGroup and its Pods.
type source int

const (
	// cached readings may be old.
	cached source = iota
	// live readings are as the API server has them.
	live
)

// look reads the group and all that belongs to it; nil if there is nothing to do. Its errors are errLate
// and those of the API server.
func (r *Reconciler) look(ctx context.Context, key types.NamespacedName, from source) (*sight, error) {
	s := &sight{sg: &v1alpha1.ServingGroup{}, pods: make(map[string]*corev1.Pod)}
	read := r.readCached
	if from == live {
		read = r.readLive
	}
	if err := read(ctx, key, s); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if err := r.owner(ctx, s); err != nil {
		return nil, err
	}
	if s.ms == nil && s.sg.DeletionTimestamp == nil {
		return nil, nil // the collector deletes what has lost its owner
	}
	s.snap = pods.Snapshot{Now: r.cfg.Clock.Now(), Group: groupOf(s.sg), Settings: settingsOf(s.ms)}
	if err := r.revisions(ctx, s); err != nil {
		return nil, err
	}
	inPlace := slices.ContainsFunc(s.sg.Spec.Updates, func(u v1alpha1.UnitUpdate) bool { return u.Method == v1alpha1.UnitInPlace })
	s.snap.Pods = make([]pods.Pod, 0, len(s.pods))
	for _, name := range slices.Sorted(maps.Keys(s.pods)) { // one order of reads, whatever the map's
		if one, ok := podOf(s.sg, s.pods[name]); ok {
			if inPlace || one.Patched && one.HeldInPlace {
				one.Images = imagesOf(&corev1.PodTemplateSpec{Spec: s.pods[name].Spec})
				one.Credentials, one.PullSecrets = credentials(s.pods[name]), len(s.pods[name].Spec.ImagePullSecrets) > 0
			}
			s.snap.Pods = append(s.snap.Pods, one)
		}
	}
	if err := errors.Join(r.belongings(ctx, s), r.lookForPins(ctx, s, from)); err != nil {
		return nil, err
	}
	for n := range s.snap.Pods {
		p := &s.snap.Pods[n]
		p.Restarted = restarted(s.pods[p.Name], s.orders[p.Name])
	}
	if from == live {
		if err := r.findServices(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, r.agents(ctx, s, from)
}

// readCached reads the group and the Pods that it controls, by UID, as the cache has them.
func (r *Reconciler) readCached(ctx context.Context, key types.NamespacedName, s *sight) error {
	if err := r.cfg.Client.Get(ctx, key, s.sg); err != nil {
		return err
	}
	var list corev1.PodList
	err := r.cfg.Client.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{IndexOwner: string(s.sg.UID)})
	if err != nil {
		return fmt.Errorf("list pods of %s: %w", key.Name, err)
	}
	s.keep(list.Items)
	return nil
}

// readLive reads the Pods and then the group, which has to be the one that was known before: else new
// Pods may be judged by an old spec, or old ones by a new spec, however long the reading takes. What the
// cache says is known; if that is outdated, the Pods are read once more.
func (r *Reconciler) readLive(ctx context.Context, key types.NamespacedName, s *sight) error {
	known := &v1alpha1.ServingGroup{}
	if err := r.cfg.Client.Get(ctx, key, known); err != nil {
		return err
	}
	for range liveTries {
		if err := r.readPods(ctx, key, s, known); err != nil {
			return err
		}
		now := &v1alpha1.ServingGroup{}
		if err := r.cfg.Live.Get(ctx, key, now); err != nil {
			return err
		}
		if now.UID == known.UID && now.ResourceVersion == known.ResourceVersion {
			return nil
		}
		known = now
	}
	return errLate
}

// readPods reads the Pods of the group from the API server.
func (r *Reconciler) readPods(ctx context.Context, key types.NamespacedName, s *sight, sg *v1alpha1.ServingGroup) error {
	var list corev1.PodList
	err := r.cfg.Live.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingLabels{v1alpha1.LabelServingGroup: key.Name})
	if err != nil {
		return fmt.Errorf("list pods of %s: %w", key.Name, err)
	}
	s.sg, s.pods = sg, make(map[string]*corev1.Pod)
	s.keep(list.Items)
	found, err := r.findPods(ctx, s)
	if err != nil {
		return err
	}
	s.keep(found)
	return nil
}

// keep keeps the Pods that the group controls, by UID.
func (s *sight) keep(list []corev1.Pod) {
	for n := range list {
		if p := &list[n]; metav1.IsControlledBy(p, s.sg) {
			s.pods[p.Name] = p
		}
	}
}

// owner reads the ModelServing, which has to be the one that the group's owner reference means. A cache that
// does not show it yet is not believed: nothing would have the group looked at again once it does.
func (r *Reconciler) owner(ctx context.Context, s *sight) error {
	ref := metav1.GetControllerOf(s.sg)
	if ref == nil || ref.Kind != "ModelServing" {
		return nil
	}
	var ms v1alpha1.ModelServing
	key := types.NamespacedName{Namespace: s.sg.Namespace, Name: ref.Name}
	err := r.cfg.Client.Get(ctx, key, &ms)
	if apierrors.IsNotFound(err) || err == nil && ms.UID != ref.UID {
		ms = v1alpha1.ModelServing{}
		err = r.cfg.Live.Get(ctx, key, &ms)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read modelserving %s: %w", ref.Name, err)
	case ms.UID == ref.UID:
		s.ms = &ms
	}
	return nil
}

func groupOf(sg *v1alpha1.ServingGroup) pods.Group {
	return pods.Group{
		Name: sg.Name, UID: sg.UID, Generation: sg.Generation, Deleting: sg.DeletionTimestamp != nil,
		Finalizer: controllerutil.ContainsFinalizer(sg, v1alpha1.FinalizerOrdinal),
		Spec:      sg.Spec, Status: sg.Status,
	}
}

// settingsOf fills in the defaults that an old stored object may lack.
func settingsOf(ms *v1alpha1.ModelServing) pods.Settings {
	s := pods.Settings{Recovery: v1alpha1.RecoverRole, Deadline: deadlineOf(ms)}
	if ms == nil {
		return s
	}
	if ms.Spec.RecoveryPolicy != "" {
		s.Recovery = ms.Spec.RecoveryPolicy
	}
	s.RestartGrace = time.Duration(ms.Spec.Template.RestartGracePeriodSeconds) * time.Second
	strategy := &ms.Spec.RolloutStrategy
	s.DrainFor = time.Duration(ptr.Deref(strategy.Drain.TimeoutSeconds, 300)+ptr.Deref(strategy.InPlace.PropagationSeconds, 3)) * time.Second
	for i := range ms.Spec.Template.Roles {
		if role := &ms.Spec.Template.Roles[i]; !ptr.Deref(role.Front, true) {
			if s.Back == nil {
				s.Back = map[string]bool{}
			}
			s.Back[role.Name] = true
		}
	}
	return s
}

func deadlineOf(ms *v1alpha1.ModelServing) time.Duration {
	if ms == nil || ms.Spec.ProgressDeadlineSeconds == nil {
		return 30 * time.Minute
	}
	return time.Duration(*ms.Spec.ProgressDeadlineSeconds) * time.Second
}

// revisions reads what the group and its instances are pinned to. One that cannot be read is left
// out, and so is one of another owner.
func (r *Reconciler) revisions(ctx context.Context, s *sight) error {
	s.data = make(map[string]revision.Data)
	s.snap.Revisions = make(map[string]pods.Revision)
	names := map[string]bool{s.sg.Spec.Revision: true}
	for _, i := range s.sg.Spec.Instances {
		if i.Revision != "" {
			names[i.Revision] = true
		}
	}
	for _, u := range s.sg.Spec.Updates {
		if u.Method == v1alpha1.UnitInPlace {
			names[u.Target] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var cr appsv1.ControllerRevision
		err := r.getBoth(ctx, types.NamespacedName{Namespace: s.sg.Namespace, Name: name}, &cr)
		if apierrors.IsNotFound(err) || err == nil && (s.ms == nil || !metav1.IsControlledBy(&cr, s.ms)) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read revision %s: %w", name, err)
		}
		one, err := r.memo.read(&cr)
		if err != nil {
			r.logger(ctx).V(1).Info("revision cannot be read", "revision", name, "cause", err.Error())
			continue
		}
		s.data[name], s.snap.Revisions[name] = one.data, one.shapes
	}
	return nil
}

// getBoth asks the API server for what the cache does not have: it may only be late.
func (r *Reconciler) getBoth(ctx context.Context, key types.NamespacedName, into client.Object) error {
	err := r.cfg.Client.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return r.cfg.Live.Get(ctx, key, into)
	}
	return err
}

// belongings reads the orders and Services of the group.
func (r *Reconciler) belongings(ctx context.Context, s *sight) error {
	var orders v1alpha1.InPlaceUpdateList
	err := r.cfg.Client.List(ctx, &orders, client.InNamespace(s.sg.Namespace), client.MatchingLabels{v1alpha1.LabelServingGroup: s.sg.Name})
	if err != nil {
		return fmt.Errorf("list orders of %s: %w", s.sg.Name, err)
	}
	s.orders = make(map[string]*v1alpha1.InPlaceUpdate)
	for n := range orders.Items {
		o := &orders.Items[n]
		if _, _, _, ours := place(s.sg.Name, o.Name); ours {
			s.orders[o.Name] = o
			s.snap.Orders = append(s.snap.Orders, orderOf(s.sg, o))
		}
	}
	var services corev1.ServiceList
	err = r.cfg.Client.List(ctx, &services, client.InNamespace(s.sg.Namespace), client.MatchingFields{IndexOwner: string(s.sg.UID)})
	if err != nil {
		return fmt.Errorf("list services of %s: %w", s.sg.Name, err)
	}
	for n := range services.Items {
		v := &services.Items[n]
		s.snap.Services = append(s.snap.Services, pods.Service{Name: v.Name, UID: v.UID, Deleting: v.DeletionTimestamp != nil})
	}
	return nil
}

func orderOf(sg *v1alpha1.ServingGroup, o *v1alpha1.InPlaceUpdate) pods.Order {
	return pods.Order{
		Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Deleting: o.DeletionTimestamp != nil,
		PodUID: o.Spec.PodUID, Ours: o.Spec.ServingGroupUID == sg.UID,
		Attempt: o.Spec.Attempt, Key: o.Annotations[v1alpha1.UnitAttempt], Permit: o.Spec.Permit,
		ReportedAttempt: o.Status.Attempt, Stage: o.Status.Stage, Reason: o.Status.Reason, Message: o.Status.Message,
	}
}

// agents finds out until when the agents of the Pods' nodes count as alive, and which are too old. A Lease that looks expired
// is asked for: nothing is deleted without a drain because a cache is late.
func (r *Reconciler) agents(ctx context.Context, s *sight, from source) error {
	s.snap.Agents, s.snap.Behind = make(map[string]time.Time), make(map[string]bool)
	for _, p := range s.snap.Pods {
		if _, known := s.snap.Agents[p.Node]; known || p.Node == "" {
			continue
		}
		var lease coordinationv1.Lease
		key := types.NamespacedName{Namespace: r.cfg.Namespace, Name: v1alpha1.AgentLeaseName(p.Node)}
		err := r.cfg.Client.Get(ctx, key, &lease)
		if err == nil && from == live && !s.snap.Now.Before(aliveUntil(&lease)) {
			err = r.cfg.Live.Get(ctx, key, &lease)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read lease of the agent on %s: %w", p.Node, err)
		}
		if err == nil {
			s.snap.Agents[p.Node] = aliveUntil(&lease)
			s.snap.Behind[p.Node] = !v1alpha1.AgentUnderstands(lease.Annotations)
		}
	}
	return nil
}

func aliveUntil(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Add(v1alpha1.AgentLeaseDuration)
}
