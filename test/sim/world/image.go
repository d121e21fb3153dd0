package world

import (
	"fmt"
	"strings"
	"time"

	"pitstop.dev/agent"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

// Parts of image names that say what becomes of their containers.
const (
	imageGood    = "good"
	imageStuck   = "stuck" // runs and never gets ready
	imageCrash   = "crash"
	imageMissing = "missing" // the registry does not have it, for now
	imageForeign = "foreign" // for another platform
	imagePrivate = "private" // only kubelet can pull it, with credentials
	imageHidden  = "hidden"  // as well, and the registry does not have it, for now
	imageDenied  = "denied"  // nobody has the credentials
	// imageBorrowed is on every node, brought by others: kubelet starts it for none of our Pods, whose credentials are
	// not taken.
	imageBorrowed = "borrowed"
)

// newImage is an image that no Pod has had.
func (w *World) newImage(kind string) string {
	w.images++
	if w.pullSecrets && (kind == imageDenied || kind == imageForeign || kind == imageHidden) && w.images%4 != 0 {
		kind = imageBorrowed
	}
	return fmt.Sprintf("registry.example/%s:%d", kind, w.images)
}

func kindOfImage(image string) string {
	_, name, _ := strings.Cut(image, "/")
	kind, _, _ := strings.Cut(name, ":")
	return kind
}

// bad reports whether no container of the image ever gets ready, as things are.
func (w *World) bad(image string) bool {
	kind := kindOfImage(image)
	return kind == imageStuck || kind == imageCrash || !w.exists(image)
}

// exists reports whether nodes can have the image.
func (w *World) exists(image string) bool {
	kind := kindOfImage(image)
	return kind != imageForeign && kind != imageDenied && kind != imageBorrowed && (kind != imageMissing && kind != imageHidden || w.pushed[image])
}

// private reports whether the registry gives the image to nobody without credentials.
func private(image string) bool {
	kind := kindOfImage(image)
	return kind == imagePrivate || kind == imageHidden || kind == imageDenied || kind == imageBorrowed
}

// Borrowed reports whether kubelet does not start the image for any Pod of ours, though it is on all nodes.
func Borrowed(image string) bool { return kindOfImage(image) == imageBorrowed }

func imageID(image string) string { return "sha-" + image }

// hash stands for kubelet's, which tells images apart.
func hash(image string) string { return "hash-" + image }

// image is what a node has of an image.
func (n *node) image(name string) (agent.Proof, bool) {
	switch {
	case !n.images[name] && !Borrowed(name):
		return agent.Proof{}, false
	case kindOfImage(name) == imageForeign:
		return agent.Proof{State: agent.ProofRefused, Why: v1alpha1.RefusedPlatform, Message: "it is for another platform"}, true
	}
	return agent.Proof{State: agent.Proved, ID: imageID(name)}, true
}

// pull is the runtime's, for the agent.
func (w *World) pull(n *node, l *agent.Look) {
	ended := l.Pulls()
	if ended == nil {
		return
	}
	key, image := l.Key(), l.Step.Image
	long := 10 * time.Second
	if w.Chance(0.05) {
		long = 2 * time.Minute
	}
	w.After(w.Between(100*time.Millisecond, long), func() {
		err := w.pulled(n, image)
		ended(err)
		w.wakeAgent(key)
	})
}

func (w *World) pulled(n *node, image string) error {
	switch {
	case !n.up:
		return cri.ErrUnavailable
	case private(image):
		return cri.ErrUnauthorized
	case kindOfImage(image) == imageMissing && !w.pushed[image]:
		return cri.ErrImageNotFound
	case w.Chance(0.03):
		return cri.ErrRegistryUnreachable
	}
	n.images[image] = true
	return nil
}

// collectImages is kubelet's collector on one node: what no container runs goes.
func (w *World) collectImages() {
	n := pick(w.Loop, w.nodes...)
	used := map[string]bool{}
	for _, pod := range w.pods(n) {
		if e := w.engines[pod.UID]; e != nil && e.running() {
			used[e.image] = true
		}
	}
	for _, pod := range w.pins(n) {
		if runs(pod) {
			used[pinned(pod)] = true
		}
	}
	w.tell("world", "images are collected on %s", n.name)
	for image := range n.images {
		if !used[image] {
			delete(n.images, image)
		}
	}
}
