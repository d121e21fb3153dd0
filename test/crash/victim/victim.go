package victim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"pitstop.dev/agent"
	"pitstop.dev/agent/journal"
	"pitstop.dev/cri"
	"pitstop.dev/readiness"
)

// Options are those of pitstop-agent that matter here, and the trap.
type Options struct {
	Node, Namespace, Identity string
	Kubeconfig                string // empty: the service account of the Pod
	Runtime                   string // empty: the standard sockets are tried
	RuntimeRoot               string // where they are tried; empty: "/"
	HostRoot                  string
	KubeletDir                string
	JournalDir                string
	BootID                    string // empty: the node's
	// Listen is where the agent's handler is served: network and address, as "unix:/a/socket".
	// Empty: nowhere.
	Listen string
	QPS    float32
	Burst  int

	// Point is where the process signals itself.
	Point Point
	// Freeze makes the signal SIGSTOP instead of SIGKILL.
	Freeze bool
	// Marker is a file that is made before the signal. While it is there the process goes on.
	Marker string
	// Only is the name of the Pod whose API writes count; empty: those of all Pods.
	Only string
	// Trace is a file to which every counted write adds a line.
	Trace string
}

// Run runs the agent until ctx ends, or to its Point.
func Run(ctx context.Context, o Options) error {
	t, err := newTrap(o)
	if err != nil {
		return err
	}
	if o.Runtime == "" {
		if o.Runtime, err = cri.Discover(cmp.Or(o.RuntimeRoot, "/")); err != nil {
			return err
		}
	}
	runtime, err := cri.Dial(o.Runtime, cri.Config{HostRoot: o.HostRoot})
	if err != nil {
		return err
	}
	defer runtime.Close() //nolint:errcheck // the process ends
	cfg, err := o.config(runtime, t)
	if err != nil {
		return err
	}
	a, err := agent.New(cfg)
	if err != nil {
		return err
	}
	return o.serve(logr.NewContext(ctx, logr.FromContextOrDiscard(ctx)), a)
}

func (o Options) config(runtime *cri.Client, t *trap) (agent.Config, error) {
	api, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return agent.Config{}, fmt.Errorf("API configuration: %w", err)
	}
	api.QPS, api.Burst, api.UserAgent = o.QPS, o.Burst, "pitstop-agent/crash"
	scraper, err := readiness.NewScraper(readiness.Config{})
	if err != nil {
		return agent.Config{}, fmt.Errorf("engine metrics: %w", err)
	}
	if o.BootID == "" {
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return agent.Config{}, fmt.Errorf("boot id: %w", err)
		}
		o.BootID = strings.TrimSpace(string(boot))
	}
	return agent.Config{
		NodeName: o.Node, Namespace: o.Namespace, Identity: o.Identity, Version: "crash",
		API: api, Runtime: runtime, Scraper: scraper, KubeletDir: o.KubeletDir,
		Journal:       journal.Options{Dir: o.JournalDir, BootID: o.BootID, AfterCommit: t.committed},
		WrapTransport: t.wrap,
	}, nil
}

// serve runs the agent and its handler.
func (o Options) serve(ctx context.Context, a *agent.Agent) error {
	if o.Listen == "" {
		return a.Run(ctx)
	}
	network, address, _ := strings.Cut(o.Listen, ":")
	listener, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.Listen, err)
	}
	server := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: 5 * time.Second}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.Run(ctx) })
	g.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", o.Listen, err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	return g.Wait()
}
