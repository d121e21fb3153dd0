package show

import (
	"context"
	"fmt"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/engine/load"
)

// settle is how long the load goes on before and after a scene's change.
const settle = 1500 * time.Millisecond

func (s *show) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.clock.After(settle):
	}
}

// inPlace updates both engines, one after the other, under load.
func (s *show) inPlace(ctx context.Context) error {
	s.title(fmt.Sprintf("in place: v1 -> v2, one engine after the other, %d clients streaming", clients))
	traffic, err := s.traffic(ctx, "inplace")
	if err != nil {
		return err
	}
	defer traffic.Stop()
	s.pause(ctx)
	var rows []row
	for _, name := range pair("inplace") {
		before, err := s.portray(ctx, name)
		if err != nil {
			return err
		}
		order, err := s.update(ctx, name, s.v2)
		if err != nil {
			return err
		}
		after, err := s.portray(ctx, name)
		if err != nil {
			return err
		}
		rows = append(rows, row{name: name, before: before, after: after, order: order})
	}
	s.pause(ctx)
	report := traffic.Stop()
	s.table(rows, report)
	for _, r := range rows {
		s.checkKept(r)
	}
	s.checkLoad("the in-place update", report)
	return nil
}

// update gives the order and shows each stage as it is reached.
func (s *show) update(ctx context.Context, name, image string) (*v1alpha1.InPlaceUpdate, error) {
	pod, err := s.Pod(ctx, name)
	if err != nil {
		return nil, err
	}
	if _, err := s.Give(ctx, cluster.Order(pod, map[string]string{"engine": image})); err != nil {
		return nil, err
	}
	begun := s.clock.Now()
	var shown v1alpha1.Stage
	return s.WaitUpdate(ctx, name, func(u *v1alpha1.InPlaceUpdate) bool {
		if u.Status.Attempt != u.Spec.Attempt {
			return false
		}
		if u.Status.Stage != shown {
			shown = u.Status.Stage
			s.say("  %-10s %-10s after %5.2f s %s %s", name, shown, s.clock.Since(begun).Seconds(), u.Status.Reason, u.Status.Message)
		}
		return shown.Ended() || shown == v1alpha1.StageFailed
	})
}

func (s *show) checkKept(r row) {
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
	if a.image == b.image || a.imageID == b.imageID || a.version != "v2" {
		s.broke("%s runs image %s (%s) and serves %s, want v2", r.name, a.image, a.imageID, a.version)
	}
}

func (s *show) checkLoad(what string, r load.Report) {
	if r.FailedTotal() > 0 || r.OK == 0 {
		s.broke("%d requests failed during %s: %s", r.FailedTotal(), what, r)
	}
}

// wrongTag orders an image that is not there: the engine goes on as it is.
func (s *show) wrongTag(ctx context.Context) error {
	s.title("a wrong tag: the engine is not touched")
	traffic, err := s.traffic(ctx, "inplace")
	if err != nil {
		return err
	}
	defer traffic.Stop()
	s.pause(ctx)
	name := pair("inplace")[0]
	before, err := s.portray(ctx, name)
	if err != nil {
		return err
	}
	order, err := s.update(ctx, name, s.v2+"-does-not-exist")
	if err != nil {
		return err
	}
	after, err := s.portray(ctx, name)
	if err != nil {
		return err
	}
	s.pause(ctx)
	report := traffic.Stop()
	s.say("  container before %s, after %s", short(before.container), short(after.container))
	s.say("  requests: %s", report)
	if order.Status.Stage != v1alpha1.StageRefused || order.Status.Reason != v1alpha1.RefusedNotFound {
		s.broke("the wrong tag ended %s (%s), want Refused (ImageNotFound)", order.Status.Stage, order.Status.Reason)
	}
	s.same("the container, at a wrong tag,", before.container, after.container)
	s.checkLoad("the wrong tag", report)
	return nil
}

// recreate makes the same change the usual way, for comparison: each Pod is deleted and made anew.
func (s *show) recreate(ctx context.Context) error {
	s.title("for comparison: the same change by delete and recreate")
	traffic, err := s.traffic(ctx, "recreate")
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
	return nil
}
