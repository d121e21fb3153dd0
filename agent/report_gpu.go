package agent

import (
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// maxGPUs is how many GPUs a report holds at most.
const maxGPUs = 64

// fillGPUs writes what the GPUs held before at Drained, and what became of it later.
func (s *sight) fillGPUs(u Update, step Step, st *v1alpha1.InPlaceUpdateStatus) {
	m := &s.track.memory
	if step.Stage == v1alpha1.StageDrained && step.Do == ActReport {
		st.GPUs = nil
		if m.baseline == nil {
			return
		}
		for _, g := range m.baseline.GPUs[:min(len(m.baseline.GPUs), maxGPUs)] {
			st.GPUs = append(st.GPUs, v1alpha1.GPUReport{UUID: g.UUID, Before: known(g.OwnMiB)})
		}
		return
	}
	if !u.GPUs.Judged {
		return
	}
	for _, g := range m.watch.GPUs {
		i := slices.IndexFunc(st.GPUs, func(r v1alpha1.GPUReport) bool { return r.UUID == g.UUID })
		if i >= 0 {
			st.GPUs[i].After, st.GPUs[i].Verdict = known(g.OwnMiB), g.Verdict
		}
	}
	if m.baseline == nil {
		for i := range st.GPUs {
			st.GPUs[i].Verdict = v1alpha1.VerdictUnknown
		}
	}
}

// known is an amount of memory in a report, which leaves out what is not known.
func known(mib int64) *int64 {
	if mib < 0 {
		return nil
	}
	return &mib
}
