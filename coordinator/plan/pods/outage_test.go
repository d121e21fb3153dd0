package pods_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

// out has had the group out of service for a minute, at an attempt before the present one.
func out(s *pods.Snapshot) {
	since := metav1.NewMicroTime(s.Now.Add(-time.Minute))
	s.Group.Status.Updates = []v1alpha1.UnitUpdateStatus{{Attempt: 2, Stage: v1alpha1.UnitSwapping, Since: metav1.NewTime(s.Now), OutSince: &since}}
}

func TestOutages(t *testing.T) {
	const minute = time.Minute
	type told struct {
		Out     time.Duration // since when the status says so; 0: not
		Outages []time.Duration
	}
	for name, row := range map[string]struct {
		given pods.Snapshot
		want  told
	}{
		"no Pod has left traffic yet": {scene(images, agent, update("", inPlace, "b", drain)), told{}},
		"a Pod that is down of a unit that is only prepared": {
			scene(images, agent, update("", inPlace, "b", prepare), pod("g-decode-0-0", down)), told{},
		},
		"the first Pod leaves traffic": {
			scene(images, agent, update("", inPlace, "b", drain), ordered(drain, v1alpha1.StageDraining), pod("g-decode-0-0", taken)),
			told{Out: time.Nanosecond},
		},
		"a Pod is missing":         {scene(pinned("b"), update("", recreate, "b", swap), without("g-decode-0-0")), told{Out: time.Nanosecond}},
		"a Pod is being deleted":   {scene(pinned("b"), update("", recreate, "b", swap), pod("", going)), told{Out: time.Nanosecond}},
		"out since an attempt ago": {scene(out, images, agent, update("", inPlace, "b", drain), pod("", taken)), told{Out: minute}},
		"all Pods are Ready and the unit is not yet reported in service": {
			scene(out, images, agent, update("", inPlace, "b", drain)), told{Out: minute},
		},
		"back at the target": {
			scene(out, pinned("b"), update("", recreate, "b", serve), pod("", atB)), told{Outages: []time.Duration{minute}},
		},
		"back where it was": {scene(out, update("", recreate, "a", serve)), told{Outages: []time.Duration{minute}}},
		"in service, and never was out of it": {
			scene(pinned("b"), update("", recreate, "b", serve), pod("", atB), at(v1alpha1.UnitVerified, minute)), told{},
		},
		"the group is deleted meanwhile": {scene(out, deleting, update("", recreate, "b", drain), pod("", held)), told{}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := pods.Decide(row.given)
			got := told{Outages: plan.Outages}
			for _, u := range plan.Status.Updates {
				if u.OutSince != nil {
					got.Out = max(row.given.Now.Sub(u.OutSince.Time), time.Nanosecond)
				}
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	later := func(s *pods.Snapshot) {
		s.Group.Spec.Updates[0].NotBefore = new(metav1.NewTime(s.Now.Add(time.Minute)))
	}
	refused := but("g-prefill-0-1", prepare, v1alpha1.StageRefused)
	given := []change{images, agent, update("", inPlace, "b", prepare), ordered(prepare, v1alpha1.StagePrepared), refused}
	for name, row := range map[string]struct {
		more []change
		want []v1alpha1.UnitReason
	}{
		"refused now":                          {nil, []v1alpha1.UnitReason{v1alpha1.UnitReason(v1alpha1.RefusedNotFound)}},
		"refused before":                       {[]change{at(v1alpha1.UnitRefused, time.Minute)}, nil},
		"told again by an attempt that waits":  {[]change{out, later}, nil},
		"refused once more by another attempt": {[]change{out}, []v1alpha1.UnitReason{v1alpha1.UnitReason(v1alpha1.RefusedNotFound)}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := pods.Decide(scene(append(given, row.more...)...))
			if diff := cmp.Diff(row.want, plan.Refusals); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
