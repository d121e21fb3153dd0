package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pitstop.dev/test/lab/await"
)

// All addresses of a lab are in the range that RFC 2544 sets aside for benchmarks.
const (
	labRange     = "198.18.0.0/16"
	podRange     = "198.18.0.0/22"
	serviceRange = "198.18.128.0/24"
	serviceFirst = "198.18.128.1" // the Service called kubernetes
)

// defaultAddress returns the address of the default interface.
func defaultAddress() (net.IP, error) {
	c, err := net.Dial("udp4", "198.18.255.254:9") //nolint:noctx // sends nothing and does not wait
	if err != nil {
		return nil, fmt.Errorf("find the address of the default interface: %w", err)
	}
	defer func() { _ = c.Close() }()
	return c.LocalAddr().(*net.UDPAddr).IP, nil
}

// proxyTables are what kube-proxy leaves behind.
func proxyTables() [][]string { return [][]string{{"ip", "kube-proxy"}, {"ip6", "kube-proxy"}} }

// hasProxyTables reports whether a kube-proxy, whoever's, has left its tables.
func hasProxyTables(ctx context.Context) bool {
	for _, t := range proxyTables() {
		if exec.CommandContext(ctx, "nft", append([]string{"list", "table"}, t...)...).Run() == nil {
			return true
		}
	}
	return false
}

func removeProxyTables(ctx context.Context) error {
	var failed error
	for _, t := range proxyTables() {
		if exec.CommandContext(ctx, "nft", append([]string{"list", "table"}, t...)...).Run() != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, "nft", append([]string{"delete", "table"}, t...)...).CombinedOutput()
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("delete nft table %v: %w: %s", t, err, out))
		}
	}
	return failed
}

// awaitNoPodLinks waits until the kernel has removed the host's ends of all Pod networks,
// which it does a while after the last process in them has ended.
func awaitNoPodLinks(ctx context.Context, within string) error {
	pods, err := netip.ParsePrefix(within)
	if err != nil {
		return err
	}
	return await.Until(ctx, "the removal of Pod networks", 20*time.Second, func(context.Context) error {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return err
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && pods.Contains(p.Addr()) {
				return fmt.Errorf("address %s is left", p)
			}
		}
		return nil
	})
}

// sysctls are the kernel settings that kubelet, kube-proxy or a CNI plugin may change.
func sysctls() []string {
	return []string{
		"net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet",
		"vm/overcommit_memory", "vm/panic_on_oom",
		"kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

func readSysctls() map[string]string {
	values := map[string]string{}
	for _, name := range sysctls() {
		data, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err == nil { // otherwise this kernel lacks it
			values[name] = strings.TrimSpace(string(data))
		}
	}
	return values
}

func restoreSysctls(values map[string]string) error {
	now := readSysctls()
	var failed error
	for name, v := range values {
		if now[name] != v {
			failed = errors.Join(failed, os.WriteFile(filepath.Join("/proc/sys", name), []byte(v), 0o644))
		}
	}
	return failed
}
