package agent

import (
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"pitstop.dev/agent/health"
	"pitstop.dev/agent/journal"
	"pitstop.dev/cri"
	"pitstop.dev/readiness"
)

// lockTimeout bounds one try to lock the journal. It is short: the agent works on meanwhile, and
// tries again.
const lockTimeout = 50 * time.Millisecond

// A Config says what one agent works on and with.
type Config struct {
	// NodeName is the node whose Pods this agent works on. Required.
	NodeName string
	// Namespace is where the agent's Lease is. Required.
	Namespace string
	// Identity is the holder of the Lease: the UID of the agent's Pod. Required.
	Identity string
	// Version is what the agent says of itself in logs and in its Lease.
	Version string

	// API is how the API server is reached. Required. QPS and burst must be set.
	API *rest.Config
	// AwaitServer returns nil once the API server may be used, and an error if it never may; nil: it may at once. Until then
	// the agent watches its node alone.
	AwaitServer func(context.Context) error
	// Runtime is the node's container runtime. Required; the caller closes it.
	Runtime *cri.Client
	// Journal says where the journal is. Required.
	Journal journal.Options
	// Scraper reads the engines' metrics. Required.
	Scraper *readiness.Scraper

	// Residency looks at the GPUs of Pods. nil: nobody can, and nothing depends on them.
	Residency Residency
	// Health judges GPUs. nil: none is sick.
	Health Health
	// ReleaseDeadline is how long after the end of a container its memory may still be held on a GPU. Default 120 s.
	ReleaseDeadline time.Duration

	// KubeletDir is kubelet's root folder as this process sees it; its sockets tell whether
	// kubelet and device plugins are up and since when. Default /var/lib/kubelet.
	KubeletDir string
	// Parallel bounds the pulls under way. Default 2.
	Parallel int
	// Settle is how long after a start of kubelet or a device plugin no Pod with devices is
	// taken out of traffic. 0: they are at once.
	Settle time.Duration
	// MinFreeBytes is the free space on the image file system below which nothing is pulled.
	// 0: it is not looked at.
	MinFreeBytes int64

	// GPUs says how the GPUs of the node are watched. The zero value: they are not.
	GPUs health.Config

	// Clock is the time source. Default: the real one.
	Clock clock.WithTicker
	// WrapTransport wraps the connection to the API server. It exists for tests that crash
	// there.
	WrapTransport func(http.RoundTripper) http.RoundTripper
}

// Validate reports what is missing or wrong.
func (c Config) Validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(c.NodeName != "", "node name is missing")
	need(c.Namespace != "", "namespace is missing")
	need(c.Identity != "", "identity is missing")
	need(c.API != nil && c.API.QPS > 0 && c.API.Burst > 0, "API configuration needs QPS and burst")
	need(c.Runtime != nil, "runtime is missing")
	need(c.Journal.Dir != "", "journal folder is missing")
	need(c.Scraper != nil, "scraper is missing")
	need(c.Parallel >= 0, "parallel is negative")
	need(c.ReleaseDeadline >= 0, "release deadline is negative")
	need(c.Settle >= 0, "settle is negative")
	need(c.MinFreeBytes >= 0, "minimum of free bytes is negative")
	return errors.Join(append(errs, c.GPUs.Validate())...)
}

func (c Config) withDefaults() Config {
	if c.KubeletDir == "" {
		c.KubeletDir = "/var/lib/kubelet"
	}
	if c.Parallel == 0 {
		c.Parallel = 2
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	c.Journal.NodeName = c.NodeName
	c.Journal.LockTimeout = lockTimeout
	c.Journal.Clock = c.Clock
	return c
}
