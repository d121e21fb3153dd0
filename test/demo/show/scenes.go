package show

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/engine/load"
)

// settle is how long the load goes on before and after a change: every client has a stream of a second under way.
const settle = time.Second

func (s *show) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.clock.After(settle):
	}
}

// front selects the Pods of the ModelServing that requests enter through.
func front() map[string]string {
	return map[string]string{v1alpha1.LabelModelServing: serving, v1alpha1.LabelRole: "prefill", v1alpha1.LabelIndex: "0"}
}

// inPlace brings the ModelServing to v2 under load.
func (s *show) inPlace(ctx context.Context) error {
	s.title(fmt.Sprintf("in place: v1 -> v2, one group after the other, %d clients streaming", clients))
	traffic, err := s.traffic(ctx, serving, front())
	if err != nil {
		return err
	}
	defer traffic.Stop()
	s.pause(ctx)
	if err := s.rollOut(ctx, s.v2, "v2"); err != nil {
		return err
	}
	s.pause(ctx)
	report := traffic.Stop()
	s.say("  requests: %d sent, %d failed  (%s)", report.Sent, report.FailedTotal(), report)
	s.checkLoad("the in-place update", report)
	return nil
}

// rollOut changes the image of all roles, and compares each Pod before and after.
func (s *show) rollOut(ctx context.Context, image, version string) error {
	before, err := s.portraits(ctx)
	if err != nil {
		return err
	}
	if err := s.declare(ctx, image); err != nil {
		return err
	}
	if err := s.follow(ctx); err != nil {
		return err
	}
	after, err := s.portraits(ctx)
	if err != nil {
		return err
	}
	rows := make([]row, 0, len(before))
	for _, name := range slices.Sorted(maps.Keys(before)) {
		order, err := s.Update(ctx, name)
		if err != nil {
			return err
		}
		rows = append(rows, row{name: name, before: before[name], after: after[name], order: order})
		s.checkKept(rows[len(rows)-1], version)
		s.checkGPUs(rows[len(rows)-1])
	}
	s.table(rows)
	s.gpuTable(rows)
	return s.get(ctx)
}

// declare sets the image of all roles.
func (s *show) declare(ctx context.Context, image string) error {
	return s.Edit(ctx, serving, func(spec *v1alpha1.ModelServingSpec) {
		for i := range spec.Template.Roles {
			r := &spec.Template.Roles[i]
			r.EntryTemplate.Spec.Containers[0].Image = image
			if r.WorkerTemplate != nil {
				r.WorkerTemplate.Spec.Containers[0].Image = image
			}
		}
	})
}

// follow shows the stages of the groups until all is as declared, and the tree once in the middle.
func (s *show) follow(ctx context.Context) error {
	begun, shown := s.clock.Now(), map[string]string{}
	var middle error
	_, err := s.WaitServing(ctx, serving, func(ms *v1alpha1.ModelServing) bool {
		var groups v1alpha1.ServingGroupList
		if err := s.Objects.List(ctx, &groups, client.InNamespace(cluster.Namespace), client.MatchingLabels{v1alpha1.LabelModelServing: serving}); err != nil {
			return false
		}
		for _, g := range groups.Items {
			stage := ""
			for _, u := range g.Status.Updates {
				stage = string(u.Stage)
			}
			if stage == "" || stage == shown[g.Name] {
				continue
			}
			shown[g.Name] = stage
			s.say("  %-10s %-10s after %5.2f s", g.Name, stage, s.clock.Since(begun).Seconds())
			if stage == string(v1alpha1.UnitDraining) && ms.Status.UpdatedReplicas == 1 {
				middle = s.get(ctx)
			}
		}
		return cluster.Complete(ms)
	})
	return errors.Join(err, middle)
}

// portraits are those of all Pods of the ModelServing, by name.
func (s *show) portraits(ctx context.Context) (map[string]portrait, error) {
	pods, err := s.ServingPods(ctx, serving)
	if err != nil {
		return nil, err
	}
	out := make(map[string]portrait, len(pods))
	for _, pod := range pods {
		if out[pod.Name], err = s.portray(ctx, pod.Name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *show) checkKept(r row, version string) {
	b, a := r.before, r.after
	if r.order.Status.Stage != v1alpha1.StageInService {
		s.broke("%s ended %s (%s)", r.name, r.order.Status.Stage, r.order.Status.Reason)
	}
	s.same(r.name+": UID", b.uid, a.uid)
	s.same(r.name+": IP", b.ip, a.ip)
	s.same(r.name+": node", b.node, a.node)
	s.same(r.name+": file in the emptyDir", b.file, a.file)
	if a.restarts != b.restarts+1 {
		s.broke("%s: %d restarts, want %d", r.name, a.restarts, b.restarts+1)
	}
	if a.image == b.image || a.imageID == b.imageID || a.version != version {
		s.broke("%s runs image %s (%s) and serves %s, want %s", r.name, a.image, a.imageID, a.version, version)
	}
}

func (s *show) checkLoad(what string, r load.Report) {
	if r.FailedTotal() > 0 || r.OK == 0 {
		s.broke("%d requests failed during %s: %s", r.FailedTotal(), what, r)
	}
}

// wrongTag declares an image that is not there: no engine is touched. Then it is mended.
func (s *show) wrongTag(ctx context.Context) error {
	s.title("a wrong tag: no container is touched; then the right one")
	traffic, err := s.traffic(ctx, serving, front())
	if err != nil {
		return err
	}
	defer traffic.Stop()
	s.pause(ctx)
	before, err := s.portraits(ctx)
	if err != nil {
		return err
	}
	if err := s.declare(ctx, s.v3+"-does-not-exist"); err != nil {
		return err
	}
	ms, err := s.WaitServing(ctx, serving, func(ms *v1alpha1.ModelServing) bool {
		c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionBlocked)
		return c != nil && c.Reason == string(v1alpha1.BlockedRefused)
	})
	if err != nil {
		return err
	}
	s.pause(ctx)
	after, err := s.portraits(ctx)
	if err != nil {
		return err
	}
	killed := 0
	for name, b := range before {
		if after[name].container != b.container {
			killed++
		}
	}
	report := traffic.Report()
	s.say("  Blocked: %s", meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionBlocked).Message)
	s.say("  %d containers killed; requests: %s", killed, report)
	if killed > 0 {
		s.broke("%d containers were killed for a wrong tag", killed)
	}
	s.checkLoad("the wrong tag", report)
	if err := errors.Join(s.get(ctx), s.verb(ctx, "explain", "ms/"+serving)); err != nil {
		return err
	}
	s.title("mended: v2 -> v3")
	if err := s.rollOut(ctx, s.v3, "v3"); err != nil {
		return err
	}
	s.pause(ctx)
	report = traffic.Stop()
	s.say("  requests since the wrong tag: %d sent, %d failed  (%s)", report.Sent, report.FailedTotal(), report)
	s.checkLoad("the mended update", report)
	return nil
}

// recreate makes the same change the usual way, for comparison: each Pod is deleted and made anew.
func (s *show) recreate(ctx context.Context) error {
	s.title("for comparison: the same change by delete and recreate")
	traffic, err := s.traffic(ctx, "recreate", map[string]string{"app": "recreate"})
	if err != nil {
		return err
	}
	defer traffic.Stop()
	s.pause(ctx)
	for i, name := range pair("recreate") {
		before, err := s.portray(ctx, name)
		if err != nil {
			return err
		}
		begun := s.clock.Now()
		if err := s.Replace(ctx, s.engine(name, s.Nodes()[i%2].Name, s.v2)); err != nil {
			return err
		}
		pod, err := s.WaitPod(ctx, name, readiness.Ready)
		if err != nil {
			return err
		}
		out := s.clock.Since(begun)
		after, err := s.portray(ctx, name)
		if err != nil {
			return err
		}
		s.say("  %-10s out of service %.2f s; UID kept: %t, IP kept: %t, emptyDir kept: %t", pod.Name, out.Seconds(),
			before.uid == after.uid, before.ip == after.ip, before.file == after.file)
		if after.uid == before.uid {
			s.broke("%s was not recreated", name)
		}
	}
	s.pause(ctx)
	s.say("  requests: %s", traffic.Stop())
	s.say("  It is out for less, as nothing is waited for: neither for requests that run nor for those that still come. They failed.")
	return nil
}
