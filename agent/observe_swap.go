package agent

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/gpu/residency"
)

// oldEnded is when the last of the containers that the patch replaces ended; zero while one runs, or is not replaced.
// Reported once, it stays what it is: kubelet collects the old containers, and an agent that restarts must not begin the
// release deadline anew. Where the runtime does not say when one ended it is now that what replaces it is first seen.
func (s *sight) oldEnded(u *Update) time.Time {
	ended := u.Pod.Patched.At
	switch st := s.order.Status; {
	case slices.ContainsFunc(u.Containers, Container.old):
		return time.Time{}
	case st.Attempt != s.order.Spec.Attempt:
		return ended
	case st.Timings != nil && st.Timings.Stop != nil:
		return ended.Add(time.Duration(*st.Timings.Stop+1) * time.Millisecond) // not before it: the report is rounded down
	}
	for _, r := range s.order.Status.Containers {
		i := slices.IndexFunc(u.Containers, func(c Container) bool { return c.Name == r.Name })
		if i < 0 || r.Before == nil || r.Before.Image == u.Containers[i].SpecImage {
			continue
		}
		end := endOf(s, r)
		if now := u.Containers[i].Now; end.IsZero() && now.ID != r.Before.ContainerID && now.Hash == u.Containers[i].SpecHash {
			end = s.now
		}
		if end.IsZero() {
			return time.Time{}
		}
		ended = latest(ended, end)
	}
	return ended
}

// stopped is when the last old container ended as the release deadline has it; false: there is no such deadline.
func (m *memory) stopped(u Update) (time.Time, bool) {
	return m.ended, u.GPUs.Judged && m.baseline != nil && m.patched.Equal(u.Pod.Patched.At)
}

// starve notes whether the first start of a container failed for want of memory. Kubelet may collect the container
// that did as soon as the next one has failed too: then the Pod's status may tell how it ended.
func (s *sight) starve(c *Container) {
	before := s.reported(c.Name)
	if before == nil || before.Image == c.SpecImage || c.Retried {
		return
	}
	m := &s.track.memory
	i := slices.IndexFunc(s.cri.Containers, func(one cri.Container) bool {
		return one.Name == c.Name && one.Hash == c.SpecHash && int32(one.RestartCount) == before.RestartCount+1
	})
	if i >= 0 {
		if m.starts == nil {
			m.starts = map[string]cri.Container{}
		}
		m.starts[c.Name] = s.cri.Containers[i]
	}
	first, seen := m.starts[c.Name]
	if end := s.toldEnd(first); i < 0 && end != nil {
		first.State, first.ExitCode = cri.Exited, end.ExitCode
		if first.StartedAt.IsZero() { // seen before it was started; the status has whole seconds
			first.StartedAt = end.StartedAt.Add(time.Second)
		}
	}
	c.Starved = seen && first.State == cri.Exited && m.watch.Starved(residency.Start{
		First: true, ExitCode: first.ExitCode, WasReady: !m.ready.IsZero(), Began: first.StartedAt,
	})
}

// toldEnd is how a container ended by the Pod's status; nil if that does not say.
func (s *sight) toldEnd(c cri.Container) *corev1.ContainerStateTerminated {
	for _, st := range s.pod.Status.ContainerStatuses {
		for _, end := range []*corev1.ContainerStateTerminated{st.State.Terminated, st.LastTerminationState.Terminated} {
			if st.Name == c.Name && end != nil && bareID(end.ContainerID) == c.ID {
				return end
			}
		}
	}
	return nil
}

// reported is the container of the baseline in the report on this attempt; nil if there is none.
func (s *sight) reported(container string) *v1alpha1.ContainerState {
	if s.order == nil || s.order.Status.Attempt != s.order.Spec.Attempt {
		return nil
	}
	for _, r := range s.order.Status.Containers {
		if r.Name == container {
			return r.Before
		}
	}
	return nil
}

// retried reports whether the first start of the container is known to have failed for want of memory: by this
// process, by the journal, or by the report.
func (s *sight) retried(container string, r *v1alpha1.ContainerReport) bool {
	_, journaled := s.record.Step(journal.Action{Kind: journal.Retry, Subject: container})
	ours := v1alpha1.Token(s.record.IPU, s.record.Number) == s.token
	return journaled && ours || r != nil && r.Planned > 1 || s.track != nil && s.track.memory.retried[container]
}

// noteRetry remembers it where the journal cannot.
func (s *sight) noteRetry(container string) {
	if s.track.memory.retried == nil {
		s.track.memory.retried = map[string]bool{}
	}
	s.track.memory.retried[container] = true
}
