package pods_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// clearedTooEarly takes the Pods of a unit that is recreated on request for new ones.
func clearedTooEarly(s *pods.Snapshot) {
	for n := range s.Group.Status.Updates {
		s.Group.Status.Updates[n].Cleared = true
	}
}

// clearedForgotten takes them for old ones as soon as there are any.
func clearedForgotten(s *pods.Snapshot) {
	for n := range s.Group.Status.Updates {
		s.Group.Status.Updates[n].Cleared = s.Group.Status.Updates[n].Cleared && len(s.Pods) == 0
	}
}

// onRequest has the update be one that a person asked for.
func onRequest(verb v1alpha1.Verb) change {
	return func(s *pods.Snapshot) {
		s.Group.Spec.Updates[0].Request = &v1alpha1.UnitRequest{Verb: verb, ID: "r1", Wanted: "a"}
	}
}

func gone(s *pods.Snapshot) { s.Pods = nil }

func cleared(s *pods.Snapshot) { s.Group.Status.Updates[0].Cleared = true }

func TestAUnitThatIsRecreatedOnRequest(t *testing.T) {
	anew := func(p v1alpha1.Permit, more ...change) pods.Snapshot {
		return scene(append([]change{update("", v1alpha1.UnitRecreate, "a", p), onRequest(v1alpha1.VerbRecreate)}, more...)...)
	}
	half := 30 * time.Second
	swap := v1alpha1.PermitSwap
	play(t, map[string]row{
		"is drained as for any update": {
			anew(drain, agent),
			told{Stage: v1alpha1.UnitDraining, Recheck: half, Do: []string{
				"CreateOrder g-decode-0-0 1 for 3: Drain", "CreateOrder g-prefill-0-0 1 for 3: Drain", "CreateOrder g-prefill-0-1 1 for 3: Drain",
			}},
		},
		"then its Pods go, though they are at their pin": {
			anew(swap, agent, ordersAll(v1alpha1.StageDrained)),
			told{Stage: v1alpha1.UnitSwapping, Recheck: 5 * time.Minute, Do: []string{"DeletePod g-decode-0-0", "DeletePod g-prefill-0-0", "DeletePod g-prefill-0-1"}},
		},
		"and are not put back in service where the unit may serve at once": {
			anew(v1alpha1.PermitServe, agent, ordersAll(v1alpha1.StageDrained)),
			told{Stage: v1alpha1.UnitSwapping, Recheck: 5 * time.Minute, Do: []string{"DeletePod g-decode-0-0", "DeletePod g-prefill-0-0", "DeletePod g-prefill-0-1"}},
		},
		"one that is not gone yet is waited for": {
			anew(swap, without("g-decode-0-0"), without("g-prefill-0-0"), pod("g-prefill-0-1", going)),
			told{Stage: v1alpha1.UnitSwapping, Recheck: time.Minute},
		},
		"that all are gone is written first": {anew(swap, gone), told{Stage: v1alpha1.UnitSwapping, Recheck: 5 * time.Minute}},
		"then new ones are made, held": {
			anew(swap, gone, at(v1alpha1.UnitSwapping, 0), cleared),
			told{Stage: v1alpha1.UnitSwapping, Recheck: 5 * time.Minute, Do: []string{
				"CreatePod g-decode-0-0 at a held", "CreatePod g-prefill-0-0 at a held", "CreatePod g-prefill-0-1 at a held",
			}},
		},
		"which stay": {
			anew(swap, at(v1alpha1.UnitSwapping, 0), cleared, pod("", held)), told{Stage: v1alpha1.UnitVerified},
		},
		"another attempt takes them too": {
			anew(swap, at(v1alpha1.UnitSwapping, 0), cleared, func(s *pods.Snapshot) { s.Group.Spec.Updates[0].Attempt = 4 }),
			told{Stage: v1alpha1.UnitSwapping, Recheck: 5 * time.Minute, Do: []string{"DeletePod g-decode-0-0", "DeletePod g-prefill-0-0", "DeletePod g-prefill-0-1"}},
		},
		"taken back, nothing is deleted": {
			scene(update("", v1alpha1.UnitRecreate, "a", v1alpha1.PermitServe), onRequest(v1alpha1.VerbCancel)), told{Stage: v1alpha1.UnitInService},
		},
	})
}

func TestAUnitThatWasCancelledWaits(t *testing.T) {
	soon := func(s *pods.Snapshot) {
		s.Group.Spec.Updates[0].NotBefore = new(metav1.NewTime(s.Now.Add(time.Minute)))
	}
	refused := told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Events: []string{v1alpha1.EventUnitRefused}, Recheck: time.Minute}
	inPlaceOf, recreateOf := update("", inPlace, "b", prepare), update("", v1alpha1.UnitRecreate, "b", prepare)
	play(t, map[string]row{
		"in place":             {scene(images, inPlaceOf, onRequest(v1alpha1.VerbCancel), soon), refused},
		"with new Pods":        {scene(recreateOf, onRequest(v1alpha1.VerbCancel), soon), refused},
		"until its time comes": {scene(recreateOf, onRequest(v1alpha1.VerbCancel)), told{}},
		"a lost Pod is recovered all the same": {
			scene(recreateOf, onRequest(v1alpha1.VerbCancel), soon, without("g-decode-0-0")),
			told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Events: []string{v1alpha1.EventUnitRefused, v1alpha1.EventRecovering}, Recheck: time.Minute, Do: []string{"SetLeader g-prefill-0-0"}},
		},
	})
}
