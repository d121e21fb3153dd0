package agent

import "time"

// The faults of the surroundings. Each ends by itself.

func (w *world) runtimeFails(d time.Duration) {
	w.runtimeUp = false
	w.unseen()
	w.after(d, func() {
		w.runtimeUp = true
		w.unseen()
		w.kickAll()
	})
}

func (w *world) kubeletRestarts(d time.Duration) {
	w.kubeletUp = false
	w.kubeletEpoch++
	w.unseen()
	for _, p := range w.pods {
		p.working, p.again = false, false
	}
	w.after(d, func() {
		w.kubeletUp, w.kubeletStarted = true, w.now
		w.unseen()
		w.kickAll()
	})
}

func (w *world) journalFails(d time.Duration) {
	w.journalUp = false
	w.forgetful()
	w.unseen()
	w.after(d, func() {
		w.journalUp = true
		w.unseen()
	})
}

func (w *world) registryFails(d time.Duration) {
	w.registryUp = false
	w.after(d, func() { w.registryUp = true })
}

func (w *world) kickAll() {
	for _, p := range w.pods {
		w.kick(p)
	}
}

// unseen has the agent look again at its open attempts after what no watch tells of: it relists
// once a second.
func (w *world) unseen() {
	w.after(w.jitter(time.Second), func() {
		for _, p := range w.pods {
			if w.agent.tracked(p) {
				w.agent.wake(p)
			}
		}
	})
}
