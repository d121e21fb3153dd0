package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"pitstop.dev/test/lab/pki"
	"pitstop.dev/test/lab/process"
)

// A state is what a lab must remember: what was chosen, and what must be undone.
type state struct {
	Boot    string            `json:"boot"`    // a lab does not survive its machine's end
	Address string            `json:"address"` // of the default interface: every node's address
	Cluster string            `json:"cluster"` // the binaries
	Ports   ports             `json:"ports"`
	Tokens  map[string]string `json:"tokens"` // of each user
	Nodes   []nodeState       `json:"nodes"`
	Sysctls map[string]string `json:"sysctls"` // before the lab
	Made    []string          `json:"made"`    // folders outside the state folder
}

type ports struct {
	Etcd     int `json:"etcd"`
	EtcdPeer int `json:"etcdPeer"`
	API      int `json:"api"`
	Registry int `json:"registry"`
	Proxy    int `json:"proxy"` // health of kube-proxy
	Metrics  int `json:"metrics"`
}

type nodeState struct {
	Name    string `json:"name"`
	Kubelet int    `json:"kubelet"` // its port
	Health  int    `json:"health"`  // its health port
}

// newState chooses what a new lab needs.
func newState(cluster string) (state, error) {
	boot, err := process.BootID()
	if err != nil {
		return state{}, err
	}
	address, err := defaultAddress()
	if err != nil {
		return state{}, err
	}
	s := state{Boot: boot, Address: address.String(), Cluster: cluster, Tokens: tokens()}
	p := &s.Ports
	return s, choosePorts(nil, &p.Etcd, &p.EtcdPeer, &p.API, &p.Registry, &p.Proxy, &p.Metrics)
}

// stale says why a lab with this state cannot go on, or nothing if it can.
func (s state) stale(cluster string) string {
	boot, err := process.BootID()
	if err == nil && boot != s.Boot {
		return "the machine was started again"
	}
	address, err := defaultAddress()
	if err == nil && address.String() != s.Address {
		return "the machine's address is another"
	}
	if cluster != s.Cluster {
		return "its binaries are others"
	}
	return ""
}

func stateFile(dir string) string { return filepath.Join(dir, "lab.json") }

func readState(dir string) (state, error) {
	var s state
	data, err := os.ReadFile(stateFile(dir))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

func (s state) write(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(stateFile(dir), data)
}

// writeFile replaces a file as a whole and makes its folder.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func tokens() map[string]string {
	t := map[string]string{}
	for _, user := range []string{admin, controllerManager, scheduler, proxy} {
		t[user] = pki.Token()
	}
	for i := range MaxNodes {
		t[nodeUser(nodeName(i))] = pki.Token()
	}
	return t
}

// The range of ports lies below that of outgoing connections, so that a port that is free
// now is still free when a component starts again.
const (
	portsFrom = 20000
	portsTo   = 30000
)

// taken are the ports that were chosen, though nothing may listen there yet.
func (s state) taken() []int {
	out := []int{s.Ports.Etcd, s.Ports.EtcdPeer, s.Ports.API, s.Ports.Registry, s.Ports.Proxy, s.Ports.Metrics}
	for _, n := range s.Nodes {
		out = append(out, n.Kubelet, n.Health)
	}
	return out
}

// choosePorts sets each of its arguments to another port that is free on all addresses, and not taken.
func choosePorts(taken []int, chosen ...*int) error {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	for _, p := range chosen {
		l, err := freePort(taken)
		if err != nil {
			return err
		}
		held = append(held, l)
		*p = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

func freePort(taken []int) (net.Listener, error) {
	err := errors.New("all are taken")
	for range 100 {
		var l net.Listener
		port := portsFrom + rand.IntN(portsTo-portsFrom)
		if slices.Contains(taken, port) {
			continue
		}
		if l, err = net.Listen("tcp", ":"+strconv.Itoa(port)); err == nil { //nolint:noctx // does not wait
			return l, nil
		}
	}
	return nil, fmt.Errorf("find a free port: %w", err)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// cgroupOf is the control group of all containers of the lab whose state is in dir.
func cgroupOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "/pitstop-" + hex.EncodeToString(sum[:4])
}
