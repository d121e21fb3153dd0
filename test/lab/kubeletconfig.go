package lab

import "fmt"

// maxPods is what each kubelet takes.
const maxPods = 120

// A kubeletConfig is what differs between the kubelets of a lab.
type kubeletConfig struct {
	address string
	port    int
	health  int
	ca      string // signed the API server's client certificate
	cgroup  string
}

// render returns the configuration file of the kubelet. Its disk and memory thresholds are
// such that a full developer machine is still a good node.
func (c kubeletConfig) render() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
port: %d
readOnlyPort: 0
healthzBindAddress: 127.0.0.1
healthzPort: %d
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
  x509: {clientCAFile: %s}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: %s
failCgroupV1: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
enforceNodeAllocatable: []
evictionHard:
  memory.available: 1Mi
  nodefs.available: 0%%
  nodefs.inodesFree: 0%%
  imagefs.available: 0%%
  imagefs.inodesFree: 0%%
imageGCHighThresholdPercent: 100
failSwapOn: false
makeIPTablesUtilChains: false
maxPods: %d
oomScoreAdj: 0
resolvConf: ""
volumePluginDir: /var/lib/kubelet/volume-plugins
`, c.address, c.port, c.health, c.ca, c.cgroup, maxPods)
}

// proxyConfig returns the configuration file of kube-proxy. The machine's limits on
// connections stay as they are. As one kube-proxy serves all nodes, it cannot tell which
// Pods are on its own, and would forget those that call themselves through a Service: so
// it masquerades all calls.
func proxyConfig(kubeconfig string, health, metrics int) string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
nftables: {masqueradeAll: true}
clientConnection: {kubeconfig: %s}
clusterCIDR: %s
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
healthzBindAddress: %s
metricsBindAddress: %s
oomScoreAdj: 0
`, kubeconfig, podRange, loopback(health), loopback(metrics))
}
