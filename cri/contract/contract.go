// Package contract is the one test that every runtime must pass with package cri: the fake
// one, and the real one of the lab.
package contract

import (
	"errors"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"pitstop.dev/cri"
)

// A Subject is a runtime under test with the registry that it pulls from. The suite owns it
// until the test ends.
type Subject interface {
	// Endpoint returns where the runtime listens.
	Endpoint() string
	// Config returns the client's configuration, with the host's file system visible.
	Config() cri.Config
	// Publish puts an image at the registry and returns its reference.
	Publish(t *testing.T, i Image) string
	// RegistryDown makes the registry refuse connections until RegistryUp.
	RegistryDown(t *testing.T)
	// RegistryUp ends RegistryDown.
	RegistryUp(t *testing.T)
	// FirstProcess returns the PID of a running container's first process, found without the runtime.
	FirstProcess(t *testing.T, id string) int32
	// Down ends the runtime's process, and Up starts it again. Containers live on.
	Down(t *testing.T)
	// Up ends Down.
	Up(t *testing.T)
}

// A Platform says for which machines an image is.
type Platform string

// Platforms of a published image.
const (
	Here    Platform = ""        // this machine
	Foreign Platform = "Foreign" // a single manifest for linux/s390x, which runtimes accept
	Nowhere Platform = "Nowhere" // an index that has linux/s390x only
)

// An Image is what a test wants at the registry: a program that sleeps until its stop signal
// and then exits with 0.
type Image struct {
	// Name is repository and tag, without the registry's address.
	Name string
	// Content tells images apart: equal content is an equal image, whatever the name.
	Content string
	// Platform is Here unless set.
	Platform Platform
	// Private images need credentials.
	Private bool
	// Stubborn programs ignore their stop signal.
	Stubborn bool
}

// limit bounds whatever a test waits for.
const limit = 20 * time.Second

// Run tries the runtime that start makes, once for each case.
func Run(t *testing.T, start func(t *testing.T) Subject) {
	t.Helper()
	for name, test := range map[string]func(*bench){
		"an image is pulled and proved":                    pulled,
		"a tag that is not there":                          notThere,
		"an index without this platform":                   nowhere,
		"a manifest of another platform":                   foreign,
		"a registry that is down, then up":                 registryDown,
		"a private image":                                  private,
		"two tags of one image have one id":                alias,
		"a removed image is gone under every name":         removed,
		"a pull ends with its context":                     pullCancelled,
		"the containers of a Pod":                          containers,
		"a Pod that the runtime does not know":             unknownPod,
		"the first process of a container":                 firstProcess,
		"a stop is idempotent":                             stopTwice,
		"a stubborn container is killed when grace ends":   stubborn,
		"a stop that is given up kills nothing":            stopGivenUp,
		"a change is fed before the next relist":           fed,
		"calls say that the runtime is down, and it heals": restart,
		"the image file system":                            space,
	} {
		t.Run(name, func(t *testing.T) { test(newBench(t, start(t))) })
	}
}

// A bench is what every case works with.
type bench struct {
	Subject
	t       *testing.T
	clock   clock.Clock
	client  *cri.Client
	kubelet *kubelet
}

func newBench(t *testing.T, s Subject) *bench {
	t.Helper()
	client, err := cri.Dial(s.Endpoint(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{Subject: s, t: t, clock: clock.RealClock{}, client: client, kubelet: newKubelet(t, s.Endpoint())}
}

// pull publishes an image and brings it to the node.
func (b *bench) pull(i Image) (ref string, image cri.Image) {
	t := b.t
	t.Helper()
	ref = b.Publish(t, i)
	if err := b.client.Pull(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
	image, err := b.client.Image(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return ref, image
}

// app returns the newest record of the container app.
func (b *bench) app(p pod) cri.Container {
	b.t.Helper()
	got, err := b.client.Pod(b.t.Context(), p.uid)
	if err != nil {
		b.t.Fatal(err)
	}
	c, ok := got.Newest("app")
	if !ok {
		b.t.Fatalf("pod %s has no container app: %+v", p.uid, got)
	}
	return c
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}
