package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"pitstop.dev/test/lab/pki"
	"pitstop.dev/test/lab/process"
)

// A ControlPlane is an etcd and a real API server with RBAC and admission, without
// controllers and nodes, for tests of what only a real API server does. It ends with the
// process that started it, at the latest.
type ControlPlane struct {
	config apiConfig
	group  *process.Tether
}

// StartControlPlane starts an API server that keeps everything in c.StateDir, which must
// be given and is the caller's to remove after Close. It needs no root.
func StartControlPlane(ctx context.Context, c Config) (*ControlPlane, error) {
	if c.StateDir == "" {
		return nil, errors.New("a control plane needs a folder of its own")
	}
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	set, err := Build(ctx, c)
	if err != nil {
		return nil, err
	}
	address, err := defaultAddress()
	if err != nil {
		return nil, err
	}
	p := &ControlPlane{group: process.NewTether(c.StateDir)}
	p.config = apiConfig{
		dir: c.StateDir, set: set, address: address.String(), bind: "127.0.0.1",
		services: "198.18.129.0/24", tokens: map[string]string{admin: pki.Token()},
		// The account that it asks for is made by a controller.
		extra: []string{"--disable-admission-plugins=ServiceAccount"},
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a control plane: %w", err), p.Close(ctx))
	}
	return p, nil
}

func (p *ControlPlane) start(ctx context.Context) error {
	ports := &p.config.ports
	if err := choosePorts(nil, &ports.Etcd, &ports.EtcdPeer, &ports.API); err != nil {
		return err
	}
	if err := p.config.write(); err != nil {
		return err
	}
	for _, s := range []process.Spec{p.config.etcd(), p.config.apiServer()} {
		if _, err := p.group.Start(ctx, s); err != nil {
			return err
		}
	}
	if err := awaitReady(ctx, p.RESTConfig()); err != nil {
		return fmt.Errorf("%w\n%s", err, p.group.Tail(apiServer))
	}
	return writeKubeconfig(p.KubeconfigPath(), p.RESTConfig())
}

// RESTConfig returns the access of the administrator, in the group system:masters, who may
// also impersonate anybody.
func (p *ControlPlane) RESTConfig() *rest.Config {
	return access(p.config.ports.API, pki.Files{Dir: filepath.Join(p.config.dir, "pki")}, p.config.tokens[admin])
}

// KubeconfigPath is the file with the same access, for kubectl.
func (p *ControlPlane) KubeconfigPath() string { return filepath.Join(p.config.dir, "kubeconfig") }

// AuditLog is the file to which the API server writes every write call, one JSON object a line.
func (p *ControlPlane) AuditLog() string { return filepath.Join(p.config.dir, "log", "audit.log") }

// Binary returns the path of one of the lab's programs, such as kubectl.
func (p *ControlPlane) Binary(name string) string { return p.config.set.Path(name) }

// ServiceAccount returns the access of an existing service account, by a token like those
// that Pods get.
func (p *ControlPlane) ServiceAccount(ctx context.Context, a Account) (*rest.Config, error) {
	return a.access(ctx, p.RESTConfig())
}

// Stop ends the API server; etcd keeps its objects until Start.
func (p *ControlPlane) Stop(ctx context.Context) error {
	return p.group.Stop(ctx, apiServer, stopGrace)
}

// Start starts a stopped API server again, at the same address.
func (p *ControlPlane) Start(ctx context.Context) error {
	if _, ok := p.group.Running(apiServer); !ok {
		if _, err := p.group.Start(ctx, p.config.apiServer()); err != nil {
			return err
		}
	}
	return awaitReady(ctx, p.RESTConfig())
}

// Close ends the API server and etcd, also if ctx has ended.
func (p *ControlPlane) Close(ctx context.Context) error {
	p.group.Close()
	return p.group.KillMarked(context.WithoutCancel(ctx))
}

// An Account names a service account, and the Pod that a token of it is bound to. A token
// that is bound to a Pod on a node carries the claim of that node.
type Account struct {
	Namespace, Name string
	Pod             string // optional
	PodUID          types.UID
}

// access asks the API server for a token that is good for an hour.
func (a Account) access(ctx context.Context, as *rest.Config) (*rest.Config, error) {
	request := authenticationv1.TokenRequest{}
	request.APIVersion, request.Kind = "authentication.k8s.io/v1", "TokenRequest"
	if a.Pod != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: a.Pod, UID: a.PodUID,
		}
	}
	data, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token", a.Namespace, a.Name)
	call := apiCall{method: http.MethodPost, path: path, body: bytes.NewReader(data)}
	if err := call.do(ctx, as, &request); err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	c := rest.AnonymousClientConfig(as)
	c.BearerToken = request.Status.Token
	c.QPS, c.Burst = as.QPS, as.Burst
	return c, nil
}
