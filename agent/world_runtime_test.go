package agent

import (
	"slices"
	"time"

	"pitstop.dev/cri"
)

// An imageKind is what becomes of an image.
type imageKind struct {
	id       string
	err      error         // what a pull of it ends with
	foreign  bool          // for another platform
	crashes  int           // its first starts crash; negative: all of them
	load     time.Duration // until it is ready
	pullTime time.Duration
}

// registry is what the world's registry has.
func registry(image string) imageKind {
	switch image {
	case "v1":
		return imageKind{id: "sha-1", load: time.Second, pullTime: time.Second}
	case "v2":
		return imageKind{id: "sha-2", load: 3 * time.Second, pullTime: 10 * time.Second}
	case "v3":
		return imageKind{id: "sha-3", load: 20 * time.Second, pullTime: time.Second}
	case "v2alias":
		return imageKind{id: "sha-2", load: 3 * time.Second, pullTime: time.Second}
	case "crash1":
		return imageKind{id: "sha-c1", crashes: 1, load: time.Second, pullTime: time.Second}
	case "crash2":
		return imageKind{id: "sha-c2", crashes: 2, load: time.Second, pullTime: time.Second}
	case "crashes":
		return imageKind{id: "sha-cc", crashes: -1, pullTime: time.Second}
	case "arm":
		return imageKind{id: "sha-arm", foreign: true, pullTime: time.Second}
	case "secret":
		return imageKind{err: cri.ErrUnauthorized}
	}
	return imageKind{err: cri.ErrImageNotFound}
}

// run adds a container to the runtime.
func (w *world) run(p *simPod, name, image string, state cri.State) {
	restarts := 0
	if c := p.newest(name); c != nil {
		restarts = c.RestartCount + 1
	}
	c := cri.Container{
		ID: w.id("c"), Name: name, State: state, Hash: w.hash(name, image), RestartCount: restarts,
		ImageID: registry(image).id, CreatedAt: w.now,
	}
	if state == cri.Running {
		c.StartedAt = w.now
	}
	p.truth.Containers = append([]cri.Container{c}, p.truth.Containers...)
	w.agent.wake(p)
}

// begin starts a container that was made, with what its image will do.
func (w *world) begin(p *simPod, id, image string) {
	c := p.find(id)
	if c == nil || c.State != cri.Created {
		return
	}
	c.State, c.StartedAt = cri.Running, w.now
	key := c.Name + " " + image
	p.starts[key]++
	p.starve()
	w.agent.wake(p)
	w.kick(p)
	switch kind := registry(image); {
	case !w.claim(p, c):
		w.note(p, "%s finds no memory", id)
		w.after(w.jitter(3*time.Second), func() { w.exit(p, id) })
		p.backoff[key] = w.now.Add(10 * time.Second)
	case kind.foreign, kind.crashes < 0, p.starts[key] <= kind.crashes:
		w.after(w.jitter(3*time.Second), func() { w.exit(p, id) })
		p.backoff[key] = w.now.Add(min(5*time.Minute, 10*time.Second<<min(p.starts[key], 5)))
	default:
		w.after(kind.load+w.jitter(time.Second), func() {
			if c := p.find(id); c != nil && c.State == cri.Running {
				p.up[id] = true
				w.kick(p)
			}
		})
	}
}

// stop has a container end within d, sooner if a shorter stop comes later.
func (w *world) stop(p *simPod, id string, d time.Duration) {
	p.stopping[id] = true
	if p.undead {
		d = max(d, 3*time.Minute)
	}
	w.after(d, func() { w.exit(p, id) })
}

func (w *world) exit(p *simPod, id string) {
	c := p.find(id)
	if c == nil || c.State != cri.Running {
		return
	}
	c.State, c.FinishedAt, c.ExitCode = cri.Exited, w.now, 1
	p.ends[c.Name] = *c
	if w.rng.IntN(20) == 0 { // the runtime loses track of it
		c.State, c.FinishedAt, c.ExitCode = cri.Unknown, time.Time{}, 0
	}
	w.release(p, id)
	p.starve()
	delete(p.up, id)
	p.idle = w.now
	p.rules.exited(w, p, *c)
	w.agent.wake(p)
	if then := p.onExit[id]; then != nil {
		delete(p.onExit, id)
		then()
	}
	w.kick(p)
}

// bury removes the Pod's containers that do not run but the newest of each name, as kubelet's collector
// does once a minute. One that was just made and not yet started is the newest.
func (w *world) bury(p *simPod) {
	kept := map[string]bool{}
	p.truth.Containers = slices.DeleteFunc(p.truth.Containers, func(c cri.Container) bool {
		dead := c.State != cri.Running && kept[c.Name]
		kept[c.Name] = kept[c.Name] || c.State != cri.Running
		return dead
	})
	w.note(p, "its dead containers are collected")
	w.agent.wake(p)
}

// collect removes an image that no container runs, as kubelet's collector may.
func (w *world) collect(image string) {
	for _, p := range w.pods {
		for _, c := range p.truth.Containers {
			if c.State != cri.Exited && c.ImageID == registry(image).id {
				return
			}
		}
	}
	delete(w.images, image)
	w.note(nil, "image %s is collected", image)
}
