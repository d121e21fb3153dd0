//go:build lab

package rollout

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/engine/server"
	"pitstop.dev/test/images"
)

var soak = flag.Bool("soak", false, "disturb with every victim at every stage")

// slow are the knobs of engines whose stages last long enough to be met.
func slow() map[string]string {
	return map[string]string{server.EnvShutdown: "1s", server.EnvLoad: "2s"}
}

// pullRate makes the pull of 2 MiB by two nodes take four seconds.
const pullRate = 1 << 20

// A disturbance is a play of four groups, rolled out again and again with something killed in it.
type disturbance struct {
	*play
	image    string           // of the rollout at hand
	was      map[string]int32 // restarts before it
	rollouts int32
}

// slowImage is a new engine that takes its time to be pulled.
func (d *disturbance) slowImage() string {
	d.t.Helper()
	tag := fmt.Sprintf("disturbed-%d-%s", d.rollouts, rand.String(6))
	img, err := d.Builder.Engine(d.t.Context(), tag, slow())
	d.must(err)
	img, err = images.Padded(img, 1, 2, rand.Int63nRange(1, 1<<40))
	d.must(err)
	ref, err := d.PushAs(d.t.Context(), "engine:"+tag, img)
	d.must(err)
	return ref
}

// A moment is a stage of a unit; found by a Pod of the unit that is there.
type moment struct {
	name string
	is   func(d *disturbance, pod *corev1.Pod, u *v1alpha1.InPlaceUpdate) bool
}

func moments() []moment {
	return []moment{
		{"Preparing", func(_ *disturbance, _ *corev1.Pod, u *v1alpha1.InPlaceUpdate) bool {
			return u.Spec.Permit == v1alpha1.PermitPrepare && !at(u, v1alpha1.StagePrepared) && !at(u, v1alpha1.StageRefused)
		}},
		{"Draining", func(_ *disturbance, pod *corev1.Pod, u *v1alpha1.InPlaceUpdate) bool {
			return u.Spec.Permit == v1alpha1.PermitDrain && len(readiness.Holds(pod)) > 0 && !at(u, v1alpha1.StageDrained)
		}},
		{"Drained", func(_ *disturbance, _ *corev1.Pod, u *v1alpha1.InPlaceUpdate) bool {
			return u.Spec.Permit == v1alpha1.PermitDrain && at(u, v1alpha1.StageDrained)
		}},
		{"Swapping", func(d *disturbance, pod *corev1.Pod, _ *v1alpha1.InPlaceUpdate) bool {
			return pod.Spec.Containers[0].Image == d.image && pod.Status.ContainerStatuses[0].RestartCount == d.was[pod.Name]
		}},
		{"Proved", func(d *disturbance, pod *corev1.Pod, _ *v1alpha1.InPlaceUpdate) bool {
			c := pod.Status.ContainerStatuses[0]
			return pod.Spec.Containers[0].Image == d.image && c.RestartCount > d.was[pod.Name] && c.State.Running != nil && !c.Ready
		}},
	}
}

// meets waits for a unit at the moment that is none of those that were disturbed before.
func (d *disturbance) meets(m moment, before []string) (pod *corev1.Pod) {
	d.t.Helper()
	d.until("a unit at stage "+m.name, func() bool {
		orders := d.orders()
		for _, p := range d.pods() {
			u := orders[p.Name]
			if u != nil && !slices.Contains(before, p.Labels[v1alpha1.LabelServingGroup]) && m.is(d, &p, u) {
				pod = &p
				return true
			}
		}
		return false
	})
	return pod
}

// rolls brings a new image to all units, and kills each victim once, at the stage that shift gives it.
func (d *disturbance) rolls(shift int, killed []victim) {
	d.t.Helper()
	d.rollouts++
	d.image, d.was = d.slowImage(), d.restarts()
	d.edits(image(d.image))
	var disturbed []string
	begun := time.Now()
	for i, m := range moments() {
		v := killed[(i+shift)%len(killed)]
		pod := d.meets(m, disturbed)
		unit := pod.Labels[v1alpha1.LabelServingGroup]
		if err := v.kill(d.t.Context(), pod); err != nil {
			d.t.Fatalf("kill the %s while %s is at %s: %v", v.name, unit, m.name, err)
		}
		d.t.Logf("%5.1f s: %-11s killed while %s was at %-9s (%s on %s)", time.Since(begun).Seconds(), v.name, unit, m.name, pod.Name, pod.Spec.NodeName)
		if v.name == "containerd" && pod.Spec.Containers[0].Image == d.image {
			d.spare(unit, pod.Spec.NodeName)
		}
		if i > 0 { // images are brought to several units at a time, before any of them is touched
			disturbed = append(disturbed, unit)
		}
	}
	d.waits(cluster.Complete)
	d.t.Logf("%5.1f s: complete", time.Since(begun).Seconds())
}

// spare allows one more restart to the Pods of a unit whose new containers containerd may have been
// starting when it was killed: kubelet makes another in the place of one that never ran.
func (d *disturbance) spare(unit, node string) {
	d.t.Helper()
	for _, pod := range d.pods() {
		if pod.Labels[v1alpha1.LabelServingGroup] == unit && pod.Spec.NodeName == node {
			d.rules.Spare[pod.Name]++
		}
	}
}

// Each rollout kills the coordinator, an agent, kubelet, containerd and the router, each at another stage
// of another unit, under streaming load. With -soak there is a rollout for each way to pair them.
//
// It is no parallel test: whatever else is on the nodes would be disturbed too.
func TestWhateverIsKilledInARollout(t *testing.T) {
	strategy := routed()
	strategy.InPlace.PropagationSeconds = new(int32(2)) // kube-proxy follows within a second
	old, err := shared.Engine(t.Context(), "disturbed", slow())
	if err != nil {
		t.Fatal(err)
	}
	rules := planned()
	rules.Flaps, rules.Spare = true, map[string]int32{}
	p := newPlayWith(t, cluster.ServingSpec{
		Name: "killed", Replicas: 4, Workers: 1, Prefill: old, Decode: old, Strategy: strategy,
	}.Serving(), rules)
	d := &disturbance{play: p}
	before, router := p.kept(), p.router()
	p.throttle(pullRate)
	url := p.exposed()
	shifts := []int{0, 2}
	if *soak {
		shifts = []int{0, 1, 2, 3, 4}
	}
	for _, shift := range shifts {
		done := p.clients(url, 2*time.Second)
		d.rolls(shift, victims(router))
		done()
		p.settled()
		p.reports()
		want(t, "Pods", before, p.kept())
		want(t, "images", map[string]int{d.image: 12}, p.images("0", "1", "2", "3"))
		for name, n := range p.restarts() {
			if n < d.rollouts || n > d.rollouts+p.rules.Spare[name] {
				t.Errorf("%s: %d restarts for %d images, %d to spare", name, n, d.rollouts, p.rules.Spare[name])
			}
		}
		replaceKilled(t)
		if t.Failed() {
			return
		}
	}
}

// throttle limits the registry until the end of the test.
func (p *play) throttle(bytesPerSecond int64) {
	p.t.Helper()
	p.must(p.Registry().Throttle(p.t.Context(), bytesPerSecond))
	p.t.Cleanup(func() {
		if err := p.Registry().Throttle(context.Background(), 0); err != nil {
			p.t.Error(err)
		}
	})
}

// exposed is the URL of a Service before the entry Pods of the first role.
func (p *play) exposed() string {
	p.t.Helper()
	url, err := p.Expose(p.t.Context(), p.name, map[string]string{
		v1alpha1.LabelModelServing: p.name, v1alpha1.LabelRole: "prefill", v1alpha1.LabelIndex: "0",
	})
	p.must(err)
	p.t.Cleanup(func() {
		if err := p.Unexpose(context.Background(), p.name); err != nil {
			p.t.Error(err)
		}
	})
	if !strings.HasPrefix(url, "http://198.18.") {
		p.t.Fatalf("the Service is at %s", url)
	}
	return url
}
