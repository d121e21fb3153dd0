//go:build lab

package lab_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/test/lab/process"
)

// machine describes what a lab changes on its machine: folders, mounts, networks, rules,
// control groups, settings and processes.
func machine(t *testing.T) map[string][]string {
	t.Helper()
	state := config(0).StateDir
	found := map[string][]string{"folders": nil, "groups": nil}
	for _, p := range []string{state, "/var/lib/kubelet", "/run/containerd", "/var/lib/containerd", "/var/lib/pitstop", "/var/lib/pitstop-gpu", "/var/lib/cni", "/var/log/pods", "/run/netns"} {
		if _, err := os.Stat(p); err == nil {
			found["folders"] = append(found["folders"], p)
		}
	}
	mounts, err := os.ReadFile("/proc/mounts")
	must(t, err)
	for m := range strings.SplitSeq(string(mounts), "\n") {
		for _, dir := range append(found["folders"], "/var/lib/pitstop", "/var/lib/kubelet", "/run/containerd", "cgroup") {
			if strings.Contains(m, dir) { // others may mount and unmount meanwhile
				found["mounts"] = append(found["mounts"], m)
			}
		}
	}
	interfaces, err := net.Interfaces()
	must(t, err)
	for _, i := range interfaces {
		found["interfaces"] = append(found["interfaces"], i.Name)
	}
	for _, command := range []string{"nft list ruleset", "ip route", "iptables -S"} {
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		found[command] = strings.Split(string(out), "\n")
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*pitstop*")
	must(t, err)
	more, err := filepath.Glob("/sys/fs/cgroup/*/*pitstop*")
	must(t, err)
	found["groups"] = append(groups, more...)
	for _, s := range []string{"net/ipv4/ip_forward", "vm/overcommit_memory", "kernel/panic"} {
		data, err := os.ReadFile(filepath.Join("/proc/sys", s))
		must(t, err)
		found["settings"] = append(found["settings"], s+" "+string(data))
	}
	if left := (process.Group{Dir: state}).Marked(); len(left) > 0 {
		t.Errorf("processes of the lab: %v", left)
	}
	for _, f := range found {
		slices.Sort(f)
	}
	return found
}

// unchanged fails the test unless the machine is as it was.
func unchanged(t *testing.T, before map[string][]string) {
	t.Helper()
	if diff := cmp.Diff(before, machine(t)); diff != "" {
		t.Errorf("the lab left something (-before +after):\n%s", diff)
	}
}

// names lists the processes that the lab has on record.
func names(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(config(0).StateDir, "run", "*.json"))
	must(t, err)
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".json")
	}
	return files
}

// records returns the content of all records.
func records(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	for _, name := range names(t) {
		data, err := os.ReadFile(filepath.Join(config(0).StateDir, "run", name+".json"))
		must(t, err)
		all.Write(append(data, '\n'))
	}
	return all.String()
}

// kill ends a process of the lab at once, as the kernel does when memory runs out.
func kill(t *testing.T, name string) {
	t.Helper()
	must(t, process.Group{Dir: config(0).StateDir}.Stop(t.Context(), name, 0))
}
