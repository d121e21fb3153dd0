//go:build lab

package rollout

import (
	"strings"
	"testing"
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/cluster"
)

// routed is a strategy whose drains a router answers.
func routed() v1alpha1.RolloutStrategy {
	s := inPlace()
	s.Drain = v1alpha1.Drain{Mode: v1alpha1.DrainRouter, TimeoutSeconds: new(int32(150))}
	s.InPlace.PropagationSeconds = new(int32(1))
	return s
}

// router starts the reference router before the play's engines.
func (p *play) router() *cluster.Router {
	p.t.Helper()
	r, err := p.NewRouter(p.t.Context(), p.t.TempDir(), v1alpha1.LabelModelServing+"="+p.name)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(r.Close)
	p.must(r.Start(p.t.Context()))
	return r
}

func (p *play) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// waitsFor reports whether an agent says so of a Pod. Whichever unit is prepared first is drained first.
func (p *play) waitsFor(text string) bool {
	for _, u := range p.orders() {
		if strings.Contains(u.Status.Message, text) {
			return true
		}
	}
	return false
}

func TestARouterDrainsTheUnits(t *testing.T) {
	t.Parallel()
	p := newPlayWith(t, cluster.ServingSpec{
		Name: "routed", Replicas: 2, Workers: 1, Prefill: img.v1, Decode: img.v1, Strategy: routed(),
	}.Serving(), planned())
	r, before := p.router(), p.kept()

	done := p.clients(r.URL, time.Second)
	p.rolls(image(img.v2))
	done()
	p.settled()
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnce(), p.restarts())

	// Each of the four engines gets one of four streams, and no drain ends before them.
	for range 4 {
		defer stream(t, r.URL)()
	}
	p.edits(image(img.v3))
	p.until("the router is waited for", func() bool {
		return p.waitsFor("the router has not answered; 1 requests running")
	})
	p.must(r.Kill(t.Context())) // and its streams with it
	p.until("the router alone is waited for", func() bool {
		return p.waitsFor("the router has not answered; 0 requests running")
	})
	p.must(r.Start(t.Context()))
	done = p.clients(r.URL, time.Second)
	p.waits(cluster.Complete)
	done()
	p.settled()
	p.reports()
	for name, u := range p.orders() {
		if u.Status.RequestsCut != nil {
			t.Errorf("%s: the drain ended with %d requests", name, *u.Status.RequestsCut)
		}
	}
	want(t, "Pods", before, p.kept())
	want(t, "images", map[string]int{img.v3: 6}, p.images("0", "1"))
}

func TestAStreamOutlastsTheDrain(t *testing.T) {
	t.Parallel()
	strategy := inPlace()
	strategy.Drain = v1alpha1.Drain{Mode: v1alpha1.DrainEngineMetrics, TimeoutSeconds: new(int32(4))}
	p := newPlayWith(t, cluster.ServingSpec{
		Name: "outlast", Replicas: 2, Workers: 1, Prefill: img.v1, Decode: img.v1, Strategy: strategy,
	}.Serving(), planned())
	before := p.kept()
	defer stream(t, engineOf(p.pod(1, "prefill", 0)))()
	p.rolls(image(img.v2))
	p.settled()
	p.reports()
	cut := map[string]int64{}
	for name, u := range p.orders() {
		if u.Status.RequestsCut != nil {
			cut[name] = *u.Status.RequestsCut
		}
	}
	want(t, "requests cut", map[string]int64{"outlast-1-prefill-0-0": 1}, cut)
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnce(), p.restarts())
}
