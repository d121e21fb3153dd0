package agent

import (
	"time"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

// The world's router speaks the protocol of docs/router.md. It remembers nothing that the Pod does not
// say; what the fields of simPod remember is for the rules.

// route is the router's look at a Pod that has changed.
func (w *world) route(p *simPod) {
	token := readiness.Announced(p.pod)
	if token != p.asked {
		p.asked, p.pending, p.answered = token, false, false
	}
	if token != "" && !p.pending && !readiness.Answered(p.pod, token) {
		p.pending = true
		w.after(w.jitter(5*time.Second), func() { w.answer(p, token) })
	}
}

// answer says that the router has no request left in the Pod, as soon as that is so.
func (w *world) answer(p *simPod, token string) {
	switch {
	case p.gone() || p.asked != token || !p.pending:
	case !w.routerUp, readiness.Ready(p.pod), w.now.Before(p.idle):
		w.after(latest(p.idle, w.now).Sub(w.now)+w.jitter(time.Second), func() { w.answer(p, token) })
	default:
		p.pending, p.answered = false, true
		w.mark(p, token)
	}
}

func (w *world) mark(p *simPod, token string) {
	pod := p.pod.DeepCopy()
	pod.Annotations[v1alpha1.Drained] = token
	w.note(p, "the router says drained %s", token)
	w.store(p, pod)
}

// lateAnswer is a router that answers what it was asked by the attempt before.
func (w *world) lateAnswer(p *simPod) {
	if !p.gone() && p.ipu != nil {
		w.mark(p, v1alpha1.Token(p.ipu.UID, p.ipu.Spec.Attempt-1))
	}
}

func (w *world) routerFails(d time.Duration) {
	w.routerUp = false
	w.after(d, func() { w.routerUp = true })
}

// scrape gives the agent what its scrapes of the Pod's engine have found by now.
func (a *simAgent) scrape(p *simPod, s *sight) {
	f := a.follows[p.name]
	if f.token == "" || f.token != s.token {
		delete(a.memory.drains.open, s.pod.UID)
		return
	}
	one := &draining{token: f.token, cancel: func() {}}
	switch idle := latest(p.idle, f.since); {
	case p.mute:
		one.err = readiness.ErrUnmeasured
	case a.w.now.Before(idle.Add(500 * time.Millisecond)):
		one.seen = one.seen.Next(a.w.now, readiness.Requests{Running: 1}, nil)
	default:
		one.seen = one.seen.Next(idle, readiness.Requests{}, nil).Next(a.w.now, readiness.Requests{}, nil)
	}
	a.memory.drains.open[s.pod.UID] = one
}
