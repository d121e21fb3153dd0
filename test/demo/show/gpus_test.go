package show

import (
	"errors"
	"strings"
	"testing"

	"pitstop.dev/api/v1alpha1"
)

func rowOf(gpus ...v1alpha1.GPUReport) row {
	return row{name: "chat-0", order: &v1alpha1.InPlaceUpdate{Status: v1alpha1.InPlaceUpdateStatus{GPUs: gpus}}}
}

func TestWhatIsPromisedOfGPUs(t *testing.T) {
	all := new(int64(engineMiB))
	for name, tt := range map[string]struct {
		row  row
		want string // part of what is broken; empty: nothing
	}{
		"the same GPU with the same memory": {rowOf(v1alpha1.GPUReport{UUID: "a", Before: all, After: all, Verdict: v1alpha1.VerdictReloaded}), ""},
		"nothing was looked at":             {rowOf(), "0 GPUs"},
		"it is not known":                   {rowOf(v1alpha1.GPUReport{UUID: "a", Verdict: v1alpha1.VerdictUnknown}), "held - before and - after: Unknown"},
		"less than before":                  {rowOf(v1alpha1.GPUReport{UUID: "a", Before: all, After: new(int64(1)), Verdict: v1alpha1.VerdictReloaded}), "1 MiB after"},
		"another GPU":                       {rowOf(v1alpha1.GPUReport{UUID: "a", Before: all, After: all, Verdict: v1alpha1.VerdictMoved}), "Moved"},
	} {
		s := &show{}
		s.checkGPUs(tt.row)
		err := errors.Join(s.broken...)
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestTheTableOfGPUs(t *testing.T) {
	var out strings.Builder
	s := &show{out: &out}
	s.gpuTable([]row{rowOf(v1alpha1.GPUReport{UUID: "GPU-a", Before: new(int64(7)), Verdict: v1alpha1.VerdictReleased})})
	const want = "\n  POD     GPU    BEFORE  AFTER  VERDICT\n  chat-0  GPU-a  7 MiB   -      Released\n"
	if got := out.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
