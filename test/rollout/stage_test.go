//go:build lab

package rollout

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/engine/load"
	"pitstop.dev/test/rollout/record"
)

// planned are the rules where no container ends by itself.
func planned() record.Rules { return record.Rules{MaxUnavailable: 1, Whole: true, Planned: true} }

// fresh is an image of the engine as it is in this tree, that no node has.
func fresh(t *testing.T, name string) string {
	t.Helper()
	ref, err := shared.Engine(t.Context(), name+"-"+rand.String(6), nil)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// orders are the InPlaceUpdates of the ModelServing's Pods, by name.
func (p *play) orders() map[string]*v1alpha1.InPlaceUpdate {
	p.t.Helper()
	var list v1alpha1.InPlaceUpdateList
	err := p.Objects.List(p.t.Context(), &list, client.InNamespace(cluster.Namespace), client.MatchingLabels{v1alpha1.LabelModelServing: p.name})
	if err != nil {
		p.t.Fatal(err)
	}
	out := map[string]*v1alpha1.InPlaceUpdate{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// at reports whether the present attempt for the Pod is at the stage.
func at(u *v1alpha1.InPlaceUpdate, stage v1alpha1.Stage) bool {
	return u != nil && u.Status.Attempt == u.Spec.Attempt && u.Status.Stage == stage
}

// until waits for what is named.
func (p *play) until(what string, reached func() bool) {
	p.t.Helper()
	deadline := time.After(2 * time.Minute)
	for !reached() {
		select {
		case <-deadline:
			ms, err := p.Serving(p.t.Context(), p.name)
			p.t.Fatalf("%s: not within two minutes; the ModelServing is at %+v, %v", what, ms, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// settled checks that nothing of an update is left on any Pod.
func (p *play) settled() {
	p.t.Helper()
	for _, pod := range p.pods() {
		marks := []string{pod.Annotations[v1alpha1.Draining], pod.Annotations[v1alpha1.Drained]}
		if holds := readiness.Holds(&pod); len(holds) > 0 || marks[0]+marks[1] != "" || !readiness.Ready(&pod) {
			p.t.Errorf("%s: holds %v, marks %q, Ready %t", pod.Name, holds, marks, readiness.Ready(&pod))
		}
	}
}

// reports checks what the agents say of the last update: each container was restarted once for it, and
// otherwise only by the test itself.
func (p *play) reports() {
	p.t.Helper()
	for name, u := range p.orders() {
		for _, c := range u.Status.Containers {
			if spare := p.rules.Spare[name]; c.Planned != 1 || c.Crashes > spare || c.Peer != 0 {
				p.t.Errorf("%s: %d restarts planned, %d crashes, %d as a peer; want 1, %d, 0", name, c.Planned, c.Crashes, c.Peer, spare)
			}
		}
	}
}

// pod reads one of the ModelServing's Pods.
func (p *play) pod(group int32, role string, index int32) *corev1.Pod {
	p.t.Helper()
	pod, err := p.Pod(p.t.Context(), v1alpha1.PodName(v1alpha1.ServingGroupName(p.name, group), role, 0, index))
	if err != nil {
		p.t.Fatal(err)
	}
	return pod
}

// stream keeps an engine busy until the returned function is called, or the engine goes.
func stream(t *testing.T, url string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan error, 2)
	var wg sync.WaitGroup
	wg.Go(func() { begun <- endless(ctx, url, begun) })
	end = func() { cancel(); wg.Wait() }
	t.Cleanup(end)
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	return end
}

// endless reads a stream of minutes, and says on begun that it has begun.
func endless(ctx context.Context, url string, begun chan<- error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/completions?duration=5m&chunks=600", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read as far as it goes
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the stream is answered %s", resp.Status)
	}
	begun <- nil
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func engineOf(pod *corev1.Pod) string { return "http://" + pod.Status.PodIP + ":8000" }

// clients stream through the URL until the returned function is called, which wants that no request
// failed.
func (p *play) clients(url string, stream time.Duration) (done func()) {
	p.t.Helper()
	l, err := load.Start(context.WithoutCancel(p.t.Context()), load.Config{URL: url, Clients: 4, Duration: stream}, clock.RealClock{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { l.Stop() })
	return func() {
		p.t.Helper()
		report := l.Stop()
		p.t.Logf("requests: %s, versions %v", report, report.Versions)
		if report.FailedTotal() > 0 || report.OK == 0 {
			p.t.Errorf("requests failed: %s; the first: %+v", report, report.Failures)
		}
	}
}
