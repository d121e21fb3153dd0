package verb_test

import (
	"strings"
	"testing"

	"pitstop.dev/api/v1alpha1"
)

func TestCancel(t *testing.T) {
	b := newBench(t, ordered(1, v1alpha1.StagePrepared))
	ended := because(ordered(2, v1alpha1.StageCancelled), v1alpha1.EndedCancelled, "")
	ended.Spec.Containers = nil
	b.report(t, ended)
	b.want(t, b.run(t.Context(), "cancel", "engine-0", "--wait"), 0)
	if u := b.stored(t); u.Spec.Attempt != 2 || len(u.Spec.Containers) != 0 {
		t.Errorf("ordered %+v", u.Spec)
	}
	if !strings.Contains(b.out.String(), "Cancelled") {
		t.Errorf("output: %s", b.out)
	}
}

func TestCancelThatCameTooLate(t *testing.T) {
	b := newBench(t, ordered(1, v1alpha1.StageDrained))
	late := because(ordered(2, v1alpha1.StageInService), v1alpha1.EndedCancelTooLate, "")
	late.Spec.Containers = nil
	b.report(t, late)
	b.want(t, b.run(t.Context(), "cancel", "engine-0", "--wait"), 1, "CancelTooLate", "update to the old image")
}
