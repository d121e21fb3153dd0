package pods_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

const prepare, inPlace = v1alpha1.PermitPrepare, v1alpha1.UnitInPlace

// images has the scene's revisions name images: prefill goes from p:1 to p:2 from revision a to b.
func images(s *pods.Snapshot) {
	shape := func(digest, image string, workers int32) pods.Shape {
		one := map[string]string{"engine": image}
		return pods.Shape{Digest: digest, Workers: workers, Entry: one, Worker: one}
	}
	s.Revisions = map[string]pods.Revision{
		"a": {"prefill": shape("p1", "p:1", 1), "decode": shape("d1", "d:1", 0)},
		"b": {"prefill": shape("p2", "p:2", 1), "decode": shape("d1", "d:1", 0)},
	}
	for n := range s.Pods {
		s.Pods[n].Images = map[string]string{"engine": s.Pods[n].Role[:1] + ":1"}
	}
}

// behind has the role decode drained after prefill.
func behind(s *pods.Snapshot) { s.Settings.Back = map[string]bool{"decode": true} }

func patched(p *pods.Pod) {
	if p.Role == "prefill" {
		p.Images = map[string]string{"engine": "p:2"}
	}
}

func taken(p *pods.Pod) { p.HeldInPlace, p.Ready = true, false }

// ordered gives every Pod an order of the update's attempt.
func ordered(permit v1alpha1.Permit, stage v1alpha1.Stage) change {
	return func(s *pods.Snapshot) {
		for _, p := range s.Pods {
			order(p.Name, func(o *pods.Order) {
				o.Permit = permit
				reports(stage)(o)
			})(s)
		}
	}
}

func but(name string, permit v1alpha1.Permit, stage v1alpha1.Stage) change {
	return func(s *pods.Snapshot) {
		for n := range s.Orders {
			if o := &s.Orders[n]; o.Name == name {
				o.Permit, o.Stage, o.Reason, o.Message = permit, stage, v1alpha1.RefusedNotFound, "no such image"
			}
		}
	}
}

func swapped(s *pods.Snapshot) { s.Group.Spec.Updates[0].Swapped = true }

func all(verb string) []string {
	return []string{"UpdateOrder g-decode-0-0 " + verb, "UpdateOrder g-prefill-0-0 " + verb, "UpdateOrder g-prefill-0-1 " + verb}
}

func TestPrepareInPlace(t *testing.T) {
	half := 30 * time.Second
	play(t, map[string]row{
		"every Pod gets its order, and serves on": {
			scene(images, agent, update("", inPlace, "b", prepare)),
			told{Stage: v1alpha1.UnitPreparing, Recheck: half, Do: []string{
				"CreateOrder g-decode-0-0 1 for 3: Prepare", "CreateOrder g-prefill-0-0 1 for 3: Prepare", "CreateOrder g-prefill-0-1 1 for 3: Prepare",
			}},
		},
		"prepared as one": {
			scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePrepared)),
			told{Stage: v1alpha1.UnitPrepared, Recheck: half},
		},
		"one that is refused refuses the unit": {
			scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePrepared), but("g-prefill-0-1", prepare, v1alpha1.StageRefused)),
			told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Events: []string{v1alpha1.EventUnitRefused}, Recheck: half},
		},
		"without an agent nothing is prepared": {
			scene(images, update("", inPlace, "b", prepare)),
			told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Events: []string{v1alpha1.EventUnitRefused}},
		},
		"an agent that is older than the order gets none": {
			scene(images, agent, olderAgent, update("", inPlace, "b", prepare)),
			told{Stage: v1alpha1.UnitPreparing, Recheck: half},
		},
		"a Pod that is lost meanwhile is recovered as ever": {
			scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePrepared), without("g-decode-0-0")),
			told{Stage: v1alpha1.UnitPreparing, Recheck: half, Events: []string{v1alpha1.EventRecovering}, Do: []string{"DeleteOrder g-decode-0-0", "SetLeader g-prefill-0-0"}},
		},
		"a target that cannot be read freezes it": {scene(images, agent, update("", inPlace, "lost", prepare)), told{}},
	})
}

func TestDrainInPlace(t *testing.T) {
	half := 30 * time.Second
	play(t, map[string]row{
		"all are drained": {
			scene(images, agent, update("", inPlace, "b", drain), ordered(prepare, v1alpha1.StagePrepared)),
			told{Stage: v1alpha1.UnitDraining, Recheck: half, Do: all("1 for 3: Drain")},
		},
		"those first through which requests enter": {
			scene(images, agent, behind, update("", inPlace, "b", drain), ordered(prepare, v1alpha1.StagePrepared)),
			told{Stage: v1alpha1.UnitDraining, Recheck: half, Do: all("1 for 3: Drain")[1:]},
		},
		"then those that worked for them": {
			scene(images, agent, behind, update("", inPlace, "b", drain), ordered(drain, v1alpha1.StageDrained), but("g-decode-0-0", prepare, v1alpha1.StagePrepared)),
			told{Stage: v1alpha1.UnitDraining, Recheck: half, Do: all("1 for 3: Drain")[:1]},
		},
		"drained as one": {
			scene(images, agent, update("", inPlace, "b", drain), ordered(drain, v1alpha1.StageDrained)),
			told{Stage: v1alpha1.UnitDrained, Recheck: half},
		},
		"a Pod that is lost ends the attempt": {
			scene(images, agent, update("", inPlace, "b", drain), ordered(drain, v1alpha1.StageDrained), pod("g-prefill-0-1", ended)),
			told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Events: []string{v1alpha1.EventUnitRefused}, Recheck: half},
		},
		"not after a swap": {
			scene(images, agent, pinned("b"), update("", inPlace, "a", drain), swapped, ordered(drain, v1alpha1.StageDrained), pod("g-prefill-0-1", ended)),
			told{Stage: v1alpha1.UnitDrained, Recheck: half},
		},
		"an agent that dies ends it": {
			scene(images, deadAgent, update("", inPlace, "b", drain), ordered(drain, v1alpha1.StageDrained)),
			told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Events: []string{v1alpha1.EventUnitRefused}},
		},
		"an agent that became older ends it": {
			scene(images, agent, olderAgent, update("", inPlace, "b", drain), ordered(drain, v1alpha1.StageDrained)),
			told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Events: []string{v1alpha1.EventUnitRefused}, Recheck: half},
		},
		"what takes too long ends it": {
			scene(images, agent, update("", inPlace, "b", drain), ordered(drain, v1alpha1.StageDraining), at(v1alpha1.UnitDraining, time.Hour)),
			told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Events: []string{v1alpha1.EventUnitRefused}, Recheck: half},
		},
	})
}

func TestAUnitOfSeveralIsNotOutOfTrafficForADriver(t *testing.T) {
	half := 30 * time.Second
	released := func(p *pods.Pod) { p.GPUUnknown, p.DriverReleased = true, "DriverReleased: until noon" }
	waits := func(name string) change {
		return func(s *pods.Snapshot) {
			for n := range s.Orders {
				if o := &s.Orders[n]; o.Name == name {
					o.Stage, o.Reason, o.Message = v1alpha1.StageDraining, v1alpha1.WaitingDriver, "released until noon"
				}
			}
		}
	}
	refused := told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Events: []string{v1alpha1.EventUnitRefused}, Recheck: half}
	drained := told{Stage: v1alpha1.UnitDrained, Recheck: half}
	alone := func(s *pods.Snapshot) {
		s.Group.Spec.Updates[0].Unit, s.Orders = "decode-0", nil
		s.Revisions["b"]["decode"] = pods.Shape{Digest: "d2", Entry: map[string]string{"engine": "d:2"}}
		order("g-decode-0-0", func(o *pods.Order) { o.ReportedAttempt, o.Stage = o.Attempt, v1alpha1.StageDrained })(s)
	}
	play(t, map[string]row{
		"it is backed out where one Pod is drained, and its driver released": {
			scene(images, agent, update("", inPlace, "b", drain), ordered(drain, v1alpha1.StageDrained), pod("g-prefill-0-1", released)), refused,
		},
		"also where its agent says so first": {
			scene(images, agent, update("", inPlace, "b", drain), ordered(drain, v1alpha1.StageDrained), waits("g-prefill-0-1")), refused,
		},
		"not for a Pod in which nothing changes": {
			scene(images, agent, update("", inPlace, "b", drain), ordered(drain, v1alpha1.StageDrained), pod("g-decode-0-0", released)), drained,
		},
		"not where some may be swapped already": {
			scene(images, agent, pinned("b"), update("", inPlace, "a", drain), swapped, ordered(drain, v1alpha1.StageDrained), pod("", patched), pod("", released)), drained,
		},
		"nor where the swap is permitted": {
			scene(images, agent, pinned("b"), update("", inPlace, "b", swap), swapped, ordered(swap, v1alpha1.StageDrained), pod("", taken), pod("", released)),
			told{Stage: v1alpha1.UnitSwapping, Recheck: half},
		},
		"a Pod that is alone is given back by its agent": {
			scene(images, agent, update("", inPlace, "b", drain), alone, pod("g-decode-0-0", released)), drained,
		},
		"it is not drained again before the driver is back": {
			scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePrepared), pod("g-prefill-0-0", released)), refused,
		},
		"then it is, by itself": {
			scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePrepared), at(v1alpha1.UnitRefused, time.Minute)),
			told{Stage: v1alpha1.UnitPrepared, Recheck: half},
		},
	})
}

func TestSwapInPlace(t *testing.T) {
	half := 30 * time.Second
	update := func(permit v1alpha1.Permit) change {
		return func(s *pods.Snapshot) {
			images(s)
			agent(s)
			pinned("b")(s)
			update("", inPlace, "b", permit)(s)
			swapped(s)
		}
	}
	play(t, map[string]row{
		"nothing is deleted": {
			scene(update(swap), pod("", taken), ordered(drain, v1alpha1.StageDrained)),
			told{Stage: v1alpha1.UnitSwapping, Recheck: half, Do: all("1 for 3: Swap")},
		},
		"verified as one": {
			scene(update(swap), pod("", taken), pod("", patched), ordered(swap, v1alpha1.StageVerified)),
			told{Stage: v1alpha1.UnitVerified},
		},
		"not while one is not": {
			scene(update(swap), pod("", taken), pod("", patched), ordered(swap, v1alpha1.StageVerified), but("g-decode-0-0", swap, v1alpha1.StageDrained)),
			told{Stage: v1alpha1.UnitSwapping, Recheck: half},
		},
		"then all may serve": {
			scene(update(serve), pod("", taken), pod("", patched), ordered(swap, v1alpha1.StageVerified)),
			told{Stage: v1alpha1.UnitVerified, Recheck: 6 * time.Minute, Do: all("1 for 3: Serve")},
		},
		"in service as one": {
			scene(update(serve), pod("", patched), pod("", atB), ordered(serve, v1alpha1.StageInService)),
			told{Stage: v1alpha1.UnitInService},
		},
		"a Pod that is lost is made anew, held": {
			scene(update(swap), pod("", taken), pod("", patched), ordered(swap, v1alpha1.StageVerified), without("g-decode-0-0"), func(s *pods.Snapshot) { s.Orders = s.Orders[:2] }),
			told{Stage: v1alpha1.UnitSwapping, Recheck: 6 * time.Minute, Do: []string{"CreatePod g-decode-0-0 at b held"}},
		},
		"one that was made anew needs no order": {
			scene(update(swap), pod("g-prefill-0-0", taken), pod("g-prefill-0-1", taken), pod("g-decode-0-0", held), pod("", patched),
				ordered(swap, v1alpha1.StageVerified), func(s *pods.Snapshot) { s.Orders = s.Orders[:2] }),
			told{Stage: v1alpha1.UnitVerified},
		},
		"one that fails fails the unit": {
			scene(update(swap), pod("", taken), ordered(swap, v1alpha1.StageVerified), but("g-prefill-0-0", swap, v1alpha1.StageFailed)),
			told{Stage: v1alpha1.UnitFailed, Blocked: v1alpha1.BlockedFailed, Events: []string{v1alpha1.EventUnitFailed}},
		},
		"and comes good": {
			scene(update(swap), pod("", taken), pod("", patched), ordered(swap, v1alpha1.StageVerified), at(v1alpha1.UnitFailed, time.Minute)),
			told{Stage: v1alpha1.UnitVerified},
		},
	})
}

func TestBackOutInPlace(t *testing.T) {
	half := 30 * time.Second
	play(t, map[string]row{
		"every Pod is given back, and nothing is changed": {
			scene(images, agent, pod("", taken), update("", inPlace, "a", serve), ordered(drain, v1alpha1.StageDrained), func(s *pods.Snapshot) {
				for n := range s.Orders {
					s.Orders[n].Key = "2"
				}
			}),
			told{Stage: v1alpha1.UnitSwapping, Recheck: half, Do: all("2 for 3: Serve")},
		},
		"Pods that nobody took serve": {
			scene(images, agent, update("", inPlace, "a", serve)), told{Stage: v1alpha1.UnitInService},
		},
		"also where the agent is dead": {
			scene(images, deadAgent, update("", inPlace, "a", serve), ordered(drain, v1alpha1.StagePrepared)),
			told{Stage: v1alpha1.UnitInService, Do: all("1 for 3: Serve")},
		},
	})
}

func TestWhatAnUpdateInPlaceLeaves(t *testing.T) {
	half := 30 * time.Second
	left := func(p *pods.Pod) { p.Patched, p.HeldInPlace, p.Ready = true, true, false }
	play(t, map[string]row{
		"an instance's own update goes before one that merely prepares the group": {
			scene(images, agent, update("", inPlace, "b", prepare), update("decode-0", inPlace, "b", drain)),
			told{Stage: v1alpha1.UnitDraining, Recheck: half, Do: []string{
				"CreateOrder g-prefill-0-0 1 for 3: Prepare", "CreateOrder g-prefill-0-1 1 for 3: Prepare", "CreateOrder g-decode-0-0 1 for 3: Drain",
			}},
		},
		"recreated at the revision before, Pods with other images are replaced though they do not say so": {
			scene(images, pod("", left), pod("", patched), update("", v1alpha1.UnitRecreate, "a", swap)),
			told{Stage: v1alpha1.UnitSwapping, Recheck: 5 * time.Minute, Do: []string{"DeletePod g-prefill-0-0", "DeletePod g-prefill-0-1"}},
		},
	})
}

func TestWhatAnAgentFollowsTooLate(t *testing.T) {
	half := 30 * time.Second
	earlier := func(permit v1alpha1.Permit, stage v1alpha1.Stage) change {
		return func(s *pods.Snapshot) {
			ordered(permit, stage)(s)
			for n := range s.Orders {
				s.Orders[n].Key = "2"
			}
		}
	}
	later := func(s *pods.Snapshot) {
		s.Group.Spec.Updates[0].NotBefore = new(metav1.NewTime(s.Now.Add(time.Minute)))
	}
	play(t, map[string]row{
		"an order of an attempt that went back is taken back though its agent is dead": {
			scene(images, deadAgent, update("", inPlace, "a", serve), earlier(drain, v1alpha1.StagePrepared)),
			told{Stage: v1alpha1.UnitInService, Do: all("2 for 3: Serve")},
		},
		"a Pod that is held when its unit is prepared is given back first": {
			scene(images, agent, update("", inPlace, "b", prepare), earlier(drain, v1alpha1.StageDrained), pod("", taken)),
			told{Stage: v1alpha1.UnitPreparing, Recheck: half, Do: all("2 for 0: Serve")},
		},
		"what recovery drains is not prepared": {
			scene(images, agent, update("", inPlace, "b", prepare), phase("decode-0", v1alpha1.InstanceRecreating), phase("prefill-0", v1alpha1.InstanceRecreating)),
			told{Stage: v1alpha1.UnitPreparing, Recheck: half, Do: []string{
				"CreateOrder g-decode-0-0 1 for 0: Drain", "CreateOrder g-prefill-0-0 1 for 0: Drain", "CreateOrder g-prefill-0-1 1 for 0: Drain",
			}},
		},
		"an attempt that is made again begins, though the one before took too long": {
			scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePreparing), func(s *pods.Snapshot) {
				at(v1alpha1.UnitRefused, time.Minute)(s)
				s.Group.Status.Updates[0].Reason = v1alpha1.UnitTooLong
				s.Group.Spec.Updates[0].NotBefore = new(metav1.NewTime(s.Now.Add(-time.Second)))
			}),
			told{Stage: v1alpha1.UnitPreparing, Recheck: half},
		},
		"one that took too long itself stays refused": {
			scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePreparing), func(s *pods.Snapshot) {
				at(v1alpha1.UnitRefused, time.Minute)(s)
				s.Group.Status.Updates[0].Reason = v1alpha1.UnitTooLong
				s.Group.Spec.Updates[0].NotBefore = new(metav1.NewTime(s.Now.Add(-time.Hour)))
			}),
			told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Recheck: half},
		},
		"an attempt that is to be made again says so": {
			scene(images, agent, update("", inPlace, "b", prepare), later, at(v1alpha1.UnitInService, time.Minute)),
			told{Stage: v1alpha1.UnitRefused, Blocked: v1alpha1.BlockedRefused, Events: []string{v1alpha1.EventUnitRefused}, Recheck: time.Minute},
		},
	})
}

func TestOrdersInPlace(t *testing.T) {
	order := pods.NewOrder{PodUID: "uid-x", Node: "n", Attempt: 1, Key: "3", Permit: prepare, Revision: "b"}
	decode, prefill := order, order
	decode.Digest, prefill.Digest = "d1", "p2"
	prefill.Containers = []v1alpha1.ContainerImage{{Name: "engine", Image: "p:2"}}
	same, named := decode, prefill
	same.Permit, named.Permit = drain, drain
	ownPin := func(s *pods.Snapshot) { // of prefill, in a group that is at the target
		s.Group.Spec.Revision, s.Group.Spec.Instances[0].Revision, s.Group.Spec.Updates[0].Previous = "b", "a", "b"
	}
	for name, r := range map[string]struct {
		in   pods.Snapshot
		want map[string]pods.NewOrder
	}{
		"also of an instance that has a pin of its own in a group that is at the target": {
			scene(images, agent, update("", inPlace, "b", prepare), ownPin),
			map[string]pods.NewOrder{"g-decode-0-0": decode, "g-prefill-0-0": prefill, "g-prefill-0-1": prefill},
		},
		"what is to change": {
			scene(images, agent, update("", inPlace, "b", prepare)),
			map[string]pods.NewOrder{"g-decode-0-0": decode, "g-prefill-0-0": prefill, "g-prefill-0-1": prefill},
		},
		"also what an attempt before may be about to change, and nothing that is the same in both": {
			scene(images, agent, pod("", patched), update("", inPlace, "b", drain), swapped),
			map[string]pods.NewOrder{"g-decode-0-0": same, "g-prefill-0-0": named, "g-prefill-0-1": named},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]pods.NewOrder{}
			for _, a := range pods.Decide(r.in).Actions {
				got[a.Name] = a.Order
			}
			if diff := cmp.Diff(r.want, got); diff != "" {
				t.Errorf("orders (-want +got):\n%s", diff)
			}
		})
	}
}
