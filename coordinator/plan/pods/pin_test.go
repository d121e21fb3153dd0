package pods_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// denied has the agents of the prefill Pods report that they may not pull. Of decode nothing changes.
func denied(s *pods.Snapshot) {
	for n := range s.Orders {
		o := &s.Orders[n]
		if strings.HasPrefix(o.Name, "g-prefill") {
			o.Stage, o.Reason, o.Message = v1alpha1.StagePreparing, v1alpha1.WaitingUnauthorized, "401 Unauthorized"
		} else if o.Stage == v1alpha1.StagePreparing {
			o.Stage = v1alpha1.StagePrepared
		}
	}
}

// withPin gives the group the pin Pod that it would make for the prefill Pods.
func withPin(alter func(*pods.Pin)) change {
	return func(s *pods.Snapshot) {
		for _, a := range pods.Decide(scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePreparing), denied)).Actions {
			p := pods.Pin{Name: a.Name, UID: "pin", Created: s.Now.Add(-10 * time.Second)}
			alter(&p)
			s.Pins = append(s.Pins, p)
		}
	}
}

func fine(*pods.Pin) {}

func runs(p *pods.Pin) { p.Running = true }

func faulty(fault pods.PinFault) func(*pods.Pin) {
	return func(p *pods.Pin) { p.Fault, p.Message = fault, "kubelet says why" }
}

// pinTold is what is told where pin Pods matter.
type pinTold struct {
	Do      []string
	Stage   v1alpha1.UnitStage
	Reason  v1alpha1.UnitReason
	Blocked v1alpha1.ConditionReason
}

func TestPinPods(t *testing.T) {
	preparing := func(more ...change) pods.Snapshot {
		all := append([]change{images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePreparing), denied}, more...)
		return scene(all...)
	}
	later := func(s *pods.Snapshot) {
		s.Group.Spec.Updates[0].NotBefore = new(metav1.NewTime(s.Now.Add(time.Minute)))
	}
	ready := func(more ...change) pods.Snapshot {
		return scene(append([]change{images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePrepared)}, more...)...)
	}
	secrets := pod("", func(p *pods.Pod) { p.PullSecrets = true })
	create := []string{"CreatePin of g-prefill-0-0 with p:2 for []"}
	remove := []string{"DeletePin"}
	waits := v1alpha1.UnitWaitingPin
	for name, r := range map[string]struct {
		given pods.Snapshot
		want  pinTold
	}{
		"where an agent may not pull, one is made for all Pods of the node": {
			preparing(), pinTold{Do: create, Stage: v1alpha1.UnitPreparing, Reason: waits},
		},
		"one for each of two nodes": {
			preparing(pod("g-prefill-0-1", func(p *pods.Pod) { p.Node = "m" }), func(s *pods.Snapshot) { s.Agents["m"] = s.Agents["n"] }),
			pinTold{Do: append(create, "CreatePin of g-prefill-0-1 with p:2 for []"), Stage: v1alpha1.UnitPreparing, Reason: waits},
		},
		"one for each of two sets of pull secrets": {
			preparing(pod("g-prefill-0-1", func(p *pods.Pod) { p.Credentials = "other" })),
			pinTold{Do: append(create, "CreatePin of g-prefill-0-1 with p:2 for []"), Stage: v1alpha1.UnitPreparing, Reason: waits},
		},
		"one that is there is waited for": {
			preparing(withPin(fine)), pinTold{Stage: v1alpha1.UnitPreparing, Reason: waits},
		},
		"one that goes is waited for": {
			preparing(withPin(func(p *pods.Pin) { p.Deleting = true })), pinTold{Stage: v1alpha1.UnitPreparing, Reason: waits},
		},
		"one that has lost its label is made anew": {
			preparing(withPin(func(p *pods.Pin) { p.Stray = true })), pinTold{Do: remove, Stage: v1alpha1.UnitPreparing, Reason: waits},
		},
		"wrong credentials are said, and block": {
			preparing(withPin(faulty(pods.PinDenied))),
			pinTold{Stage: v1alpha1.UnitPreparing, Reason: v1alpha1.UnitPinFails, Blocked: v1alpha1.BlockedPin},
		},
		"so is a cluster without image volumes": {
			preparing(withPin(faulty(pods.PinNoVolume))),
			pinTold{Stage: v1alpha1.UnitPreparing, Reason: v1alpha1.UnitPinFails, Blocked: v1alpha1.BlockedPin},
		},
		"an image that is not found with credentials refuses the attempt": {
			preparing(withPin(faulty(pods.PinNotFound))),
			pinTold{Stage: v1alpha1.UnitRefused, Reason: v1alpha1.UnitReason(v1alpha1.RefusedNotFound), Blocked: v1alpha1.BlockedRefused},
		},
		"one that was evicted says so for a while": {
			preparing(withPin(func(p *pods.Pin) { p.Ended, p.Fault, p.Message = true, pods.PinOther, "Evicted" })),
			pinTold{Stage: v1alpha1.UnitPreparing, Reason: v1alpha1.UnitPinFails, Blocked: v1alpha1.BlockedPin},
		},
		"then it goes": {
			preparing(withPin(func(p *pods.Pin) {
				p.Ended, p.Fault, p.Created = true, pods.PinOther, p.Created.Add(-time.Hour)
			})),
			pinTold{Do: remove, Stage: v1alpha1.UnitPreparing, Reason: v1alpha1.UnitPinFails, Blocked: v1alpha1.BlockedPin},
		},
		"a Pod with pull secrets has one though the image is on its node: it may be another's": {
			ready(secrets), pinTold{Do: create, Stage: v1alpha1.UnitPreparing, Reason: waits},
		},
		"it is made before the agent answers": {
			scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePending), secrets),
			pinTold{Do: create, Stage: v1alpha1.UnitPreparing, Reason: v1alpha1.UnitWaitingPrepare},
		},
		"it is waited for": {
			ready(secrets, withPin(fine)), pinTold{Stage: v1alpha1.UnitPreparing, Reason: waits},
		},
		"once it runs kubelet has taken the credentials": {
			ready(secrets, withPin(runs)), pinTold{Stage: v1alpha1.UnitPrepared, Reason: v1alpha1.UnitWaitingPermit},
		},
		"wrong ones keep the unit in service": {
			ready(secrets, withPin(faulty(pods.PinDenied))),
			pinTold{Stage: v1alpha1.UnitPreparing, Reason: v1alpha1.UnitPinFails, Blocked: v1alpha1.BlockedPin},
		},
		"where the registry does not answer kubelet it is waited for": {
			ready(secrets, withPin(faulty(pods.PinOther))),
			pinTold{Stage: v1alpha1.UnitPreparing, Reason: v1alpha1.UnitPinFails, Blocked: v1alpha1.BlockedPin},
		},
		"where no pin Pod can run the agent's proof is all there is": {
			ready(secrets, withPin(faulty(pods.PinUnable))), pinTold{Stage: v1alpha1.UnitPrepared, Reason: v1alpha1.UnitWaitingPermit},
		},
		"so it is where kubelet makes nothing of it": {
			ready(secrets, withPin(func(p *pods.Pin) { p.Created = p.Created.Add(-2 * time.Minute) })),
			pinTold{Stage: v1alpha1.UnitPrepared, Reason: v1alpha1.UnitWaitingPermit},
		},
		"where the API server drops image volumes the agent's proof is all there is": {
			ready(secrets, withPin(faulty(pods.PinNoVolume))), pinTold{Stage: v1alpha1.UnitPrepared, Reason: v1alpha1.UnitWaitingPermit},
		},
		"so it is where it does not take them": {
			ready(secrets, func(s *pods.Snapshot) { s.NoImageVolumes = true }),
			pinTold{Stage: v1alpha1.UnitPrepared, Reason: v1alpha1.UnitWaitingPermit},
		},
		"a refused attempt needs none": {
			scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StageRefused), secrets),
			pinTold{Stage: v1alpha1.UnitRefused, Reason: v1alpha1.UnitWaitingAgent, Blocked: v1alpha1.BlockedRefused},
		},
		"it stays once the image is proved: no container uses it yet": {
			scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePrepared), withPin(fine)),
			pinTold{Stage: v1alpha1.UnitPrepared, Reason: v1alpha1.UnitWaitingPermit},
		},
		"it stays until the update is closed": {
			scene(images, agent, pinned("b"), update("", inPlace, "b", serve), swapped, pod("", patched), pod("", atB), ordered(serve, v1alpha1.StageInService), withPin(fine)),
			pinTold{Stage: v1alpha1.UnitInService, Reason: v1alpha1.UnitWaitingPermit},
		},
		"then it goes with it": {
			scene(images, agent, pinned("b"), pod("", patched), pod("", atB), withPin(fine)), pinTold{Do: remove},
		},
		"it goes when another image is wanted": {
			scene(images, agent, update("", inPlace, "a", serve), withPin(fine)),
			pinTold{Do: remove, Stage: v1alpha1.UnitInService, Reason: v1alpha1.UnitWaitingPermit},
		},
		"it goes where no Pod of the group is left on its node": {
			preparing(withPin(fine), pod("", func(p *pods.Pod) { p.Node = "m" }), func(s *pods.Snapshot) {
				s.Orders, s.Agents["m"] = nil, s.Agents["n"]
				ordered(prepare, v1alpha1.StagePrepared)(s)
			}),
			pinTold{Do: remove, Stage: v1alpha1.UnitPrepared, Reason: v1alpha1.UnitWaitingPermit},
		},
		"it goes until an attempt is made again: then kubelet pulls at once": {
			preparing(withPin(faulty(pods.PinNotFound)), later),
			pinTold{Do: remove, Stage: v1alpha1.UnitRefused, Reason: v1alpha1.UnitWaitingPrepare, Blocked: v1alpha1.BlockedRefused},
		},
		"it stays where the target cannot be read": {
			preparing(withPin(fine), func(s *pods.Snapshot) { delete(s.Revisions, "b") }), pinTold{},
		},
		"under the hold of a unit that was swapped it is made as well": {
			scene(images, agent, pod("", taken), update("", inPlace, "b", drain), swapped, ordered(drain, v1alpha1.StageDrained), denied),
			pinTold{Do: create, Stage: v1alpha1.UnitDraining, Reason: waits},
		},
		"so it is where the image is lost after the permit for the swap": {
			scene(images, agent, pod("", taken), pinned("b"), update("", inPlace, "b", swap), swapped, ordered(swap, v1alpha1.StageDrained), denied),
			pinTold{Do: create, Stage: v1alpha1.UnitSwapping, Reason: v1alpha1.UnitWaitingSwap},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(r.want, tellPins(pods.Decide(r.given))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnAttemptThatEndsLateSaysWhatKeptThePinPod(t *testing.T) {
	s := scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePrepared), withPin(faulty(pods.PinDenied)))
	for n := range s.Orders {
		if o := &s.Orders[n]; strings.HasPrefix(o.Name, "g-prefill") {
			o.Stage, o.Reason, o.Message = v1alpha1.StageRefused, v1alpha1.RefusedDeadline, "Preparing took longer than 5m0s"
		}
	}
	u := pods.Decide(s).Status.Updates[0]
	if u.Stage != v1alpha1.UnitRefused || u.Reason != v1alpha1.UnitReason(v1alpha1.RefusedDeadline) || !strings.Contains(u.Message, "kubelet says why") {
		t.Errorf("%s %s: %s", u.Stage, u.Reason, u.Message)
	}
}

func TestAPinPodGoesWithItsGroup(t *testing.T) {
	s := scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePreparing), denied, withPin(fine), deleting)
	if got := tellPins(pods.Decide(s)).Do; len(got) != 1 || got[0] != "DeletePin" {
		t.Errorf("a group that is being deleted: %v", got)
	}
}

func TestTheStatusNamesPinPods(t *testing.T) {
	s := scene(images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePreparing), denied)
	made := pods.Decide(s)
	if len(made.Status.PinPods) != 1 || !strings.HasPrefix(made.Status.PinPods[0], pods.PinPrefix("g")) {
		t.Fatalf("the one that is made: %v", made.Status.PinPods)
	}
	s.Group.Status = made.Status
	withPin(fine)(&s)
	there := pods.Decide(s)
	if diff := cmp.Diff(made.Status.PinPods, there.Status.PinPods); diff != "" {
		t.Errorf("the one that is there (-want +got):\n%s", diff)
	}
	if there.Decisive(made.Status) {
		t.Error("nothing has changed, and it is decisive")
	}
	s.Pins = nil
	if gone := pods.Decide(s); !gone.Decisive(there.Status) {
		t.Error("one that is seen no more has to be looked for")
	}
}

func tellPins(plan pods.Plan) pinTold {
	var out pinTold
	for _, a := range plan.Actions {
		switch a.Kind { //nolint:exhaustive // of pin Pods
		case pods.CreatePin:
			out.Do = append(out.Do, "CreatePin of "+a.Pin.Like+" with "+a.Pin.Image+" for ["+strings.Join(a.Pin.Units, " ")+"]")
		case pods.DeletePin:
			out.Do = append(out.Do, "DeletePin")
		}
	}
	for _, u := range plan.Status.Updates {
		out.Stage, out.Reason = u.Stage, u.Reason
	}
	if plan.Blocked.True {
		out.Blocked = plan.Blocked.Reason
	}
	return out
}
