package measure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/bench/audit"
	"pitstop.dev/test/bench/figure"
	"pitstop.dev/test/bench/hollow"
	"pitstop.dev/test/cluster"
)

const (
	rolloutGroups      = 200
	rolloutPodsOfGroup = 4
	rolloutUnavailable = 20
	unitRollouts       = 5
	hollowNodes        = 4
	hollowReadyAfter   = 5 * time.Second
	rolloutLimit       = 10 * time.Minute
	coordinatorUser    = "system:serviceaccount:" + cluster.System + ":" + cluster.Coordinator
)

// rollout measures how near a rollout over many groups comes to its ideal: the groups in batches of
// maxUnavailable, each as long as one group alone takes.
func (b *bench) rollout(ctx context.Context, s *subject) (err error) {
	nodes, err := hollow.Start(ctx, b.RESTConfig(), hollow.Config{Count: hollowNodes, ReadyAfter: hollowReadyAfter, Clock: b.config.Clock})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nodes.Stop(ctx)) }()
	one, err := b.rolls(ctx, rollable{name: "bench-unit", groups: 1, unavailable: 1, times: unitRollouts})
	if err != nil {
		return err
	}
	unit := figure.Median(one.seconds)
	many, err := b.rolls(ctx, rollable{name: "bench-many", groups: rolloutGroups, unavailable: rolloutUnavailable, times: 1})
	if err != nil {
		return err
	}
	ideal := unit * float64((rolloutGroups+rolloutUnavailable-1)/rolloutUnavailable)
	return b.addAll(s,
		sample{hollowUnit, unit * 1000}, sample{rolloutTime, many.seconds[0] * 1000},
		sample{rolloutRatio, many.seconds[0] / ideal},
		sample{rolloutWrites, float64(many.writes) / (rolloutGroups * rolloutPodsOfGroup)},
	)
}

// rollable is a ModelServing that is rolled out a number of times.
type rollable struct {
	name                string
	groups, unavailable int32
	times               int
}

// rolled is what that took: each time in seconds, and the coordinator's writes over all.
type rolled struct {
	seconds []float64
	writes  int
}

func (b *bench) rolls(ctx context.Context, r rollable) (out rolled, err error) {
	defer func() { err = errors.Join(err, b.RemoveServing(ctx, r.name)) }()
	if err := b.Admit(ctx, func() error { return b.Objects.Create(ctx, r.serving()) }); err != nil {
		return out, fmt.Errorf("create modelserving %s: %w", r.name, err)
	}
	if err := b.complete(ctx, r.name); err != nil {
		return out, err
	}
	mark, err := audit.End(b.AuditLog())
	if err != nil {
		return out, err
	}
	defer mark.Close() //nolint:errcheck // only read
	for i := range r.times {
		begin := b.config.Clock.Now()
		image := fmt.Sprintf("hollow.example/engine:v%d", i+2)
		err := b.Edit(ctx, r.name, func(s *v1alpha1.ModelServingSpec) {
			s.Template.Roles[0].EntryTemplate.Spec.Containers[0].Image = image
		})
		if err != nil {
			return out, err
		}
		if err := b.complete(ctx, r.name); err != nil {
			return out, err
		}
		out.seconds = append(out.seconds, b.config.Clock.Since(begin).Seconds())
		b.progress.note("  %s: rollout in %.1f s", r.name, out.seconds[i])
	}
	writes, err := mark.Since()
	for _, w := range writes {
		if w.User == coordinatorUser && w.Resource != "events" && w.Resource != "leases" {
			out.writes++
		}
	}
	return out, err
}

func (r rollable) serving() *v1alpha1.ModelServing {
	ms := cluster.ServingSpec{Name: r.name, Replicas: r.groups, Strategy: v1alpha1.RolloutStrategy{
		RollingUpdateConfiguration: &v1alpha1.RollingUpdateConfiguration{MaxUnavailable: new(intstr.FromInt32(r.unavailable))},
	}}.Serving()
	ms.Spec.Template.Roles = []v1alpha1.Role{{
		Name: "engine", Replicas: new(int32(rolloutPodsOfGroup)),
		EntryTemplate: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			NodeSelector: map[string]string{hollow.Label: "true"}, Tolerations: []corev1.Toleration{hollow.Toleration()},
			Containers: []corev1.Container{{Name: "engine", Image: "hollow.example/engine:v1"}},
		}},
	}}
	return ms
}

// complete waits until all is as declared. It watches: to ask often would slow down what is measured.
func (b *bench) complete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, rolloutLimit)
	defer cancel()
	for {
		last, err := b.Serving(ctx, name)
		if err != nil {
			return err
		}
		done, err := b.follow(ctx, last, cluster.Complete)
		if done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("modelserving %s is at %s: %w", name, summary(last), err)
		}
	}
}

// follow reports whether the ModelServing is as wanted, now or at any time until its watch ends.
func (b *bench) follow(ctx context.Context, ms *v1alpha1.ModelServing, wanted func(*v1alpha1.ModelServing) bool) (bool, error) {
	if wanted(ms) {
		return true, nil
	}
	source, err := b.Objects.Watch(ctx, &v1alpha1.ModelServingList{}, client.InNamespace(ms.Namespace),
		client.MatchingFields{metav1.ObjectNameField: ms.Name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: ms.ResourceVersion}})
	if err != nil {
		return false, fmt.Errorf("watch modelserving %s: %w", ms.Name, err)
	}
	defer source.Stop()
	for event := range source.ResultChan() {
		if now, ok := event.Object.(*v1alpha1.ModelServing); ok && wanted(now) {
			return true, nil
		}
	}
	return false, nil
}

func summary(ms *v1alpha1.ModelServing) string {
	var said []string
	for _, c := range ms.Status.Conditions {
		said = append(said, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	s := ms.Status
	return fmt.Sprintf("%d live, %d available, %d updated; %s", s.Replicas, s.AvailableReplicas, s.UpdatedReplicas, strings.Join(said, "; "))
}
