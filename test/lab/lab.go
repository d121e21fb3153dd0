// Package lab is a real Kubernetes on one machine, without a container engine and without
// downloads at run time: etcd, the API server and its controllers, and any number of nodes,
// each with a kubelet and a containerd of its own.
//
// Each node lives in a mount namespace in which its own folders lie over the usual paths, so
// that production manifests run unchanged:
//
//	<state>/lab.json            ports, tokens and what must be undone
//	<state>/{pki,etcd,run,log}  of the control plane; records and logs of all processes
//	<state>/registry            the image registry
//	<state>/nodes/<node>        the node's /var/lib/kubelet, /run/containerd, /var/lib/pitstop, ...
//
// Up, Down and every start and stop are idempotent, and each wait has a deadline. Only one
// lab may run on a machine at a time; control planes (StartControlPlane) and runtimes
// (StartRuntime) of tests may run beside it.
package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"k8s.io/client-go/rest"

	"pitstop.dev/test/lab/binaries"
	"pitstop.dev/test/lab/pki"
	"pitstop.dev/test/lab/process"
	"pitstop.dev/test/lab/registry"
)

// DefaultStateDir is where the lab of a machine keeps its state.
const DefaultStateDir = "/var/lib/pitstop-lab"

// MaxNodes bounds the number of nodes: their Pods share one range of addresses.
const MaxNodes = 8

// A Config says which lab is meant. The zero value is the machine's one lab with two nodes.
type Config struct {
	Nodes    int       // 1 to MaxNodes; default 2. A running lab grows but does not shrink
	StateDir string    // default DefaultStateDir
	CacheDir string    // of the binaries; default pitstop/lab in the user's cache folder
	Source   string    // a folder inside the repository; default the working folder
	Log      io.Writer // progress, for people; default nowhere
}

func (c Config) complete() (Config, error) {
	if c.Nodes == 0 {
		c.Nodes = 2
	}
	if c.Nodes < 1 || c.Nodes > MaxNodes {
		return c, fmt.Errorf("%d nodes: a lab has 1 to %d", c.Nodes, MaxNodes)
	}
	if c.StateDir == "" {
		c.StateDir = DefaultStateDir
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Source == "" {
		c.Source = "."
	}
	if c.CacheDir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return c, err
		}
		c.CacheDir = filepath.Join(user, "pitstop", "lab")
	}
	var err error
	c.StateDir, err = filepath.Abs(c.StateDir)
	return c, err
}

// Build fills the cache with the binaries and returns them; it needs no root.
func Build(ctx context.Context, c Config) (binaries.Set, error) {
	c, err := c.complete()
	if err != nil {
		return binaries.Set{}, err
	}
	root, err := binaries.Root(c.Source)
	if err != nil {
		return binaries.Set{}, err
	}
	return binaries.Ensure(ctx, binaries.Config{Root: root, Cache: c.CacheDir, Log: c.Log})
}

// A Lab is one running lab. Its methods may be called from several goroutines.
type Lab struct {
	config Config
	set    binaries.Set
	state  state
	group  process.Group
	pki    pki.Files
}

// Open returns the lab that runs in the state folder of c.
func Open(ctx context.Context, c Config) (*Lab, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	set, err := Build(ctx, c)
	if err != nil {
		return nil, err
	}
	s, err := readState(c.StateDir)
	if err != nil {
		return nil, fmt.Errorf("no lab in %s: %w", c.StateDir, err)
	}
	l := newLab(c, set, s)
	if _, ok := l.group.Running(apiServer); !ok {
		return nil, fmt.Errorf("the lab in %s does not run", c.StateDir)
	}
	return l, nil
}

func newLab(c Config, set binaries.Set, s state) *Lab {
	return &Lab{
		config: c,
		set:    set,
		state:  s,
		group:  process.Group{Dir: c.StateDir},
		pki:    pki.Files{Dir: filepath.Join(c.StateDir, "pki")},
	}
}

// Nodes returns the nodes, in the order of their names.
func (l *Lab) Nodes() []Node {
	var nodes []Node
	for i := range l.state.Nodes {
		nodes = append(nodes, l.node(i))
	}
	return nodes
}

// RESTConfig returns the access of the administrator, in the group system:masters.
func (l *Lab) RESTConfig() *rest.Config { return l.access(admin) }

// ServiceAccount returns the access of an existing service account, by a token like those
// that Pods get.
func (l *Lab) ServiceAccount(ctx context.Context, a Account) (*rest.Config, error) {
	return a.access(ctx, l.RESTConfig())
}

// WriteKubeconfig writes the access of an existing service account to a file, for a program beside
// the cluster.
func (l *Lab) WriteKubeconfig(ctx context.Context, a Account, path string) error {
	c, err := l.ServiceAccount(ctx, a)
	if err != nil {
		return err
	}
	return writeKubeconfig(path, c)
}

// KubeconfigPath is the file with the same access, for kubectl.
func (l *Lab) KubeconfigPath() string { return filepath.Join(l.config.StateDir, "kubeconfig") }

// AuditLog is the file to which the API server writes every write call, one JSON object a line.
func (l *Lab) AuditLog() string { return filepath.Join(l.config.StateDir, "log", "audit.log") }

// Binary returns the path of one of the lab's programs, such as kubectl or crictl.
func (l *Lab) Binary(name string) string { return l.set.Path(name) }

// Kubectl runs kubectl as the administrator and returns what it printed, also if it failed.
func (l *Lab) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.set.Path("kubectl"), append([]string{"--kubeconfig", l.KubeconfigPath()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %v: %w: %s", args, err, out)
	}
	return string(out), nil
}

// Registry returns the control of the registry from which all nodes pull.
func (l *Lab) Registry() *registry.Control {
	return registry.NewControl(loopback(l.state.Ports.Registry), l.path("registry", "control.sock"))
}

// Push stores an image in the registry; ref needs no address, as in engine:v1.
func (l *Lab) Push(ctx context.Context, ref string, img v1.Image) error {
	return l.Registry().Push(ctx, ref, img)
}

func (l *Lab) path(parts ...string) string {
	return filepath.Join(append([]string{l.config.StateDir}, parts...)...)
}

func (l *Lab) access(user string) *rest.Config {
	return access(l.state.Ports.API, l.pki, l.state.Tokens[user])
}
