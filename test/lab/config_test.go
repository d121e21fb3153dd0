package lab

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

func TestKubeletConfig(t *testing.T) {
	c := kubeletConfig{address: "192.0.2.2", port: 20001, health: 20002, ca: "/pki/ca.crt", cgroup: "/pitstop-1/node1"}
	var got kubelet.KubeletConfiguration
	if err := yaml.UnmarshalStrict([]byte(c.render()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Port != 20001 || *got.HealthzPort != 20002 || got.CgroupRoot != "/pitstop-1/node1" || got.MaxPods != maxPods {
		t.Errorf("%+v", got)
	}
	if *got.Authentication.Anonymous.Enabled || got.Authentication.X509.ClientCAFile != "/pki/ca.crt" {
		t.Error("the kubelet listens on the machine's address and must know its callers")
	}
	if *got.FailCgroupV1 || *got.FailSwapOn || len(got.EnforceNodeAllocatable) > 0 {
		t.Error("the kubelet would refuse a developer's machine")
	}
}

func TestProxyConfig(t *testing.T) {
	var got struct {
		Mode       string         `json:"mode"`
		Cluster    string         `json:"clusterCIDR"`
		Health     string         `json:"healthzBindAddress"`
		Connection map[string]any `json:"clientConnection"`
		Conntrack  map[string]any `json:"conntrack"`
	}
	if err := yaml.Unmarshal([]byte(proxyConfig("/k", 20003, 20004)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Mode != "nftables" || got.Cluster != podRange || got.Health != "127.0.0.1:20003" || got.Connection["kubeconfig"] != "/k" {
		t.Errorf("%+v", got)
	}
	want := map[string]any{"maxPerCore": 0., "min": 0., "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
	if diff := cmp.Diff(want, got.Conntrack); diff != "" {
		t.Errorf("conntrack (-want +got):\n%s", diff)
	}
}

func TestCNIConfig(t *testing.T) {
	var got struct {
		Plugins []struct {
			Type string `json:"type"`
			IPAM struct {
				DataDir string                `json:"dataDir"`
				Ranges  [][]map[string]string `json:"ranges"`
			} `json:"ipam"`
		} `json:"plugins"`
	}
	if err := json.Unmarshal([]byte(cniConfig(podRange, "/state/ipam")), &got); err != nil {
		t.Fatal(err)
	}
	ipam := got.Plugins[0].IPAM
	if ipam.DataDir != "/state/ipam" || ipam.Ranges[0][0]["subnet"] != podRange {
		t.Errorf("%+v", got)
	}
}

func TestRuntimeConfig(t *testing.T) {
	c := runtimeConfig{root: "/r", state: "/run/containerd", cni: "/n/cni", pause: "127.0.0.1:1/pause:lab", certs: "/n/certs.d", snapshotter: "native"}
	got := c.render()
	for _, line := range []string{
		`root = "/r"`, `state = "/run/containerd"`, `address = "/run/containerd/containerd.sock"`,
		`sandbox = "127.0.0.1:1/pause:lab"`, `conf_dir = "/n/cni"`, `snapshotter = "native"`,
		`config_path = "/n/certs.d"`, `bin_dirs = ["/usr/lib/cni"]`, `restrict_oom_score_adj = true`,
	} {
		if !slices.Contains(strings.Split(got, "\n"), line) {
			t.Errorf("line %q is missing in:\n%s", line, got)
		}
	}
	if strings.Contains(got, "%!") {
		t.Errorf("a value is missing:\n%s", got)
	}
}

func TestTokenFile(t *testing.T) {
	got := tokenFile(map[string]string{admin: "a", "system:node:node1": "b", scheduler: "c"})
	want := "a,admin,admin,system:masters\n" +
		"b,system:node:node1,system:node:node1,system:nodes\n" +
		"c,system:kube-scheduler,system:kube-scheduler,\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tokenFile() (-want +got):\n%s", diff)
	}
}

func TestRangesDoNotMeet(t *testing.T) {
	all := netip.MustParsePrefix(labRange)
	ranges := []netip.Prefix{netip.MustParsePrefix(podRange), netip.MustParsePrefix(serviceRange)}
	seen := map[string]bool{}
	for port := portsFrom; port < portsFrom+64*16; port++ {
		r := runtimeRange(port)
		if seen[r] {
			t.Fatalf("range %s has two ports", r)
		}
		seen[r] = true
		ranges = append(ranges, netip.MustParsePrefix(r))
	}
	for i, a := range ranges {
		if !all.Contains(a.Addr()) {
			t.Errorf("%s is not in %s", a, all)
		}
		for _, b := range ranges[:i] {
			if a.Overlaps(b) {
				t.Fatalf("%s and %s overlap", a, b)
			}
		}
	}
	if got := firstOf(serviceRange).String(); got != serviceFirst {
		t.Errorf("first service address %s, want %s", got, serviceFirst)
	}
}

func TestChoosePorts(t *testing.T) {
	got := make([]int, 20)
	chosen := make([]*int, len(got))
	for i := range got {
		chosen[i] = &got[i]
	}
	var even []int // as of parts that do not listen yet
	for port := portsFrom; port < portsTo; port += 2 {
		even = append(even, port)
	}
	if err := choosePorts(even, chosen...); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(got, func(port int) bool { return port%2 == 0 }) {
		t.Errorf("ports %v: some are taken", got)
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != 20 || got[0] < portsFrom {
		t.Errorf("ports %v", got)
	}
	l, err := net.Listen("tcp", loopback(got[0]))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestState(t *testing.T) {
	s, err := newState("binaries")
	if err != nil {
		t.Fatal(err)
	}
	s.Nodes = []nodeState{{Name: "node1", Kubelet: 1, Health: 2}}
	dir := filepath.Join(t.TempDir(), "new")
	if err := s.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if why := got.stale("binaries"); why != "" {
		t.Errorf("a fresh state is stale: %s", why)
	}
	if got.stale("others") == "" {
		t.Error("other binaries do not matter")
	}
	got.Boot = "before"
	if got.stale("binaries") == "" {
		t.Error("another boot does not matter")
	}
}

func TestMissing(t *testing.T) {
	if got := missing(func(string) bool { return true }); len(got) > 0 {
		t.Errorf("missing %v of everything", got)
	}
	got := missing(func(c string) bool { return !strings.HasPrefix(c, cniDir) && c != "runc" })
	if diff := cmp.Diff([]string{"containernetworking-plugins", "runc"}, got); diff != "" {
		t.Errorf("missing() (-want +got):\n%s", diff)
	}
}

func TestConfigComplete(t *testing.T) {
	c, err := Config{CacheDir: "/c"}.complete()
	if err != nil || c.Nodes != 2 || c.StateDir != DefaultStateDir || c.Log == nil {
		t.Errorf("complete() = %+v, %v", c, err)
	}
	for _, n := range []int{-1, MaxNodes + 1} {
		if _, err := (Config{Nodes: n}).complete(); err == nil {
			t.Errorf("took %d nodes", n)
		}
	}
}

func TestHostScriptMountsWhatTheNodeNeeds(t *testing.T) {
	h := Host{Dir: "/state/nodes/node1", mounts: nodeMounts(), scratch: "/scratch"}
	lines := strings.Split(h.script(), "\n")
	at := func(line string) int { return slices.Index(lines, line) }
	private, scratch := at("mount --make-rprivate /"), at("mount -t tmpfs lab '/scratch'")
	bind := at("mount --bind '/state/nodes/node1/pitstop' '/var/lib/pitstop'")
	shared, hold := at("mount --make-rshared /"), at("exec sleep infinity")
	if private < 0 || scratch < private || bind < scratch || shared < bind || hold < shared {
		t.Errorf("order of the script:\n%s", h.script())
	}
}

func TestUnescape(t *testing.T) {
	if got := unescape(`/a\040b\134c`); got != `/a b\c` {
		t.Errorf("unescape() = %q", got)
	}
}

func TestMountsBelow(t *testing.T) {
	got, err := mountsBelow("/proc")
	if err != nil || len(got) == 0 || got[0] != "/proc" {
		t.Errorf("mountsBelow(/proc) = %v, %v", got, err)
	}
	if got, err := mountsBelow(t.TempDir()); err != nil || len(got) > 0 {
		t.Errorf("mountsBelow() of a plain folder = %v, %v", got, err)
	}
}

func TestWriteFileReplacesAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	for _, content := range []string{"long content", "short"} {
		if err := writeFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "short" {
		t.Errorf("content %q, %v", data, err)
	}
}
