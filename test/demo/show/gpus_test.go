package show

import (
	"errors"
	"strings"
	"testing"

	"pitstop.dev/api/v1alpha1"
)

// rowOf is a Pod that had and has GPU a.
func rowOf(gpus ...v1alpha1.GPUReport) row {
	a := portrait{gpus: []string{"a"}}
	return row{name: "chat-0", before: a, after: a, order: &v1alpha1.InPlaceUpdate{Status: v1alpha1.InPlaceUpdateStatus{GPUs: gpus}}}
}

func TestWhatIsPromisedOfGPUs(t *testing.T) {
	all := new(int64(engineMiB))
	with := func(change func(*row)) row {
		r := rowOf(v1alpha1.GPUReport{UUID: "a", Before: all, After: all, Verdict: v1alpha1.VerdictReloaded})
		change(&r)
		return r
	}
	for name, tt := range map[string]struct {
		row  row
		want string // part of what is broken; empty: nothing
	}{
		"the same GPU with the same memory": {rowOf(v1alpha1.GPUReport{UUID: "a", Before: all, After: all, Verdict: v1alpha1.VerdictReloaded}), ""},
		"nothing was looked at":             {rowOf(), "0 GPUs"},
		"it is not known":                   {rowOf(v1alpha1.GPUReport{UUID: "a", Verdict: v1alpha1.VerdictUnknown}), "held - before and - after: Unknown"},
		"less than before":                  {rowOf(v1alpha1.GPUReport{UUID: "a", Before: all, After: new(int64(1)), Verdict: v1alpha1.VerdictReloaded}), "1 MiB after"},
		"another GPU":                       {rowOf(v1alpha1.GPUReport{UUID: "a", Before: all, After: all, Verdict: v1alpha1.VerdictMoved}), "Moved"},
		"the engine was given another":      {with(func(r *row) { r.after.gpus = []string{"b"} }), "chat-0: GPUs changed from a to b"},
		"the engine had another before":     {with(func(r *row) { r.before.gpus = []string{"b"} }), "chat-0: GPUs changed from b to a"},
		"the engine was given none":         {with(func(r *row) { r.before.gpus, r.after.gpus = nil, nil }), `its engine has ""`},
		"the agent looked at another":       {with(func(r *row) { r.order.Status.GPUs[0].UUID = "b" }), `looked at b, its engine has "a"`},
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
	moved := rowOf(v1alpha1.GPUReport{UUID: "a", Before: new(int64(7)), Verdict: v1alpha1.VerdictReleased})
	moved.name, moved.after.gpus = "chat-1", []string{"b"}
	s.gpuTable([]row{rowOf(v1alpha1.GPUReport{UUID: "a", Before: new(int64(7)), After: new(int64(7)), Verdict: v1alpha1.VerdictReloaded}), moved})
	const want = "\n  POD     GPU BEFORE  GPU AFTER  MEMORY BEFORE  MEMORY AFTER  VERDICT\n" +
		"  chat-0  a           a          7 MiB          7 MiB         Reloaded\n" +
		"  chat-1  a           b          7 MiB          -             Released\n" +
		"  GPU is what kubelet has given to the engine, MEMORY what the driver says that its processes hold there.\n"
	if got := out.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
