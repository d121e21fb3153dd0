package agent

import (
	"context"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/agent/journal"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// counted are the containers of gated Pods whose start this process has put in the ledger.
type counted struct {
	mu   sync.Mutex
	last map[types.UID]map[string]string // Pod to container to container id
}

func newCounted() *counted { return &counted{last: map[types.UID]map[string]string{}} }

// isNew reports whether the container has not been seen by this process, and notes it.
func (c *counted) isNew(pod types.UID, container, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last[pod][container] == id {
		return false
	}
	if c.last[pod] == nil {
		c.last[pod] = map[string]string{}
	}
	c.last[pod][container] = id
	return true
}

func (c *counted) forget(pod types.UID, container string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last[pod], container)
}

// retain forgets the Pods that are gone.
func (c *counted) retain(live []types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.last {
		if !slices.Contains(live, uid) {
			delete(c.last, uid)
		}
	}
}

// tidy forgets the Pods that are gone, in memory and in the journal.
func (a *Agent) tidy(ctx context.Context) {
	if !a.Synced() {
		return
	}
	live := a.pods.uids()
	a.counted.retain(live)
	err := a.keeper.with(ctx, func(j *journal.Journal) error {
		records, err := j.Records()
		if err != nil {
			return err
		}
		for _, r := range records {
			if !slices.Contains(live, r.Pod) {
				if err := j.Forget(r.Pod); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).V(1).Info("journal keeps Pods that are gone", "cause", err.Error())
	}
}

// count puts the containers that kubelet reports as started into the restart ledger, each once.
func (a *Agent) count(ctx context.Context, s *sight) {
	if s.pod == nil || !readiness.HasGate(s.pod) {
		return
	}
	for _, c := range s.pod.Status.ContainerStatuses {
		id := bareID(c.ContainerID)
		if id == "" || c.State.Running == nil || !a.counted.isNew(s.pod.UID, c.Name, id) {
			continue
		}
		if err := a.countStart(ctx, s, c, id); err != nil {
			a.counted.forget(s.pod.UID, c.Name)
			logr.FromContextOrDiscard(ctx).V(1).Info("start is not in the ledger", "container", c.Name, "cause", err.Error())
		}
	}
}

func (a *Agent) countStart(ctx context.Context, s *sight, c corev1.ContainerStatus, id string) error {
	start := journal.Start{Pod: s.pod.UID, Container: c.Name, ContainerID: id, Kind: s.kindOf(c, id)}
	return a.keeper.with(ctx, func(j *journal.Journal) error {
		known, err := j.Restarts(s.pod.UID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(known, func(r journal.Restarts) bool { return r.Container == c.Name })
		if i >= 0 && slices.Contains(known[i].Counted, id) {
			return nil
		}
		if i < 0 && start.Kind == journal.Crash {
			start.Kind = journal.First // older than this ledger: who knows
		}
		if _, err := j.Count(start); err != nil {
			return err
		}
		a.metrics.countRestart(start.Kind)
		return nil
	})
}

// kindOf says why the container was started. It goes by the baseline in the order's status: what
// came of the swap is reported only after the new containers have been seen.
func (s *sight) kindOf(c corev1.ContainerStatus, id string) journal.RestartKind {
	if c.RestartCount == 0 {
		return journal.First
	}
	if s.order == nil || s.order.Status.Attempt != s.order.Spec.Attempt {
		return journal.Crash
	}
	i := slices.IndexFunc(s.order.Status.Containers, func(r v1alpha1.ContainerReport) bool { return r.Name == c.Name })
	if i < 0 || s.order.Status.Containers[i].Before == nil {
		return journal.Crash
	}
	before := s.order.Status.Containers[i].Before
	patched := s.patched().Token == s.order.Token() && slices.ContainsFunc(s.pod.Spec.Containers, func(spec corev1.Container) bool {
		return spec.Name == c.Name && spec.Image != before.Image
	})
	asked := slices.ContainsFunc(s.order.Spec.Containers, func(w v1alpha1.ContainerImage) bool { return w.Name == c.Name })
	switch {
	case id == before.ContainerID:
		return journal.Crash // from before the update
	case patched && c.RestartCount == before.RestartCount+1,
		patched && c.RestartCount == before.RestartCount+2 && s.retried(c.Name, &s.order.Status.Containers[i]):
		return journal.Planned
	case !asked && !s.order.Status.Stage.Ended():
		return journal.Peer
	}
	return journal.Crash
}
