package health

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

// recalled is what there is to say of a finding until it is read again.
const recalled = "found before the agent was started"

// A Memory is what of a State no reading would tell again to an agent that is restarted. It holds for as long as the
// node is not rebooted. That a GPU is lost is not in it: the next look says so, or nothing. The zero value is that of an
// agent that knows nothing.
type Memory struct {
	// Driver is its version when it was read last; another one makes void what an error began.
	Driver string `json:"driver,omitempty"`
	// Module is that of the Reading; another one does so too.
	Module uint64 `json:"module,omitempty"`
	// LetGo: the driver was released, and not read since.
	LetGo bool `json:"letGo,omitempty"`
	// GPUs are in the order of their UUIDs.
	GPUs []Remembered `json:"gpus,omitempty"`
}

// Remembered is what is kept of one GPU.
type Remembered struct {
	UUID  string   `json:"uuid"`
	Index int      `json:"index"`
	MIG   []string `json:"mig,omitempty"`
	// Sick are the findings for which it was unhealthy, the gravest first. It is so until it was read often enough, and
	// what is not told any more is not over.
	Sick []v1alpha1.GPUReason `json:"sick,omitempty"`
	// Errors are those that stand.
	Errors []Error `json:"errors,omitempty"`
	// ECC is the counter of uncorrected memory errors; Growths are when it last grew.
	ECC     *uint64     `json:"ecc,omitempty"`
	Growths []time.Time `json:"growths,omitempty"`
	// Links are the numbers of those that were up.
	Links []int `json:"links,omitempty"`
}

// Memory returns what is to be kept. Two of the same State are equal.
func (s State) Memory() Memory {
	m := Memory{Driver: s.driver, Module: s.module, LetGo: s.letGo}
	for _, uuid := range slices.Sorted(maps.Keys(s.devices)) {
		d := s.devices[uuid]
		m.GPUs = append(m.GPUs, Remembered{
			UUID: uuid, Index: d.verdict.Index, MIG: d.verdict.MIG, Sick: d.kept(),
			Errors: slices.DeleteFunc(slices.Clone(d.errors), func(e Error) bool { return !e.Stands }),
			ECC:    d.ecc, Growths: d.growths, Links: slices.Sorted(maps.Keys(d.up)),
		})
	}
	return m
}

// kept are the findings for which the GPU is called unhealthy, those too that are over while it was not yet read often
// enough since.
func (d device) kept() []v1alpha1.GPUReason {
	return slices.DeleteFunc(severity(), func(r v1alpha1.GPUReason) bool {
		unhealthy := d.tracks[r].sick || d.verdict.Status == corev1.ConditionFalse && d.verdict.Reason == r
		return r == v1alpha1.GPUFalseLost || !unhealthy
	})
}

// Recall returns the State of an agent that starts with a Memory. The errors in it are judged anew by their class, which
// may have been configured otherwise; those that stand make their GPU sick at once, as they have been seen before.
func (c Config) Recall(m Memory, now time.Time) State {
	s := State{devices: map[string]device{}, driver: m.Driver, module: m.Module, letGo: m.LetGo}
	for _, r := range m.GPUs {
		if r.UUID != "" {
			s.devices[r.UUID] = c.recall(r, now)
		}
	}
	return s
}

func (c Config) recall(r Remembered, now time.Time) device {
	d := newDevice(r.UUID, gpu.Reading{At: now}).clone()
	d.verdict.Index, d.verdict.MIG = r.Index, slices.Clone(r.MIG)
	d.ecc, d.growths = r.ECC, slices.Clone(r.Growths)
	for _, n := range r.Links {
		d.up[n] = true
	}
	for _, e := range r.Errors {
		e.Class = c.classify(gpu.Event{Kind: e.Kind, XID: e.XID}).Class
		e.Stands = e.Class.Grave()
		d.errors = append(d.errors, e)
	}
	d.errors = bounded(d.errors, now)
	for _, reason := range r.Sick {
		if slices.Contains(severity(), reason) {
			d.tracks[reason] = track{bad: c.Bad, sick: true, detail: recalled}
		}
	}
	if state, detail := d.standing(gpu.Device{Lost: true}); state == isBad {
		d.tracks[v1alpha1.GPUFalseXID] = track{bad: c.Bad, sick: true, detail: detail}
	}
	d.judge(c, gpu.Reading{At: now}, nil)
	return d
}

// Verdicts returns what is known of all GPUs that were ever seen, by index.
func (s State) Verdicts() []Verdict {
	verdicts := make([]Verdict, 0, len(s.devices))
	for _, d := range s.devices {
		verdicts = append(verdicts, d.verdict)
	}
	slices.SortFunc(verdicts, func(a, b Verdict) int { return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID)) })
	return verdicts
}
