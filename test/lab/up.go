package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"pitstop.dev/test/lab/await"
	"pitstop.dev/test/lab/binaries"
	"pitstop.dev/test/lab/cgroup"
	"pitstop.dev/test/lab/process"
	"pitstop.dev/test/lab/registry"
)

// Further processes of a lab.
const (
	kubeControllerManager = "kube-controller-manager"
	kubeScheduler         = "kube-scheduler"
	kubeProxy             = "kube-proxy"
	imageRegistry         = "registry"
)

const (
	lockLimit     = 10 * time.Minute // somebody else's Up or Down
	registryLimit = 20 * time.Second
	readyLimit    = 2 * time.Minute
)

// Prepare installs and builds what a lab needs and starts nothing. It is the only part of
// Up that may need the internet.
func Prepare(ctx context.Context, c Config) error {
	c, err := c.complete()
	if err != nil {
		return err
	}
	if err := prerequisites(ctx, c.Log); err != nil {
		return err
	}
	_, err = Build(ctx, c)
	return err
}

// Up brings the lab up and returns once its nodes are Ready. What runs already is left
// alone, what has died is started again, and nodes are added up to c.Nodes. A lab that
// cannot go on, because the machine was started again or its binaries are others, is
// taken down first.
func Up(ctx context.Context, c Config) (*Lab, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	if err := prerequisites(ctx, c.Log); err != nil {
		return nil, err
	}
	set, err := Build(ctx, c)
	if err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, c)
	if err != nil {
		return nil, err
	}
	defer unlock()
	begin := clock.RealClock{}.Now()
	l, err := prepare(ctx, c, set)
	if err != nil {
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		return nil, fmt.Errorf("bring the lab up: %w", err)
	}
	_, _ = fmt.Fprintf(c.Log, "lab is up: %d nodes Ready after %s; kubectl --kubeconfig %s\n",
		len(l.state.Nodes), clock.RealClock{}.Since(begin).Round(100*time.Millisecond), l.KubeconfigPath())
	return l, nil
}

// lock keeps others from bringing this lab up or down. The file is in the cache, since
// Down leaves nothing in the state folder.
func lock(ctx context.Context, c Config) (unlock func(), err error) {
	if err := os.MkdirAll(c.CacheDir, 0o755); err != nil {
		return nil, err
	}
	return binaries.Lock(ctx, filepath.Join(c.CacheDir, "lab"+strings.ReplaceAll(cgroupOf(c.StateDir), "/", "-")+".lock"), lockLimit)
}

// prepare reads or makes the state of the lab.
func prepare(ctx context.Context, c Config, set binaries.Set) (*Lab, error) {
	s, err := readState(c.StateDir)
	if err == nil {
		if why := s.stale(set.Cluster()); why != "" {
			_, _ = fmt.Fprintf(c.Log, "taking the old lab down: %s\n", why)
			err = errors.Join(fs.ErrNotExist, down(ctx, c))
		}
	}
	switch {
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read the lab's state (lab down removes it): %w", err)
	case hasProxyTables(ctx):
		return nil, errors.New("a kube-proxy has nft tables on this machine: another lab or cluster runs here")
	default:
		if s, err = newState(set.Cluster()); err != nil {
			return nil, err
		}
		s.Sysctls, s.Made = readSysctls(), absent()
	}
	for i := len(s.Nodes); i < c.Nodes; i++ {
		n := nodeState{Name: nodeName(i)}
		if err := choosePorts(s.taken(), &n.Kubelet, &n.Health); err != nil {
			return nil, err
		}
		s.Nodes = append(s.Nodes, n)
	}
	return newLab(c, set, s), s.write(c.StateDir)
}

// start starts what does not run and waits for all of it.
func (l *Lab) start(ctx context.Context) error {
	if err := l.writeConfig(); err != nil {
		return err
	}
	if err := allowForward(ctx); err != nil {
		return err
	}
	if err := l.startRegistry(ctx); err != nil {
		return err
	}
	g, together := errgroup.WithContext(ctx)
	g.Go(func() error { return l.startControlPlane(together) })
	for _, n := range l.Nodes() {
		g.Go(func() error { return n.start(together) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return l.awaitReady(ctx)
}

func (l *Lab) api() apiConfig {
	return apiConfig{
		dir: l.config.StateDir, set: l.set, ports: l.state.Ports, address: l.state.Address,
		bind: "0.0.0.0", services: serviceRange, tokens: l.state.Tokens,
	}
}

func (l *Lab) userConfig(user string) string {
	return l.path(strings.TrimPrefix(user, "system:") + ".kubeconfig")
}

// writeConfig writes the files of the control plane.
func (l *Lab) writeConfig() error {
	if err := l.api().write(); err != nil {
		return err
	}
	for _, user := range []string{controllerManager, scheduler, proxy} {
		if err := writeKubeconfig(l.userConfig(user), l.access(user)); err != nil {
			return err
		}
	}
	p := l.state.Ports
	return errors.Join(
		writeKubeconfig(l.KubeconfigPath(), l.RESTConfig()),
		writeFile(l.path("kube-proxy.yaml"), []byte(proxyConfig(l.userConfig(proxy), p.Proxy, p.Metrics))),
	)
}

// startRegistry starts the registry and stores the pause image in it. One that a test left stopped,
// slow or locked when it was killed serves again.
func (l *Lab) startRegistry(ctx context.Context) error {
	if _, ok := l.group.Running(imageRegistry); !ok {
		if err := startRegistry(ctx, l.group, l.set, l.Registry(), l.path("registry")); err != nil {
			return err
		}
	}
	if err := l.Registry().Change(ctx, func(s *registry.Settings) { *s = registry.Settings{} }); err != nil {
		return err
	}
	return pushPause(ctx, l.set, l.Registry())
}

// ensure starts a process of the control plane unless it runs.
func (l *Lab) ensure(ctx context.Context, s process.Spec) error {
	if _, ok := l.group.Running(s.Name); ok {
		return nil
	}
	_, err := l.group.Start(ctx, s)
	return err
}

// startControlPlane starts all that is not part of a node; kube-proxy is one for all nodes,
// as they share one network.
func (l *Lab) startControlPlane(ctx context.Context) error {
	for _, s := range []process.Spec{l.api().etcd(), l.api().apiServer()} {
		if err := l.ensure(ctx, s); err != nil {
			return err
		}
	}
	if err := awaitReady(ctx, l.RESTConfig()); err != nil {
		return fmt.Errorf("%w\n%s", err, l.group.Tail(apiServer))
	}
	for _, s := range l.clients() {
		if err := l.ensure(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// clients are the components that need the API server.
func (l *Lab) clients() []process.Spec {
	return []process.Spec{
		{Name: kubeControllerManager, Args: []string{
			l.set.Path(kubeControllerManager),
			"--kubeconfig=" + l.userConfig(controllerManager),
			"--service-account-private-key-file=" + l.pki.Key("sa"),
			"--root-ca-file=" + l.pki.CA(),
			"--use-service-account-credentials=true",
			"--leader-elect=false",
			"--secure-port=0",
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
			"--v=1",
		}},
		{Name: kubeScheduler, Args: []string{
			l.set.Path(kubeScheduler),
			"--kubeconfig=" + l.userConfig(scheduler),
			"--leader-elect=false",
			"--secure-port=0",
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
			"--v=1",
		}},
		{Name: kubeProxy, Args: []string{
			l.set.Path(kubeProxy),
			"--config=" + l.path("kube-proxy.yaml"),
			"--hostname-override=" + nodeName(0),
			"--v=2",
		}},
	}
}

// awaitReady waits until Pods can be created, scheduled, run and reached.
func (l *Lab) awaitReady(ctx context.Context) error {
	err := await.Until(ctx, "the lab", readyLimit, func(ctx context.Context) error {
		for _, name := range []string{etcd, apiServer, kubeControllerManager, kubeScheduler, kubeProxy} {
			if _, ok := l.group.Running(name); !ok {
				return errors.New(l.group.Tail(name))
			}
		}
		if err := get(ctx, l.RESTConfig(), "/api/v1/namespaces/default/serviceaccounts/default", nil); err != nil {
			return err
		}
		if err := healthy(ctx, l.state.Ports.Proxy); err != nil {
			return fmt.Errorf("%s: %w", kubeProxy, err)
		}
		return l.nodesReady(ctx)
	})
	return err
}

func (l *Lab) nodesReady(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := get(ctx, l.RESTConfig(), "/api/v1/nodes", &nodes); err != nil {
		return err
	}
	ready := map[string]bool{}
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			ready[n.Name] = ready[n.Name] || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && len(n.Spec.Taints) == 0
		}
	}
	for _, n := range l.state.Nodes {
		if !ready[n.Name] {
			return fmt.Errorf("node %s is not Ready\n%s", n.Name, l.group.Tail(n.Name+"-kubelet"))
		}
	}
	return nil
}

func cgroups() (cgroup.Tree, error) { return cgroup.Detect(cgroup.Root) }
