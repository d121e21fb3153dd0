package lab

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A runtimeConfig describes one containerd. Its paths are those that it sees itself.
type runtimeConfig struct {
	root, state string
	cni         string // folder of the network configuration
	pause       string // image
	certs       string // folder of registry settings; empty, so that the host's do not count
	snapshotter string
}

// render returns the configuration file of containerd.
func (c runtimeConfig) render() string {
	return fmt.Sprintf(`version = 3
root = %[1]q
state = %[2]q
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing"]

[grpc]
address = %[3]q

[plugins.'io.containerd.cri.v1.images']
snapshotter = %[7]q
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = %[5]q
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = %[6]q

[plugins.'io.containerd.transfer.v1.local']
config_path = %[6]q

[plugins.'io.containerd.cri.v1.runtime']
# Without CAP_SYS_RESOURCE a score below one's own is refused, and with it every sandbox.
restrict_oom_score_adj = true
# A profile would stay loaded after the lab.
disable_apparmor = true
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [%[8]q]
conf_dir = %[4]q
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
snapshotter = %[7]q
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
`, c.root, c.state, c.socket(), c.cni, c.pause, c.certs, c.snapshotter, cniDir)
}

func (c runtimeConfig) socket() string { return c.state + "/containerd.sock" }

// snapshotterFor returns overlayfs where dir may hold its upper folders.
func snapshotterFor(dir string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", err
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC { // no overlay on an overlay
		return "native", nil
	}
	return "overlayfs", nil
}

// cniConfig routes each Pod through a link of its own to the host, so that all traffic
// passes the rules of kube-proxy. Addresses come from one store for all nodes in ipam.
func cniConfig(subnet, ipam string) string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": "lab",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {
        "type": "host-local",
        "dataDir": %q,
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    }
  ]
}
`, ipam, subnet)
}
