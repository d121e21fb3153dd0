package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// caller is who writes.
type caller struct {
	name  string
	frame *Frame
}

func resource(kind string) schema.GroupResource { return schema.GroupResource{Resource: kind} }

func (s *Server) create(by caller, given client.Object) error {
	kind, key := kindOf(given), client.ObjectKeyFromObject(given)
	switch {
	case key.Name == "":
		panic("a generated name is not simulated: " + kind)
	case given.GetResourceVersion() != "":
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	case s.Stored(kind, key) != nil:
		return apierrors.NewAlreadyExists(resource(kind), key.Name)
	}
	if s.Admit != nil {
		if err := s.Admit(given); err != nil {
			return err
		}
	}
	o := clone(given)
	resetStatus(o)
	setDefaults(o)
	round(o)
	o.SetUID(s.newUID(kind))
	o.SetCreationTimestamp(metav1.NewTime(s.clock.Now().Truncate(time.Second)))
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	if hasGeneration(kind) {
		o.SetGeneration(1)
	}
	w := Write{By: by.name, Frame: by.frame, Verb: Create, Kind: kind, Key: key, New: o}
	if err := validate(w); err != nil {
		return err
	}
	s.store(w)
	copyInto(o, given)
	return nil
}

// update is a write of everything but the status, or of the status alone.
func (s *Server) update(by caller, verb Verb, given client.Object) error {
	kind, key := kindOf(given), client.ObjectKeyFromObject(given)
	old := s.Stored(kind, key)
	if old == nil {
		return apierrors.NewNotFound(resource(kind), key.Name)
	}
	if given.GetResourceVersion() == "" {
		return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, key.Name, nil)
	}
	if err := precondition(old, given.GetUID(), given.GetResourceVersion()); err != nil {
		return err
	}
	o := merge(verb, old, given)
	setDefaults(o)
	round(o)
	w := Write{Verb: verb, Kind: kind, Key: key, Old: old, New: o, Bound: true}
	if err := validate(w); err != nil {
		return err
	}
	if err := s.replace(by, w); err != nil {
		return err
	}
	if stored := s.Stored(kind, key); stored != nil {
		o = stored
	}
	copyInto(o, given)
	return nil
}

// replace stores what an update came to: nothing where nothing changed, and a removal where the
// last finalizer of a deleted object went.
func (s *Server) replace(by caller, w Write) error {
	w.By, w.Frame = by.name, by.frame
	w.New.SetResourceVersion(w.Old.GetResourceVersion())
	w.New.SetGeneration(w.Old.GetGeneration())
	if unchanged(w) {
		return nil
	}
	if w.Verb == Update && hasGeneration(w.Kind) && !samePart(w.Old, w.New, "Spec") {
		w.New.SetGeneration(w.Old.GetGeneration() + 1)
	}
	if w.New.GetDeletionTimestamp() != nil && len(w.New.GetFinalizers()) == 0 && w.Kind != Pod {
		w.Verb, w.New = Remove, nil
	}
	s.store(w)
	return nil
}

// unchanged: an update of the status leaves the spec alone, which is the larger part.
func unchanged(w Write) bool {
	if w.Verb != UpdateStatus {
		return equality.Semantic.DeepEqual(w.Old, w.New)
	}
	return maps.Equal(w.Old.GetLabels(), w.New.GetLabels()) && maps.Equal(w.Old.GetAnnotations(), w.New.GetAnnotations()) &&
		samePart(w.Old, w.New, "Status")
}

func (s *Server) delete(by caller, given client.Object, o client.DeleteOptions) error {
	kind, key := kindOf(given), client.ObjectKeyFromObject(given)
	old := s.Stored(kind, key)
	if old == nil {
		return apierrors.NewNotFound(resource(kind), key.Name)
	}
	w := Write{By: by.name, Frame: by.frame, Kind: kind, Key: key, Old: old}
	if p := o.Preconditions; p != nil {
		var uid types.UID
		var version string
		if p.UID != nil {
			uid, w.Bound = *p.UID, true
		}
		if p.ResourceVersion != nil {
			version = *p.ResourceVersion
		}
		if err := precondition(old, uid, version); err != nil {
			return err
		}
	}
	grace, stays := lingers(old, o.GracePeriodSeconds)
	switch {
	case !stays:
		w.Verb = Remove
	case old.GetDeletionTimestamp() != nil:
		return nil
	default:
		w.Verb, w.New = Mark, clone(old)
		at := metav1.NewTime(s.clock.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
		w.New.SetDeletionTimestamp(&at)
		w.New.SetDeletionGracePeriodSeconds(&grace)
		if hasGeneration(kind) {
			w.New.SetGeneration(old.GetGeneration() + 1) // as the API server does
		}
	}
	s.store(w)
	return nil
}

// lingers says whether a deleted object stays for a while, and with which grace period.
func lingers(o client.Object, asked *int64) (grace int64, stays bool) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return 0, len(o.GetFinalizers()) > 0
	}
	grace = 30
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if asked != nil {
		grace = *asked
	}
	over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if pod.Spec.NodeName == "" || over {
		grace = 0
	}
	return grace, grace > 0 || len(o.GetFinalizers()) > 0
}

// patchPodStatus applies a strategic merge patch to pods/status, which takes labels and
// annotations too, but neither the spec nor owners.
func (s *Server) patchPodStatus(by caller, given *corev1.Pod, data []byte) error {
	key := client.ObjectKeyFromObject(given)
	old, ok := s.Stored(Pod, key).(*corev1.Pod)
	if !ok {
		return apierrors.NewNotFound(resource(Pod), key.Name)
	}
	var p podPatch
	if err := json.Unmarshal(data, &p); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if err := precondition(old, p.Metadata.UID, p.Metadata.ResourceVersion); err != nil {
		return err
	}
	o, err := p.apply(old, data)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	round(o)
	w := Write{Verb: UpdateStatus, Kind: Pod, Key: key, Old: old, New: o, Bound: p.Metadata.UID != ""}
	if err := s.replace(by, w); err != nil {
		return err
	}
	copyInto(s.Stored(Pod, key), given)
	return nil
}

// podPatch is what a patch says that has to be known before it is applied.
type podPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
	Status map[string]json.RawMessage `json:"status"`
}

// apply returns the Pod with the patch. Only what the patch can change is merged, for all of a Pod as
// JSON is most of the costs: labels, annotations and, of the status, the conditions.
func (p podPatch) apply(old *corev1.Pod, data []byte) (*corev1.Pod, error) {
	for field := range p.Status {
		if field != "conditions" {
			panic("not simulated: a patch of a Pod's status." + field)
		}
	}
	part := corev1.Pod{}
	part.Labels, part.Annotations, part.Status.Conditions = old.Labels, old.Annotations, old.Status.Conditions
	before, err := json.Marshal(&part)
	if err != nil {
		return nil, fmt.Errorf("encode Pod: %w", err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, data, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("merge patch: %w", err)
	}
	var patched corev1.Pod
	if err := json.Unmarshal(after, &patched); err != nil {
		return nil, fmt.Errorf("decode Pod: %w", err)
	}
	o := shallow(old)
	o.Labels, o.Annotations, o.Status.Conditions = patched.Labels, patched.Annotations, patched.Status.Conditions
	return o, nil
}

func precondition(o client.Object, uid types.UID, version string) error {
	if uid != "" && uid != o.GetUID() {
		return apierrors.NewConflict(resource(kindOf(o)), o.GetName(), fmt.Errorf("the UID is %s, not %s", o.GetUID(), uid))
	}
	if version != "" && version != o.GetResourceVersion() {
		return apierrors.NewConflict(resource(kindOf(o)), o.GetName(), fmt.Errorf("the resourceVersion is %s, not %s", o.GetResourceVersion(), version))
	}
	return nil
}
