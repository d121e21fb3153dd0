package agent

import (
	"cmp"
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// maxGPUs is how many GPUs a report holds at most, maxName how long the name of one may be.
const (
	maxGPUs = 64
	maxName = 128
)

// fillGPUs writes what the GPUs held before at Drained, and what became of it later.
func (s *sight) fillGPUs(u Update, step Step, st *v1alpha1.InPlaceUpdateStatus) {
	m := &s.track.memory
	if step.Stage == v1alpha1.StageDrained && step.Do == ActReport {
		st.GPUs = m.reports()
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

// reports are the GPUs before the swap. Without a baseline they are those of the latest look, each once, of which nothing
// is known; one that cannot be told has the name that kubelet has for it.
func (m *memory) reports() (list []v1alpha1.GPUReport) {
	if m.baseline == nil {
		for _, d := range m.last.Devices {
			name := cmp.Or(d.UUID, d.Name)
			name = name[:min(len(name), maxName)]
			if name != "" && len(list) < maxGPUs && !slices.ContainsFunc(list, func(r v1alpha1.GPUReport) bool { return r.UUID == name }) {
				list = append(list, v1alpha1.GPUReport{UUID: name})
			}
		}
		return list
	}
	for _, g := range m.baseline.GPUs[:min(len(m.baseline.GPUs), maxGPUs)] {
		list = append(list, v1alpha1.GPUReport{UUID: g.UUID, Before: known(g.OwnMiB)})
	}
	return list
}

// known is an amount of memory in a report, which leaves out what is not known.
func known(mib int64) *int64 {
	if mib < 0 {
		return nil
	}
	return &mib
}
