//go:build lab

package rollout

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/engine/server"
)

// oneRole is a ModelServing of one group with one instance: an entry Pod and its workers.
func oneRole(name, image string, workers int32) *v1alpha1.ModelServing {
	ms := cluster.ServingSpec{Name: name, Replicas: 1, Workers: workers, Prefill: image, Strategy: inPlace()}.Serving()
	ms.Spec.Template.Roles = ms.Spec.Template.Roles[:1]
	return ms
}

// More Pods of one unit are on a node than its agent pulls for at a time: all of them have to be drained
// before the first is changed.
func TestFivePodsOfAUnitOnOneNode(t *testing.T) {
	t.Parallel()
	ms := oneRole("five", img.v1, 4)
	for _, pod := range templates(ms) {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: shared.Nodes()[1].Name}
	}
	p := newPlayWith(t, ms, planned())
	before, next := p.kept(), fresh(t, p.name)
	p.rolls(image(next))
	p.settled()
	p.reports()
	want(t, "images", map[string]int{next: 5}, p.images("0"))
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnce(), p.restarts())
}

func templates(ms *v1alpha1.ModelServing) []*corev1.PodTemplateSpec {
	var out []*corev1.PodTemplateSpec
	for i := range ms.Spec.Template.Roles {
		r := &ms.Spec.Template.Roles[i]
		out = append(out, &r.EntryTemplate)
		if r.WorkerTemplate != nil {
			out = append(out, r.WorkerTemplate)
		}
	}
	return out
}

// withEntry makes the worker one that looks for its entry by name.
func withEntry(ms *v1alpha1.ModelServing, env ...corev1.EnvVar) *v1alpha1.ModelServing {
	worker := &ms.Spec.Template.Roles[0].WorkerTemplate.Spec
	worker.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{cluster.NameServer}}
	worker.Containers[0].Env = append(worker.Containers[0].Env,
		append(env, corev1.EnvVar{Name: "PITSTOP_ENGINE_ENTRY", Value: fmt.Sprintf("http://$(%s):8000", v1alpha1.EnvEntryAddress)})...)
	return ms
}

// The name of an entry Pod that is held leads to it, so that its workers come up and the unit is whole.
func TestAWorkerNeedsItsHeldEntryToComeUp(t *testing.T) {
	t.Parallel()
	p := newPlayWith(t, withEntry(oneRole("needs", fresh(t, "needs"), 1)), planned())
	before, found := p.kept(), names.Found("needs-0-prefill-0-0.needs-0-prefill-0-0.default")
	if found == 0 {
		t.Error("the worker came up without its entry's name")
	}
	p.rolls(image(fresh(t, "needs")))
	if n := names.Found("needs-0-prefill-0-0.needs-0-prefill-0-0.default"); n == found {
		t.Error("the new worker came up without its entry's name")
	}
	p.settled()
	p.reports()
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnce(), p.restarts())
}

// Of the unit only the entry Pod's image changes. Its worker ends when it goes, and is started again by
// kubelet: that is no failure to recover from, and no restart that was planned.
func TestAPeerThatRestartsByItselfIsNotRecovered(t *testing.T) {
	t.Parallel()
	first := fresh(t, "peer")
	next, err := shared.Engine(t.Context(), "peer-loads-"+rand.String(6), map[string]string{server.EnvLoad: "4s"}) // meanwhile the worker ends
	if err != nil {
		t.Fatal(err)
	}
	p := newPlayWith(t, withEntry(oneRole("peer", first, 1), corev1.EnvVar{Name: "PITSTOP_ENGINE_FOLLOW", Value: "true"}), whole())
	before := p.kept()
	p.rolls(func(s *v1alpha1.ModelServingSpec) {
		s.Template.Roles[0].EntryTemplate.Spec.Containers[0].Image = next
	})
	p.settled()
	want(t, "Pods", before, p.kept())
	want(t, "images", map[string]int{first: 1, next: 1}, p.images("0"))
	want(t, "restarts", p.restartedOnce(), p.restarts())
	counts := map[string]string{}
	for name, u := range p.orders() {
		for _, c := range u.Status.Containers {
			counts[name] = fmt.Sprintf("%d planned, %d crashes, %d as a peer", c.Planned, c.Crashes, c.Peer)
		}
	}
	want(t, "counted", map[string]string{
		"peer-0-prefill-0-0": "1 planned, 0 crashes, 0 as a peer",
		"peer-0-prefill-0-1": "0 planned, 0 crashes, 1 as a peer",
	}, counts)
}

// names is the DNS of all plays.
var names *cluster.Names

func startNames(ctx context.Context) error {
	var err error
	names, err = shared.ServeNames(ctx)
	return err
}
