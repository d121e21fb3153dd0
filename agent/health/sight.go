package health

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

// staleAfter is after how many readings that did not come the last one says nothing any more.
const staleAfter = 4

// now is the last sight as far as it counts now.
func (m *Monitor) now() sight { return m.last().asOf(m.clock.Now(), m.cfg.Every) }

// asOf returns what a sight says at a time, where there should be one every so often. Old ones say that nothing is known,
// but for GPUs that were sick: what is not looked at heals as little as what cannot be read.
func (s sight) asOf(now time.Time, every time.Duration) sight {
	most := staleAfter * every
	if s.reading.State == gpu.Absent {
		most += absentEvery
	}
	age := now.Sub(s.reading.At)
	if s.reading.State == "" || age <= most {
		return s
	}
	s.stale = fmt.Sprintf("last read %s ago", age.Truncate(time.Second))
	s.reading.State, s.reading.Message, s.reading.Devices = gpu.Unknown, s.stale, nil
	s.verdicts = slices.Clone(s.verdicts)
	for i := range s.verdicts {
		if v := &s.verdicts[i]; v.Status != corev1.ConditionFalse {
			v.Status, v.Reason, v.Message = corev1.ConditionUnknown, v1alpha1.GPUUnknownUnread, s.stale
		}
	}
	return s
}
