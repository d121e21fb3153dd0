package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
	"pitstop.dev/test/bench/figure"
)

const (
	planRuns  = 11
	planFew   = 1_000
	planMany  = 10_000
	planRoles = 2
	planPods  = 4 // of each role
)

// planning measures one decision over a ModelServing in the middle of a rollout.
func (b *bench) planning(_ context.Context, s *subject) error {
	few, err := b.decides(planFew)
	if err != nil {
		return err
	}
	many, err := b.decides(planMany)
	if err != nil {
		return err
	}
	for _, m := range many {
		if err := b.sheet.Add(planTime, m); err != nil {
			return err
		}
	}
	return b.addAll(s, sample{planGrowth, figure.Median(many) / figure.Median(few)})
}

func (b *bench) decides(groups int) ([]float64, error) {
	snapshot := snapshotOf(groups, b.config.Clock.Now())
	var took []float64
	for range planRuns {
		begin := b.config.Clock.Now()
		p := plan.Decide(snapshot)
		took = append(took, ms(b.config.Clock.Since(begin)))
		if !slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Kind == plan.Book }) {
			return nil, fmt.Errorf("the plan for %d groups in mid-rollout starts nothing: %+v", groups, p.Report)
		}
	}
	return took, nil
}

// snapshotOf is a ModelServing of which half the groups are at the target.
func snapshotOf(groups int, now time.Time) plan.Snapshot {
	layout := func(digest string) plan.Layout {
		l := plan.Layout{}
		for r := range planRoles {
			l[fmt.Sprintf("role-%d", r)] = plan.RoleLayout{Digest: digest}
		}
		return l
	}
	s := plan.Snapshot{
		Now: now, Target: "new", Current: "old",
		Layouts: map[string]plan.Layout{"new": layout("n"), "old": layout("o")},
		Serving: plan.Serving{
			Name: "bench", Replicas: int32(groups), Type: v1alpha1.ServingGroupRollingUpdate, MaxUnavailable: int32(groups / 10),
		},
	}
	for r := range planRoles {
		s.Serving.Roles = append(s.Serving.Roles, plan.Role{Name: fmt.Sprintf("role-%d", r), Replicas: planPods, MaxUnavailable: 1})
	}
	for i := range groups {
		s.Groups = append(s.Groups, groupOf(s, int32(i), now))
	}
	return s
}

func groupOf(s plan.Snapshot, ordinal int32, now time.Time) plan.Group {
	g := plan.Group{Name: v1alpha1.ServingGroupName("bench", ordinal), Generation: 1, ResourceVersion: "1"}
	g.UID = types.UID(g.Name)
	g.Spec.Ordinal, g.Spec.Revision = &ordinal, s.Current
	if ordinal%2 == 0 {
		g.Spec.Revision = s.Target
	}
	since := metav1.NewTime(now.Add(-time.Hour))
	g.Status.ObservedGeneration = 1
	for _, role := range s.Serving.Roles {
		for i := range role.Replicas {
			g.Spec.Instances = append(g.Spec.Instances, v1alpha1.RoleInstance{Role: role.Name, Ordinal: &i})
			g.Status.Instances = append(g.Status.Instances, v1alpha1.InstanceStatus{
				Role: role.Name, Ordinal: &i, Phase: v1alpha1.InstanceRunning, Revision: g.Spec.Revision,
				Pods: 1, ReadyPods: 1, LivePods: 1, Ready: true, ReadySince: &since,
			})
			g.Status.Pods, g.Status.ReadyPods, g.Status.LivePods = g.Status.Pods+1, g.Status.ReadyPods+1, g.Status.LivePods+1
		}
	}
	return g
}
