package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"pitstop.dev/test/lab"
	"pitstop.dev/test/lab/await"
	"pitstop.dev/test/lab/process"
	"pitstop.dev/test/router/rights"
)

// routerLimit bounds the wait for a router that starts.
const routerLimit = 20 * time.Second

// A Router is the reference router of docs/router.md as a process of this machine, with the rights that
// the document gives it and no more. It ends with this process at the latest.
type Router struct {
	// URL is where it listens, the same after every start.
	URL      string
	programs *process.Tether
	spec     process.Spec
}

// NewRouter builds the router for the Pods of a selector and gives it its rights. It keeps its files in
// dir, and is not started yet.
func (c *Cluster) NewRouter(ctx context.Context, dir, selector string) (*Router, error) {
	if err := c.grantRouter(ctx, dir); err != nil {
		return nil, err
	}
	binary, kubeconfig := filepath.Join(dir, "router"), filepath.Join(dir, "kubeconfig")
	if err := c.WriteKubeconfig(ctx, lab.Account{Namespace: Namespace, Name: rights.Account}, kubeconfig); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./test/router")
	build.Dir = c.root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the router: %w: %s", err, out)
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	return &Router{
		URL: "http://" + address, programs: process.NewTether(dir),
		spec: process.Spec{Name: "router", Args: []string{
			binary, "-listen", address, "-kubeconfig", kubeconfig, "-namespace", Namespace, "-selector", selector,
		}},
	}, nil
}

func (c *Cluster) grantRouter(ctx context.Context, dir string) error {
	doc, err := os.ReadFile(filepath.Join(c.root, "docs", "router.md"))
	if err != nil {
		return fmt.Errorf("the router's rights: %w", err)
	}
	manifest, err := rights.Manifest(string(doc), Namespace)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "rights.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		return fmt.Errorf("the router's rights: %w", err)
	}
	_, err = c.Kubectl(ctx, "apply", "-f", path)
	return err
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("an address for the router: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// Start returns once the router has found a Pod to send to.
func (r *Router) Start(ctx context.Context) error {
	if _, err := r.programs.Start(ctx, r.spec); err != nil {
		return err
	}
	return await.Until(ctx, "the router", routerLimit, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/health", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, r.programs.Tail(r.spec.Name))
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", resp.Status)
		}
		return nil
	})
}

// Kill kills the router, with every request that it passes on.
func (r *Router) Kill(ctx context.Context) error { return r.programs.Stop(ctx, r.spec.Name, 0) }

// Close ends it for good.
func (r *Router) Close() { r.programs.Close() }
