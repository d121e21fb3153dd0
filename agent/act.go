package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

func ofServingGroup(pod *corev1.Pod) bool {
	for _, ref := range pod.OwnerReferences {
		if ref.Kind == "ServingGroup" && sameGroup(ref.APIVersion) {
			return true
		}
	}
	return false
}

// attempt is the journal's name of what is under way.
func (s *sight) attempt() journal.Attempt {
	a := journal.Attempt{Pod: s.pod.UID, Namespace: s.key.Namespace, Name: s.key.Name}
	ipu, _, _ := strings.Cut(s.token, "/")
	a.IPU, a.Number = types.UID(ipu), attemptOf(s.token)
	return a
}

// intend records an intent that must be on disk before its effect. It reports false if the
// journal cannot be written; the next look then waits for it.
func (a *Agent) intend(ctx context.Context, s *sight, act journal.Action) (bool, error) {
	err := a.keeper.with(ctx, func(j *journal.Journal) error { return j.Intend(s.attempt(), act) })
	switch {
	case errors.Is(err, errNoJournal), errors.Is(err, journal.ErrNotWritable):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("journal: %w", err)
	}
	return true, nil
}

// hint records an intent of an update under way. That one is finished with or without a
// journal, so a failure is only logged.
func (a *Agent) hint(ctx context.Context, s *sight, act journal.Action) {
	if err := a.keeper.with(ctx, func(j *journal.Journal) error { return j.Intend(s.attempt(), act) }); err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("intent is not on record", "cause", err.Error())
	}
}

// did records an outcome, as well as it can be.
func (a *Agent) did(ctx context.Context, s *sight, act journal.Action, outcome string) {
	if err := a.keeper.with(ctx, func(j *journal.Journal) error { return j.Done(s.attempt(), act, outcome) }); err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("outcome is not on record", "cause", err.Error())
	}
}

func (a *Agent) pull(ctx context.Context, s *sight, step Step) (moved bool, err error) {
	if step.Stage != v1alpha1.StagePreparing {
		a.hint(ctx, s, journal.Action{Kind: journal.Pull, Subject: step.Image})
	} else if ok, err := a.intend(ctx, s, journal.Action{Kind: journal.Pull, Subject: step.Image}); !ok {
		return false, err
	}
	a.images.start(ctx, s.token, step.Image, a.wake(s.key))
	return true, nil
}

func (a *Agent) hold(ctx context.Context, s *sight, u Update) (moved bool, err error) {
	a.drains.stop(s.pod.UID) // what was proved under an earlier hold proves nothing under this one
	act := journal.Action{Kind: journal.Hold}
	if u.swapped() {
		a.hint(ctx, s, act)
	} else if ok, err := a.intend(ctx, s, act); !ok {
		return false, err
	}
	data, err := lower(s, u)
	if err != nil {
		return false, fmt.Errorf("hold: %w", err)
	}
	if err := a.writePodStatus(ctx, s, data); err != nil {
		return false, fmt.Errorf("hold: %w", err)
	}
	a.did(ctx, s, act, "lowered")
	return true, nil
}

// lower takes the Pod out of traffic, and asks its router where it is to be drained.
func lower(s *sight, u Update) ([]byte, error) {
	if !u.swapped() && u.announces() != "" {
		return readiness.LowerAndAnnounce(s.pod, s.token, s.now)
	}
	return readiness.Lower(s.pod, s.token, s.now)
}

// askRouter has the router's marks on a held Pod say what this attempt asks.
func (a *Agent) askRouter(ctx context.Context, s *sight, u Update) error {
	data, err := readiness.Announce(s.pod, u.announces())
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	if err := a.writePodStatus(ctx, s, data); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	return nil
}

func (a *Agent) acknowledge(ctx context.Context, s *sight, u Update) error {
	data, err := acknowledgement(s, u)
	if err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	if err := a.writePodStatus(ctx, s, data); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}

// acknowledgement keeps when kubelet's answer was seen. Where the hold's times are lost, as after an edit
// by hand, it lowers the gate once more, for the attempt that holds it: whose hold it is tells whether a
// swap is open.
func acknowledgement(s *sight, u Update) ([]byte, error) {
	data, err := readiness.Acknowledge(s.pod, u.Pod.Hold.Token, s.now)
	if err != nil {
		return readiness.Lower(s.pod, u.Pod.Hold.Token, s.now)
	}
	return data, nil
}

// open is the opening write.
func (a *Agent) open(ctx context.Context, s *sight) error {
	act := journal.Action{Kind: journal.Serve}
	a.hint(ctx, s, act)
	data, err := readiness.Raise(s.pod, s.opening(), s.now)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	a.drains.stop(s.pod.UID)
	if err := a.writePodStatus(ctx, s, data); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	a.did(ctx, s, act, "opened")
	return nil
}

// opening is what the opening write says besides the gate.
func (s *sight) opening() readiness.Opening {
	if s.order == nil || !s.mayRelabel() {
		return readiness.Opening{}
	}
	return readiness.Opening{Labels: labelsOf(s.order), Annotations: annotationsOf(s.order)}
}

// mayRelabel reports whether the opening write closes the attempt. One that only takes the Pod
// back leaves its labels alone.
func (s *sight) mayRelabel() bool {
	return s.patched().Token == s.token || s.track != nil && rank(s.track.stage) >= rank(v1alpha1.StageProved)
}

// planRetry notes that the first start of a container failed for want of GPU memory.
func (a *Agent) planRetry(ctx context.Context, s *sight, container string) {
	act := journal.Action{Kind: journal.Retry, Subject: container}
	a.hint(ctx, s, act)
	a.did(ctx, s, act, "planned")
	s.noteRetry(container)
	logr.FromContextOrDiscard(ctx).Info("first start failed for want of GPU memory: the restart is planned", "container", container)
}

func (a *Agent) writePodStatus(ctx context.Context, s *sight, data []byte) error {
	out, err := a.api.patchPodStatus(ctx, s.pod, data)
	if err != nil {
		return err
	}
	a.pods.wrote(out)
	return nil
}

type jsonOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch changes the images: one JSON patch that tests all that the decision rests on.
func (a *Agent) patch(ctx context.Context, s *sight) error {
	if err := a.stillOrdered(ctx, s); err != nil {
		return err
	}
	act := journal.Action{Kind: journal.Patch}
	a.hint(ctx, s, act)
	data, err := json.Marshal(imagePatch(s))
	if err != nil {
		return fmt.Errorf("image patch: %w", err)
	}
	out, err := a.api.patchPod(ctx, s.pod, types.JSONPatchType, data)
	if err != nil {
		return a.notPatched(ctx, s, err)
	}
	a.pods.wrote(out)
	a.did(ctx, s, act, storedImages(out))
	return nil
}

func imagePatch(s *sight) []jsonOp {
	ops := []jsonOp{{"test", "/metadata/uid", string(s.pod.UID)}}
	for i, c := range s.pod.Spec.Containers {
		ops = append(ops,
			jsonOp{"test", fmt.Sprintf("/spec/containers/%d/name", i), c.Name},
			jsonOp{"test", fmt.Sprintf("/spec/containers/%d/image", i), c.Image})
	}
	for _, want := range s.order.Spec.Containers {
		for i, c := range s.pod.Spec.Containers {
			if c.Name == want.Name && c.Image != want.Image {
				ops = append(ops, jsonOp{"replace", fmt.Sprintf("/spec/containers/%d/image", i), want.Image})
			}
		}
	}
	key := strings.ReplaceAll(v1alpha1.PatchedAt, "/", "~1")
	return append(ops, jsonOp{"add", "/metadata/annotations/" + key, s.mark().String()})
}

// mark is what the patch leaves on the Pod.
func (s *sight) mark() v1alpha1.PatchMark {
	return v1alpha1.PatchMark{Token: s.token, At: s.now, StopTimeout: s.order.Spec.StopTimeout()}
}

// currentFor is how long the report of Drained counts as a reading of the order.
const currentFor = time.Second

// stillOrdered reads the order once more: a patch cannot be taken back, and a cache may be behind,
// also behind what an agent before this one saw. The report of Drained a moment ago says the same:
// it was written under the order's resourceVersion.
func (a *Agent) stillOrdered(ctx context.Context, s *sight) error {
	if s.now.Sub(s.track.current) < currentFor {
		return nil
	}
	live, err := a.api.update(ctx, s.key)
	if err != nil {
		return err
	}
	if live.UID != s.order.UID || live.Spec.Attempt != s.order.Spec.Attempt || live.DeletionTimestamp != nil {
		a.updates.wrote(live)
		return errLookAgain
	}
	return nil
}

// notPatched tells a patch that was outdated from one that the API server will never take.
func (a *Agent) notPatched(ctx context.Context, s *sight, err error) error {
	live, readErr := a.api.pod(ctx, s.key)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if v1alpha1.PatchMarkOf(live).Token == s.token { // it was taken, and the answer was lost
		a.pods.wrote(live)
		return nil
	}
	if !refused(err) {
		return err
	}
	if live.UID != s.pod.UID || !sameImages(live, s.pod) {
		a.pods.wrote(live)
		return errLookAgain
	}
	s.track.denied = err.Error()
	return nil
}

// refused reports whether the API server rejected the request itself, for a test in it that
// does not hold, by a policy, a webhook or validation.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

func sameImages(a, b *corev1.Pod) bool {
	if len(a.Spec.Containers) != len(b.Spec.Containers) {
		return false
	}
	for i := range a.Spec.Containers {
		if a.Spec.Containers[i].Name != b.Spec.Containers[i].Name || a.Spec.Containers[i].Image != b.Spec.Containers[i].Image {
			return false
		}
	}
	return true
}
