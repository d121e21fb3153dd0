//go:build lab

package rollout

import (
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/cluster"
)

func TestScaleAndPartitionDuringARolloutInPlace(t *testing.T) {
	t.Parallel()
	strategy := inPlace()
	strategy.RollingUpdateConfiguration.Partition = new(intstr.FromInt32(2))
	p := newPlay(t, "midway", strategy, planned())
	begun := func() {
		p.waits(func(ms *v1alpha1.ModelServing) bool {
			return ms.Status.ObservedGeneration == ms.Generation && len(ms.Status.Updating) > 0
		})
	}
	before := p.kept()
	p.edits(image(img.v2))
	begun()
	p.edits(func(s *v1alpha1.ModelServingSpec) {
		s.Replicas, s.RolloutStrategy.RollingUpdateConfiguration.Partition = new(int32(5)), new(intstr.FromInt32(1))
	})
	p.waits(func(ms *v1alpha1.ModelServing) bool {
		s := ms.Status
		return s.ObservedGeneration == ms.Generation && s.UpdatedReplicas == 4 && s.AvailableReplicas == 5 && len(s.Updating) == 0
	})
	want(t, "protected images", map[string]int{img.v1: 3}, p.images("0"))
	want(t, "updated images", map[string]int{img.v2: 12}, p.images("1", "2", "3", "4"))
	grown := p.kept()
	maps.DeleteFunc(grown, func(name, _ string) bool { return strings.HasPrefix(name, "midway-4-") })
	want(t, "Pods", before, grown)

	p.edits(func(s *v1alpha1.ModelServingSpec) {
		image(img.v3)(s)
		s.RolloutStrategy.RollingUpdateConfiguration.Partition = new(intstr.FromInt32(0))
	})
	begun()
	grown = p.kept()
	p.rolls(func(s *v1alpha1.ModelServingSpec) { s.Replicas = new(int32(3)) })
	p.settled()
	shrunk := p.kept()
	if len(shrunk) != 9 {
		t.Errorf("%d Pods, want 9", len(shrunk))
	}
	maps.DeleteFunc(grown, func(name, _ string) bool { return shrunk[name] == "" })
	want(t, "Pods that are left", grown, shrunk)
	want(t, "images", map[string]int{img.v3: 9}, p.images("0", "1", "2", "3", "4"))
}

// One unit waits for the end of a stream, with the other Pods of it drained, and one is prepared. Then their new
// image is collected on both nodes.
func TestTheImageIsCollectedBeforeTheSwap(t *testing.T) {
	t.Parallel()
	strategy := inPlace()
	strategy.Drain = v1alpha1.Drain{Mode: v1alpha1.DrainEngineMetrics, TimeoutSeconds: new(int32(150))}
	p := newPlayWith(t, cluster.ServingSpec{
		Name: "collected", Replicas: 2, Workers: 1, Prefill: img.v1, Decode: img.v1, Strategy: strategy,
	}.Serving(), planned())
	before, next := p.kept(), fresh(t, p.name)
	ends := []func(){stream(t, engineOf(p.pod(0, "prefill", 0))), stream(t, engineOf(p.pod(1, "prefill", 0)))}
	p.edits(image(next))
	p.until("one unit is drained but for a Pod, and the other is prepared", func() bool {
		stages := map[v1alpha1.Stage]int{}
		for _, u := range p.orders() {
			for _, stage := range []v1alpha1.Stage{v1alpha1.StagePrepared, v1alpha1.StageDrained} {
				if at(u, stage) {
					stages[stage]++
				}
			}
		}
		return stages[v1alpha1.StageDrained] == 2 && stages[v1alpha1.StagePrepared] >= 3 // the Pod that drains says so later
	})
	p.collect(next)
	for _, end := range ends {
		end()
	}
	p.waits(cluster.Complete)
	p.settled()
	p.reports()
	want(t, "images", map[string]int{next: 6}, p.images("0", "1"))
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnce(), p.restarts())
	p.noPulls(next)
}

// collect removes an image from all nodes, as kubelet's collector does.
func (p *play) collect(image string) {
	p.t.Helper()
	for _, node := range p.Nodes() {
		rt, err := p.Runtime(node.Name)
		p.must(err)
		p.must(rt.RemoveImage(p.t.Context(), image))
		p.must(rt.Close())
	}
}

// noPulls wants that kubelet found the image whenever it started a container with it.
func (p *play) noPulls(image string) {
	p.t.Helper()
	events, err := p.Core.CoreV1().Events(cluster.Namespace).List(p.t.Context(), metav1.ListOptions{})
	p.must(err)
	present := 0
	for _, e := range events.Items {
		if e.InvolvedObject.Kind != "Pod" || !strings.Contains(e.Message, image) {
			continue
		}
		switch e.Reason {
		case "Pulling":
			p.t.Errorf("kubelet fetches: %s: %s", e.InvolvedObject.Name, e.Message)
		case "Pulled":
			present++
		}
	}
	if present == 0 {
		p.t.Error("no event says that the image was there")
	}
}
