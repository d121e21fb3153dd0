package lab

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"

	"pitstop.dev/test/lab/await"
	"pitstop.dev/test/lab/binaries"
	"pitstop.dev/test/lab/pki"
	"pitstop.dev/test/lab/process"
)

// The processes of a control plane.
const (
	etcd      = "etcd"
	apiServer = "kube-apiserver"
)

// The users with a token. All but the administrator have the roles that Kubernetes gives
// to components of these names.
const (
	admin             = "admin"
	controllerManager = "system:kube-controller-manager"
	scheduler         = "system:kube-scheduler"
	proxy             = "system:kube-proxy"
)

// apiLimit bounds the wait for a starting API server.
const apiLimit = 90 * time.Second

func nodeUser(name string) string { return "system:node:" + name }

// An apiConfig describes an etcd and the API server in front of it.
type apiConfig struct {
	dir      string // pki, etcd, log and more
	set      binaries.Set
	ports    ports
	address  string // on which it is reached
	bind     string // on which it listens
	services string // of Services
	tokens   map[string]string
	extra    []string // flags
}

func (c apiConfig) etcd() process.Spec {
	client, peer := "http://"+loopback(c.ports.Etcd), "http://"+loopback(c.ports.EtcdPeer)
	return process.Spec{Name: etcd, Args: []string{
		c.set.Path(etcd),
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync",
		"--log-level=warn",
	}}
}

func (c apiConfig) apiServer() process.Spec {
	files := pki.Files{Dir: filepath.Join(c.dir, "pki")}
	// It shares its processors with all that is tested, and memory is not what is scarce.
	env := []string{"GOGC=200"}
	return process.Spec{Name: apiServer, Env: env, Args: append([]string{
		c.set.Path(apiServer),
		"--etcd-servers=http://" + loopback(c.ports.Etcd),
		"--bind-address=" + c.bind,
		"--advertise-address=" + c.address,
		"--secure-port=" + strconv.Itoa(c.ports.API),
		"--tls-cert-file=" + files.Cert(pki.APIServer),
		"--tls-private-key-file=" + files.Key(pki.APIServer),
		"--cert-dir=" + files.Dir,
		"--kubelet-client-certificate=" + files.Cert(pki.KubeletClient),
		"--kubelet-client-key=" + files.Key(pki.KubeletClient),
		"--kubelet-preferred-address-types=InternalIP",
		"--token-auth-file=" + filepath.Join(c.dir, "tokens.csv"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + files.Key(pki.ServiceAccount),
		"--service-account-signing-key-file=" + files.Key(pki.ServiceAccount),
		"--service-cluster-ip-range=" + c.services,
		"--audit-policy-file=" + filepath.Join(c.dir, "audit.yaml"),
		"--audit-log-path=" + filepath.Join(c.dir, "log", "audit.log"),
		"--allow-privileged=true",
		"--profiling=false",
		"--v=1",
	}, c.extra...)}
}

// auditPolicy logs who wrote what, once a call, and no bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// write makes the files that the API server reads.
func (c apiConfig) write() error {
	ips := []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(c.address), firstOf(c.services)}
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	if _, err := pki.Make(filepath.Join(c.dir, "pki"), ips, names, clock.RealClock{}.Now()); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(c.dir, "audit.yaml"), []byte(auditPolicy)); err != nil {
		return err
	}
	return writeFile(filepath.Join(c.dir, "tokens.csv"), []byte(tokenFile(c.tokens)))
}

// firstOf returns the first usable address of a range, that of the Service kubernetes.
func firstOf(cidr string) net.IP {
	ip, _, err := net.ParseCIDR(cidr)
	if err != nil {
		return nil
	}
	ip = ip.To4()
	ip[3]++
	return ip
}

// tokenFile renders the API server's list of tokens: token, user, uid, groups.
func tokenFile(tokens map[string]string) string {
	var lines []string
	for user, token := range tokens {
		group := ""
		switch {
		case user == admin:
			group = "system:masters"
		case strings.HasPrefix(user, "system:node:"):
			group = "system:nodes"
		}
		lines = append(lines, fmt.Sprintf("%s,%s,%s,%s\n", token, user, user, group))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// access returns the configuration of a client with enough calls a second for any test.
func access(port int, files pki.Files, token string) *rest.Config {
	return &rest.Config{
		Host:            "https://" + loopback(port),
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: files.CA()},
		QPS:             500,
		Burst:           1000,
	}
}

// writeKubeconfig writes the access in c to a file.
func writeKubeconfig(path string, c *rest.Config) error {
	const name = "lab"
	k := api.NewConfig()
	k.Clusters[name] = &api.Cluster{Server: c.Host, CertificateAuthority: c.CAFile}
	k.AuthInfos[name] = &api.AuthInfo{Token: c.BearerToken}
	k.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	data, err := clientcmd.Write(*k)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

// awaitReady waits until the API server of c serves.
func awaitReady(ctx context.Context, c *rest.Config) error {
	return await.Until(ctx, apiServer, apiLimit, func(ctx context.Context) error {
		return get(ctx, c, "/readyz", nil)
	})
}
