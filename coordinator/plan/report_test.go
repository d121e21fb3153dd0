package plan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

func TestReportCounts(t *testing.T) {
	s := ledger(serving(5, 1, 0, 1).with("0 old ready", "1 new ready", "2 new young", "3 old creating Drain:Draining:new", "4 new deleting"), "ms-3")
	s.Serving.MinReady = downAfter
	r := Decide(s).Report
	if r.Replicas != 5 || r.Ready != 3 || r.Available != 2 || r.Updated != 2 || r.Complete {
		t.Errorf("%+v", r)
	}
	if r := Decide(serving(2, 1, 0, 0).with("0 new ready", "1 new ready")).Report; !r.Complete || r.Updated != 2 {
		t.Errorf("all done: %+v", r)
	}
	if r := Decide(serving(2, 1, 0, 1).with("0 old ready", "1 new ready")).Report; r.Complete {
		t.Errorf("a protected group is old: %+v", r)
	}
	if r := Decide(serving(0, 1, 0, 0)).Report; r.Complete {
		t.Errorf("no group lives: %+v", r)
	}
}

func TestReportSaysWhatIsWaitedFor(t *testing.T) {
	paused := serving(2, 1, 0, 0).with("0 old ready", "1 new ready")
	paused.Serving.Paused = true
	taken := serving(1, 1, 0, 0).with("0 new ready")
	taken.Groups[0].Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: string(v1alpha1.BlockedName),
		Message: "Pod ms-0-a-0-0 belongs to another owner", LastTransitionTime: *ago(downAfter),
	}}
	overdue := serving(3, 1, 0, 0).with("0 old ready", "1 old ready", "2 new down")
	overdue.Serving.Deadline = downAfter
	unready := serving(1, 1, 0, 0).with("0 new down")
	unready.Serving.Deadline = downAfter
	slow := ledger(serving(1, 1, 0, 0).with("0 old creating Drain:Draining:new"), "ms-0")
	slow.Serving.Deadline = downAfter
	quick := ledger(serving(1, 1, 0, 0).with("0 new down Swap:Swapping:new"), "ms-0")
	quick.Serving.Deadline = downAfter
	quick.Groups[0].Status.Updates[0].Since = *ago(1)
	roles := serving(1, 0, 0, 0).roles(budget(2, 0, 0, 0), "0 old ready", "1 old ready")
	lost := serving(1, 1, 0, 1)
	lost.Current = "lost"
	since := "2026-11-30T11:59:00Z"
	for name, tt := range map[string]struct {
		in                   Snapshot
		progressing, blocked v1alpha1.ConditionReason
		says                 []string // parts of the messages
	}{
		"an update":                           {ledger(serving(1, 1, 0, 0).with("0 old creating Drain:Draining:new"), "ms-0"), v1alpha1.ProgressingRollout, v1alpha1.NotBlocked, []string{"ms-0", "attempt 4", "Draining since " + since, "PodsNotReady: Pod x"}},
		"a failure":                           {ledger(serving(1, 1, 0, 0).with("0 new down Swap:Failed:new"), "ms-0"), v1alpha1.ProgressingRollout, v1alpha1.BlockedFailed, []string{"ms-0", "Failed since " + since, "comes good or the template changes"}},
		"a slow stage":                        {slow, v1alpha1.ProgressingRollout, v1alpha1.BlockedDeadline, []string{"ms-0", "Draining since " + since, "progressDeadlineSeconds"}},
		"an update of what was down for long": {quick, v1alpha1.ProgressingRollout, v1alpha1.NotBlocked, []string{"ms-0 goes to revision new"}},
		"a removal":                           {ledger(serving(1, 1, 0, 0).with("0 new ready", "1 new creating rDrain:Draining:"), "ms-1"), v1alpha1.ProgressingScale, v1alpha1.NotBlocked, []string{"; ms-1 is being removed (", "Draining since " + since}},
		"a creation":                          {serving(2, 1, 0, 0).with("0 new ready"), v1alpha1.ProgressingScale, v1alpha1.NotBlocked, []string{"creating 1", "ms-1"}},
		"a deletion":                          {serving(2, 1, 0, 0).with("0 new ready", "1 new deleting"), v1alpha1.ProgressingScale, v1alpha1.NotBlocked, []string{"ms-1 is being deleted"}},
		"a pause":                             {paused, v1alpha1.ProgressingPaused, v1alpha1.NotBlocked, []string{"1 wait for spec.paused"}},
		"a budget of 0":                       {serving(1, 0, 0, 0).with("0 old ready"), v1alpha1.ProgressingRollout, v1alpha1.BlockedBudget, []string{"1 units wait", "both resolve to 0"}},
		"a role's budget of 0":                {roles, v1alpha1.ProgressingRollout, v1alpha1.BlockedBudget, []string{"2 units wait", "for role a"}},
		"a spent budget":                      {serving(3, 1, 0, 0).with("0 old ready", "1 old ready", "2 new down"), v1alpha1.ProgressingRollout, v1alpha1.NotBlocked, []string{"2 wait for their turn", "ms-2 is not ready since " + since}},
		"a budget long spent":                 {overdue, v1alpha1.ProgressingRollout, v1alpha1.BlockedUnavailable, []string{"2 units wait", "ms-2 is not ready since " + since, "raise maxUnavailable"}},
		"a start":                             {serving(1, 1, 0, 0).with("0 new creating"), v1alpha1.ProgressingReady, v1alpha1.NotBlocked, []string{"ms-0 is not ready since"}},
		"a start that fails":                  {unready, v1alpha1.ProgressingReady, v1alpha1.BlockedDeadline, []string{"ms-0 is not ready since " + since, "look at its Pods"}},
		"a partition":                         {serving(2, 1, 0, 1).with("0 old ready", "1 new ready"), v1alpha1.ProgressingPartition, v1alpha1.NotBlocked, []string{"1 are kept"}},
		"the end":                             {serving(1, 1, 0, 0).with("0 new ready"), v1alpha1.ProgressingComplete, v1alpha1.NotBlocked, []string{"1 of 1 units are at revision new"}},
		"a taken name":                        {taken, v1alpha1.ProgressingComplete, v1alpha1.BlockedName, []string{"ms-0 since", "another owner"}},
		"an unreadable pin":                   {serving(1, 1, 0, 0).with("0 lost ready"), v1alpha1.ProgressingReady, v1alpha1.BlockedRevision, []string{"ms-0 is neither updated nor removed", "revision lost", "restore the ControllerRevision"}},
		"an unreadable birth":                 {lost, v1alpha1.ProgressingReady, v1alpha1.BlockedRevision, []string{"ms-0 is not created", "revision lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Decide(tt.in).Report
			if r.Progressing.Reason != tt.progressing || r.Blocked.Reason != tt.blocked || r.Blocked.True != (tt.blocked != v1alpha1.NotBlocked) {
				t.Errorf("report %+v, want %s and %s", r, tt.progressing, tt.blocked)
			}
			for _, part := range tt.says {
				if !strings.Contains(r.Progressing.Message+"\n"+r.Blocked.Message, part) {
					t.Errorf("%q does not say %q", r.Progressing.Message+"\n"+r.Blocked.Message, part)
				}
			}
		})
	}
}

func TestEnough(t *testing.T) {
	roles := serving(1, 0, 0, 0).roles(budget(3, 1, 0, 0), "0 old ready", "1 old ready", "2 new creating")
	for name, tt := range map[string]struct {
		in     Snapshot
		enough bool
	}{
		"one may be missing":                       {serving(2, 1, 0, 0).with("0 new ready", "1 new down"), true},
		"two may not":                              {serving(3, 1, 0, 0).with("0 new ready", "1 new down", "2 new down"), false},
		"what is taken in this pass counts":        {serving(1, 1, 0, 0).with("0 old ready"), true},
		"roles may miss what their budgets say":    {roles, true},
		"roles may not miss more than that":        {serving(1, 0, 0, 0).roles(budget(3, 1, 0, 0), "0 old ready", "1 new creating", "2 new creating"), false},
		"a group that is missing is not available": {serving(2, 0, 0, 0).with("0 new ready"), false},
	} {
		t.Run(name, func(t *testing.T) {
			v := Decide(tt.in).Report.Enough
			if v.True != tt.enough || v.Message == "" {
				t.Errorf("%+v, want %t", v, tt.enough)
			}
		})
	}
}
