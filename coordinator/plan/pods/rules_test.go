package pods_test

import (
	"testing"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

const (
	recreate, remove   = v1alpha1.UnitRecreate, v1alpha1.UnitRemove
	drain, swap, serve = v1alpha1.PermitDrain, v1alpha1.PermitSwap, v1alpha1.PermitServe
)

func TestCreating(t *testing.T) {
	play(t, map[string]row{
		"a group that serves is left alone": {scene(), told{}},
		"a new group gets its Service and Pods": {scene(empty), told{Do: []string{
			"CreatePod g-decode-0-0 at a", "CreateService g-prefill-0-0", "CreatePod g-prefill-0-0 at a", "CreatePod g-prefill-0-1 at a",
		}}},
		"a lost Service is made anew": {scene(func(s *pods.Snapshot) { s.Services = nil }), told{Do: []string{"CreateService g-prefill-0-0"}}},
		"an instance has its own pin": {
			scene(empty, func(s *pods.Snapshot) {
				s.Group.Spec.Instances = s.Group.Spec.Instances[:1]
				s.Group.Spec.Instances[0].Revision = "c"
			}),
			told{Do: []string{"CreatePod g-prefill-0-0 at c"}},
		},
		"nothing is made at a revision that cannot be read": {scene(empty, pinned("lost")), told{Blocked: v1alpha1.BlockedRevision, Recheck: 30 * time.Second}},
		"nor of a role that the revision does not have": {
			scene(func(s *pods.Snapshot) {
				s.Group.Spec.Instances = append(s.Group.Spec.Instances, v1alpha1.RoleInstance{Role: "router", Ordinal: new(int32(0))})
			}),
			told{Blocked: v1alpha1.BlockedRevision, Recheck: 30 * time.Second},
		},
		"a Pod waits until the order of the one before is gone": {
			scene(without("g-decode-0-0"), phase("decode-0", v1alpha1.InstanceCreating), order("g-decode-0-0", func(*pods.Order) {})),
			told{Do: []string{"DeleteOrder g-decode-0-0", "SetLeader g-prefill-0-0"}},
		},
		"the Service of an instance that is no more goes": {
			scene(func(s *pods.Snapshot) { s.Services = append(s.Services, pods.Service{Name: "g-old-0-0"}) }),
			told{Do: []string{"DeleteService g-old-0-0"}},
		},
		"a gate is opened where no agent is": {scene(pod("g-decode-0-0", unborn)), told{Do: []string{"OpenGate g-decode-0-0"}}},
		"and where the agent is dead":        {scene(deadAgent, pod("g-decode-0-0", unborn)), told{Do: []string{"OpenGate g-decode-0-0"}}},
		"not where it is alive":              {scene(agent, pod("g-decode-0-0", unborn)), told{Recheck: 30 * time.Second}},
		"not for a Pod that an operator holds": {
			scene(pod("g-decode-0-0", unborn), pod("g-decode-0-0", func(p *pods.Pod) { p.HeldOther = true })), told{},
		},
		"not before the Pod has a node": {scene(pod("g-decode-0-0", unborn), pod("g-decode-0-0", func(p *pods.Pod) { p.Node = "" })), told{}},
		"a hold that was left goes":     {scene(pod("g-decode-0-0", held)), told{Do: []string{"ClearHold g-decode-0-0"}}},
		"a second leader steps back": {
			scene(pod("", func(p *pods.Pod) { p.Leader = p.Index == 0 })), told{Do: []string{"UnsetLeader g-prefill-0-0"}},
		},
		"labels are given back": {
			scene(pod("g-decode-0-0", func(p *pods.Pod) { p.Mislabelled = true })), told{Do: []string{"RestoreLabels g-decode-0-0"}},
		},
		"a drain that nobody asks for any more is taken back": {
			scene(agent, order("g-decode-0-0", reports(v1alpha1.StageDrained))), told{Do: []string{"UpdateOrder g-decode-0-0 2 for 0: Serve"}},
		},
		"a missing order is given anew": {
			scene(agent, pod("g-decode-0-0", func(p *pods.Pod) { p.HeldInPlace = true })), told{Do: []string{"CreateOrder g-decode-0-0 1 for 0: Serve"}},
		},
	})
}

func TestDraining(t *testing.T) {
	drains := update("", recreate, "b", drain)
	done := told{Stage: v1alpha1.UnitDrained}
	skipped := told{Stage: v1alpha1.UnitDrained, Events: []string{v1alpha1.EventDrainSkipped}}
	all := []string{"g-decode-0-0", "g-prefill-0-0", "g-prefill-0-1"}
	doing := func(words string) (out []string) {
		for _, name := range all {
			out = append(out, words[:12]+name+words[12:])
		}
		return out
	}
	wait := told{Stage: v1alpha1.UnitDraining, Recheck: 30 * time.Second}
	ordered, anew := wait, wait
	ordered.Do, anew.Do = doing("CreateOrder  1 for 3: Drain"), doing("UpdateOrder  2 for 3: Drain")
	alone := wait
	alone.Do = []string{"CreateOrder g-decode-0-0 1 for 3: Drain"}
	hand := wait
	hand.Do = []string{"DeleteOrder g-decode-0-0", "CreateOrder g-prefill-0-0 1 for 3: Drain", "CreateOrder g-prefill-0-1 1 for 3: Drain"}
	live := 30 * time.Second
	play(t, map[string]row{
		"the agents are ordered to drain": {scene(agent, drains), ordered},
		"and waited for":                  {scene(agent, drains, ordersAll(v1alpha1.StageDraining)), wait},
		"until all have":                  {scene(agent, drains, ordersAll(v1alpha1.StageDrained)), told{Stage: v1alpha1.UnitDrained, Recheck: live}},
		"what was drained for an attempt before, is drained again": {
			scene(agent, drains, ordersAll(v1alpha1.StageDrained), func(s *pods.Snapshot) {
				for n := range s.Orders {
					s.Orders[n].Key = "2"
				}
			}), anew,
		},
		"a drain that is refused is over, and told of": {
			scene(agent, drains, ordersAll(v1alpha1.StageRefused)),
			told{Stage: v1alpha1.UnitDrained, Events: []string{v1alpha1.EventDrainSkipped}, Recheck: live},
		},
		"a report on an attempt before is none": {
			scene(agent, drains, ordersAll(v1alpha1.StageDrained), func(s *pods.Snapshot) {
				for n := range s.Orders {
					s.Orders[n].Attempt = 2
				}
			}), wait,
		},
		"without an agent there is no drain":       {scene(drains), skipped},
		"nor with a dead one":                      {scene(deadAgent, drains), skipped},
		"which is told once":                       {scene(drains, at(v1alpha1.UnitDrained, time.Second)), done},
		"and not of Pods without requests":         {scene(drains, pod("", func(p *pods.Pod) { p.Idle = true })), done},
		"a Pod that we hold is drained":            {scene(agent, drains, pod("", held)), done},
		"a Pod without a node is drained":          {scene(agent, drains, pod("", func(p *pods.Pod) { p.Node = "" })), done},
		"a Pod that is going is drained":           {scene(agent, drains, pod("", going)), told{Stage: v1alpha1.UnitDrained, Recheck: time.Minute}},
		"a Pod that has ended is drained":          {scene(agent, drains, pod("", ended)), done},
		"a Pod that is lost meanwhile is not made": {scene(drains, without("g-prefill-0-1")), skipped},
		"an order by hand is replaced": {
			scene(agent, drains, order("g-decode-0-0", func(o *pods.Order) { o.Ours = false })), hand,
		},
		"a unit is drained alone": {scene(agent, update("decode-0", recreate, "c", drain)), alone},
		"too long a drain is reported": {
			scene(agent, drains, ordersAll(v1alpha1.StageDraining), at(v1alpha1.UnitDraining, 6*time.Minute)),
			told{Stage: v1alpha1.UnitDraining, Blocked: v1alpha1.BlockedDeadline, Recheck: live},
		},
	})
}

func TestSwapping(t *testing.T) {
	swaps, serves := update("", recreate, "b", swap), update("", recreate, "b", serve)
	three := []string{"CreatePod g-decode-0-0 at b held", "CreatePod g-prefill-0-0 at b held", "CreatePod g-prefill-0-1 at b held"}
	drained := ordersAll(v1alpha1.StageDrained)
	swapping := told{Stage: v1alpha1.UnitSwapping, Recheck: 5 * time.Minute}
	does := func(actions ...string) told {
		return told{Do: actions, Stage: v1alpha1.UnitSwapping, Recheck: 5 * time.Minute}
	}
	play(t, map[string]row{
		"what is not at the pin is deleted, and no more": {
			scene(pinned("b"), swaps), does("DeletePod g-prefill-0-0", "DeletePod g-prefill-0-1"),
		},
		"a role that is the same in both revisions stays, drained": {
			scene(pinned("b"), swaps, agent, drained),
			told{Do: []string{"DeletePod g-prefill-0-0", "DeletePod g-prefill-0-1"}, Stage: v1alpha1.UnitSwapping, Recheck: 5 * time.Minute},
		},
		"and is given back at Serve": {
			scene(pinned("b"), serves, agent, pod("", atB), order("g-decode-0-0", reports(v1alpha1.StageDrained))),
			told{Do: []string{"UpdateOrder g-decode-0-0 1 for 3: Serve"}, Stage: v1alpha1.UnitVerified, Recheck: 30 * time.Second},
		},
		"no new Pod is made while an old one goes": {
			scene(pinned("b"), swaps, without("g-prefill-0-0"), pod("g-prefill-0-1", going)),
			told{Stage: v1alpha1.UnitSwapping, Recheck: time.Minute},
		},
		"nor in the other instances of the unit": {
			scene(pinned("b"), swaps, without("g-decode-0-0"), pod("g-prefill-0-1", going), pod("g-prefill-0-0", going)),
			told{Stage: v1alpha1.UnitSwapping, Recheck: time.Minute},
		},
		"then all are made, held":      {scene(pinned("b"), swaps, without("g-prefill-0-0"), without("g-prefill-0-1"), without("g-decode-0-0")), does(three...)},
		"at Serve they are not held":   {scene(pinned("b"), serves, without("g-decode-0-0"), pod("", atB)), does("SetLeader g-prefill-0-0", "CreatePod g-decode-0-0 at b")},
		"a lost Pod alone is refilled": {scene(pinned("b"), swaps, without("g-prefill-0-1"), pod("", atB)), does("CreatePod g-prefill-0-1 at b held")},
		"what is drained too late is drained now": {
			scene(pinned("b"), swaps, agent),
			told{
				Do:    []string{"CreateOrder g-prefill-0-0 1 for 0: Drain", "CreateOrder g-prefill-0-1 1 for 0: Drain"},
				Stage: v1alpha1.UnitSwapping, Recheck: 30 * time.Second,
			},
		},
		"an instance that the revision has no more goes": {
			scene(pinned("b"), swaps, pod("", atB), func(s *pods.Snapshot) { s.Group.Spec.Instances = s.Group.Spec.Instances[:1] }),
			does("DeletePod g-decode-0-0"),
		},
		"a revision that cannot be read freezes the unit": {
			scene(pinned("lost"), swaps), told{Blocked: v1alpha1.BlockedRevision, Recheck: 30 * time.Second},
		},
		"containers are waited for": {scene(pinned("b"), swaps, pod("", atB), pod("g-decode-0-0", down)), swapping},
		"then it is Verified":       {scene(pinned("b"), swaps, pod("", atB), pod("", held)), told{Stage: v1alpha1.UnitVerified}},
		"at Serve holds are cleared": {
			scene(pinned("b"), serves, pod("", atB), pod("g-decode-0-0", held)),
			told{Do: []string{"ClearHold g-decode-0-0"}, Stage: v1alpha1.UnitVerified, Recheck: 5 * time.Minute},
		},
		"and where no agent is, the gate opens with it": {
			scene(pinned("b"), serves, pod("", atB), pod("g-decode-0-0", held), pod("g-decode-0-0", unborn)),
			told{Do: []string{"OpenGate g-decode-0-0"}, Stage: v1alpha1.UnitVerified, Recheck: 5 * time.Minute},
		},
		"then it is InService": {scene(pinned("b"), serves, pod("", atB)), told{Stage: v1alpha1.UnitInService}},
		"not before the agent has settled its order": {
			scene(agent, update("", recreate, "a", serve), order("g-decode-0-0", func(o *pods.Order) { o.Permit = serve })),
			told{Stage: v1alpha1.UnitVerified, Recheck: 30 * time.Second},
		},
		"a back-out deletes nothing": {
			scene(agent, update("", recreate, "a", serve), func(s *pods.Snapshot) { s.Group.Spec.Updates[0].Attempt = 4 }, ordersAll(v1alpha1.StageDrained)),
			told{
				Do: []string{
					"UpdateOrder g-decode-0-0 2 for 4: Serve", "UpdateOrder g-prefill-0-0 2 for 4: Serve", "UpdateOrder g-prefill-0-1 2 for 4: Serve",
				},
				Stage: v1alpha1.UnitVerified, Recheck: 30 * time.Second,
			},
		},
		"what takes too long has failed": {
			scene(pinned("b"), swaps, pod("", atB), pod("", down), at(v1alpha1.UnitSwapping, 6*time.Minute)),
			told{Stage: v1alpha1.UnitFailed, Blocked: v1alpha1.BlockedFailed, Events: []string{v1alpha1.EventUnitFailed}},
		},
		"and stays so, told once": {
			scene(pinned("b"), swaps, pod("", atB), pod("", down), at(v1alpha1.UnitFailed, time.Minute)),
			told{Stage: v1alpha1.UnitFailed, Blocked: v1alpha1.BlockedFailed},
		},
		"until it comes good": {scene(pinned("b"), swaps, pod("", atB), at(v1alpha1.UnitFailed, time.Minute)), told{Stage: v1alpha1.UnitVerified}},
		"a unit that served and is down again has its time from then on": {
			scene(pinned("b"), serves, pod("", atB), pod("", down), at(v1alpha1.UnitVerified, 4*time.Minute)),
			told{Stage: v1alpha1.UnitVerified, Recheck: time.Minute},
		},
		"restarts are no loss in an update": {
			scene(pinned("b"), swaps, pod("", atB), pod("g-decode-0-0", down), pod("g-decode-0-0", func(p *pods.Pod) { p.Restarted = begin() })), swapping,
		},
		"a Pod that has ended is replaced": {scene(pinned("b"), swaps, pod("", atB), pod("g-decode-0-0", ended)), does("DeletePod g-decode-0-0", "SetLeader g-prefill-0-0")},
		"a removed instance goes": {
			scene(update("decode-0", remove, "", swap), func(s *pods.Snapshot) { s.Group.Spec.Instances = s.Group.Spec.Instances[:1] }),
			does("DeletePod g-decode-0-0"),
		},
	})
}

func TestRecovering(t *testing.T) {
	again := told{Events: []string{v1alpha1.EventRecovering}}
	lost := func(p *pods.Pod) {
		p.Restarted, p.Ready, p.ContainersReady = begin().Add(time.Hour-10*time.Second), false, false
	}
	young := pod("", func(p *pods.Pod) { p.Created = begin().Add(time.Hour - 8*time.Second) })
	failures := func(n int32) change { return func(s *pods.Snapshot) { s.Group.Status.Instances[1].Recoveries = n } }
	none, group := recovery(v1alpha1.RecoverNone), recovery(v1alpha1.RecoverServingGroup)
	recreating := phase("prefill-0", v1alpha1.InstanceRecreating)
	play(t, map[string]row{
		"a missing Pod":                          {scene(without("g-prefill-0-1")), again},
		"a Pod that somebody deletes":            {scene(pod("g-prefill-0-1", going)), told{Events: again.Events, Recheck: time.Minute}},
		"a Pod that has ended":                   {scene(pod("g-prefill-0-1", ended)), again},
		"a Pod at another revision":              {scene(pod("g-prefill-0-1", atB)), again},
		"a restart has its grace period":         {scene(pod("g-decode-0-0", lost)), told{Recheck: 10 * time.Second}},
		"then it is a loss":                      {scene(pod("g-decode-0-0", lost), func(s *pods.Snapshot) { s.Settings.RestartGrace = 0 }), again},
		"what fails at once has a pause":         {scene(young, pod("g-decode-0-0", ended)), told{Do: []string{"SetLeader g-prefill-0-0"}, Recheck: 2 * time.Second}},
		"which doubles":                          {scene(young, failures(2), pod("g-decode-0-0", ended)), told{Do: []string{"SetLeader g-prefill-0-0"}, Recheck: 32 * time.Second}},
		"up to five minutes":                     {scene(young, failures(99), pod("g-decode-0-0", ended)), told{Do: []string{"SetLeader g-prefill-0-0"}, Recheck: 292 * time.Second}},
		"a Pod that was never there is not lost": {scene(without("g-prefill-0-1"), phase("prefill-0", v1alpha1.InstanceCreating)), told{Do: []string{"CreatePod g-prefill-0-1 at a"}}},
		"an instance goes as one": {
			scene(recreating), told{Do: []string{"DeletePod g-prefill-0-0", "DeletePod g-prefill-0-1"}, Events: []string{v1alpha1.EventDrainSkipped}},
		},
		"drained first": {
			scene(recreating, agent, order("g-prefill-0-0", func(o *pods.Order) { o.Key = "0"; reports(v1alpha1.StageDrained)(o) })),
			told{Do: []string{"CreateOrder g-prefill-0-1 1 for 0: Drain"}, Recheck: 30 * time.Second},
		},
		"and is made anew once that is written":         {scene(recreating, without("g-prefill-0-0"), without("g-prefill-0-1")), told{}},
		"None refills the one Pod":                      {scene(none, without("g-prefill-0-1")), told{Do: []string{"CreatePod g-prefill-0-1 at a"}}},
		"None replaces a Pod that has ended":            {scene(none, pod("g-prefill-0-1", ended)), told{Do: []string{"DeletePod g-prefill-0-1"}}},
		"None leaves a restart to kubelet":              {scene(none, pod("g-decode-0-0", lost), func(s *pods.Snapshot) { s.Settings.RestartGrace = 0 }), told{}},
		"None waits for it where the instance comes up": {scene(none, phase("prefill-0", v1alpha1.InstanceCreating), without("g-prefill-0-0"), pod("g-prefill-0-1", atB)), told{Do: []string{"DeletePod g-prefill-0-1"}}},
		"None replaces a Pod at another revision":       {scene(none, pod("g-prefill-0-1", atB)), told{Do: []string{"DeletePod g-prefill-0-1"}}},
		"a group that is to go as one tells of it once": {scene(group, without("g-prefill-0-1"), pod("g-decode-0-0", ended)), again},
		"a group is made anew when the last old Pod is gone": {
			scene(group, recreating, phase("decode-0", v1alpha1.InstanceRecreating), without("g-prefill-0-0"), without("g-prefill-0-1"), pod("g-decode-0-0", going)),
			told{Recheck: time.Minute},
		},
		"what is not declared is drained and deleted": {
			scene(func(s *pods.Snapshot) { s.Group.Spec.Instances = s.Group.Spec.Instances[:1] }),
			told{Do: []string{"DeletePod g-decode-0-0"}, Events: []string{v1alpha1.EventDrainSkipped}},
		},
		"nothing recovers at a revision that cannot be read": {
			scene(pinned("lost"), without("g-prefill-0-1")), told{Blocked: v1alpha1.BlockedRevision, Recheck: 30 * time.Second},
		},
		"a group that is deleted takes its Pods along": {
			scene(deleting), told{Do: []string{"DeletePod g-decode-0-0", "DeletePod g-prefill-0-0", "DeletePod g-prefill-0-1", "DeleteService g-prefill-0-0"}},
		},
		"and goes with the last of them": {
			scene(deleting, without("g-decode-0-0"), without("g-prefill-0-0"), without("g-prefill-0-1")),
			told{Do: []string{"RemoveFinalizer g", "DeleteService g-prefill-0-0"}},
		},
		"a Pod that does not go is reported": {
			scene(deleting, without("g-prefill-0-0"), without("g-prefill-0-1"), pod("g-decode-0-0", going), func(s *pods.Snapshot) { s.Now = s.Now.Add(time.Minute) }),
			told{Do: []string{"DeleteService g-prefill-0-0"}, Blocked: v1alpha1.BlockedDelete},
		},
		"and so is its node, if that is lost": {
			scene(deleting, pod("", going), pod("", func(p *pods.Pod) { p.NodeLost = true }), func(s *pods.Snapshot) { s.Now = s.Now.Add(time.Minute) }),
			told{Do: []string{"DeleteService g-prefill-0-0"}, Blocked: v1alpha1.BlockedNode},
		},
	})
}

// TestPhases: what is written decides what the next pass takes for lost.
func TestPhases(t *testing.T) {
	for name, tt := range map[string]struct {
		given      pods.Snapshot
		want       v1alpha1.InstancePhase // of prefill-0
		recoveries int32
	}{
		"all Pods exist":                     {scene(phase("prefill-0", v1alpha1.InstanceCreating)), v1alpha1.InstanceRunning, 0},
		"one is missing still":               {scene(phase("prefill-0", v1alpha1.InstanceCreating), without("g-prefill-0-1")), v1alpha1.InstanceCreating, 0},
		"one is lost":                        {scene(without("g-prefill-0-1")), v1alpha1.InstanceRecreating, 0},
		"one has failed":                     {scene(pod("g-prefill-0-1", ended)), v1alpha1.InstanceRecreating, 1},
		"one has failed again":               {scene(pod("g-prefill-0-1", ended), pod("", func(p *pods.Pod) { p.Created = p.Created.Add(55 * time.Minute) }), func(s *pods.Snapshot) { s.Group.Status.Instances[0].Recoveries = 2 }), v1alpha1.InstanceRecreating, 3},
		"one has failed again, much later":   {scene(pod("g-prefill-0-1", ended), func(s *pods.Snapshot) { s.Group.Status.Instances[0].Recoveries = 2 }), v1alpha1.InstanceRecreating, 1},
		"the old ones are gone":              {scene(phase("prefill-0", v1alpha1.InstanceRecreating), without("g-prefill-0-0"), without("g-prefill-0-1")), v1alpha1.InstanceCreating, 0},
		"another one is lost, under a group": {scene(recovery(v1alpha1.RecoverServingGroup), without("g-decode-0-0")), v1alpha1.InstanceRecreating, 0},
		"a drain leaves a recovery alone":    {scene(update("", recreate, "b", drain), phase("prefill-0", v1alpha1.InstanceRecreating)), v1alpha1.InstanceRecreating, 0},
		"a swap takes over from it":          {scene(pinned("b"), update("", recreate, "b", swap), phase("prefill-0", v1alpha1.InstanceRecreating)), v1alpha1.InstanceCreating, 0},
		"a swapped unit is whole":            {scene(pinned("b"), update("", recreate, "b", swap), pod("", atB), phase("prefill-0", v1alpha1.InstanceCreating)), v1alpha1.InstanceRunning, 0},
		"it is not declared any more":        {scene(func(s *pods.Snapshot) { s.Group.Spec.Instances = s.Group.Spec.Instances[1:] }), v1alpha1.InstanceRemoving, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, i := range pods.Decide(tt.given).Status.Instances {
				if i.Role == "prefill" && (i.Phase != tt.want || i.Recoveries != tt.recoveries) {
					t.Errorf("%s, %d recoveries; want %s, %d", i.Phase, i.Recoveries, tt.want, tt.recoveries)
				}
			}
		})
	}
}
