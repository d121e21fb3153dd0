package pods_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

func TestPodsAreHeldForSickGPUsByGrant(t *testing.T) {
	sick := func(p *pods.Pod) { p.GPUFault = "DeviceLost: GPU-1" }
	grant := func(unit string) change {
		return func(s *pods.Snapshot) { s.Group.Spec.GPUHolds = append(s.Group.Spec.GPUHolds, unit) }
	}
	unknown := func(p *pods.Pod) { p.GPUUnknown = true }
	before := func(fault string) change {
		return func(s *pods.Snapshot) {
			for n := range s.Group.Status.Instances {
				s.Group.Status.Instances[n].GPUFault = fault
			}
		}
	}
	held := func(p *pods.Pod) { p.HeldGPU, p.HeldOther, p.Ready = true, true, false }
	place, release := "PlaceGPUHold ", "ClearGPUHold "
	for name, r := range map[string]struct {
		given pods.Snapshot
		do    []string
		fault string // of decode-0
	}{
		"a sick Pod is reported and not held by itself": {
			scene(pod("g-decode-0-0", sick)), nil, "Pod g-decode-0-0 on node n: DeviceLost: GPU-1",
		},
		"what cannot be told any more is as it was": {
			scene(pod("g-decode-0-0", unknown), before("Pod g-decode-0-0 on node n: DeviceLost: GPU-1")), nil, "Pod g-decode-0-0 on node n: DeviceLost: GPU-1",
		},
		"but not of another Pod": {scene(pod("g-decode-0-0", unknown), before("Pod g-decode-0-0 on node m: DeviceLost: GPU-1")), nil, ""},
		"all Pods of the unit are held": {
			scene(pod("g-decode-0-0", sick), grant("prefill-0")), []string{place + "g-prefill-0-0", place + "g-prefill-0-1"}, "Pod g-decode-0-0 on node n: DeviceLost: GPU-1",
		},
		"all Pods of the group are": {
			scene(grant("")), []string{place + "g-decode-0-0", place + "g-prefill-0-0", place + "g-prefill-0-1"}, "",
		},
		"one that is made anew is born held": {
			scene(without("g-decode-0-0"), recovery(v1alpha1.RecoverNone), grant("decode-0")),
			[]string{"SetLeader g-prefill-0-0", "CreatePod g-decode-0-0 at a held for a GPU"},
			"",
		},
		"once":                             {scene(grant("decode-0"), pod("g-decode-0-0", held)), nil, ""},
		"they are let go with the grant":   {scene(pod("g-decode-0-0", held)), []string{release + "g-decode-0-0"}, ""},
		"a Pod that goes is left alone":    {scene(grant("decode-0"), phase("decode-0", "Recreating"), pod("g-decode-0-0", func(p *pods.Pod) { p.Deleting = true })), []string{"SetLeader g-prefill-0-0"}, ""},
		"one that goes is not sick either": {scene(phase("decode-0", "Recreating"), pod("g-decode-0-0", func(p *pods.Pod) { p.Deleting, p.GPUFault = true, "x" })), []string{"SetLeader g-prefill-0-0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			plan := pods.Decide(r.given)
			if diff := cmp.Diff(r.do, tell(plan).Do); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := plan.Status.Instances[0].GPUFault; got != r.fault {
				t.Errorf("fault %q, want %q", got, r.fault)
			}
		})
	}
}
