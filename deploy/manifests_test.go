//go:build lab

package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// build renders a kustomization made of lines, in which DEPLOY is this folder.
func build(t *testing.T, lines ...string) string {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	// kustomize takes no absolute paths.
	deploy, err := filepath.Rel(dir, here)
	if err != nil {
		t.Fatal(err)
	}
	lines = append([]string{"apiVersion: kustomize.config.k8s.io/v1beta1", "kind: Kustomization"}, lines...)
	text := strings.ReplaceAll(strings.Join(lines, "\n"), "DEPLOY", deploy)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := kubectl(t.Context(), nil, "kustomize", dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

func daemonSet(t *testing.T, manifests string) appsv1.DaemonSet {
	t.Helper()
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		var ds appsv1.DaemonSet
		if err := yaml.Unmarshal([]byte(document), &ds); err == nil && ds.Kind == "DaemonSet" {
			return ds
		}
	}
	t.Fatal("no DaemonSet")
	return appsv1.DaemonSet{}
}

func TestOverlays(t *testing.T) {
	for name, tt := range map[string]struct {
		lines   []string
		image   string
		folders []string // of the node, as the agent sees them
	}{
		"as it is": {
			nil, "pitstop-agent:dev",
			[]string{"/host/run/containerd", "/host/var/lib/containerd"},
		},
		"another image": {
			[]string{"images: [{name: pitstop-agent, newName: registry.example.com/pitstop-agent, newTag: v1}]"},
			"registry.example.com/pitstop-agent:v1",
			[]string{"/host/run/containerd", "/host/var/lib/containerd"},
		},
		"CRI-O": {
			[]string{"components: [DEPLOY/runtime/crio]"},
			"pitstop-agent:dev",
			[]string{"/host/run/crio", "/host/var/lib/containers"},
		},
		"k3s": {
			[]string{"components: [DEPLOY/runtime/k3s]"},
			"pitstop-agent:dev",
			[]string{"/host/run/k3s/containerd", "/host/var/lib/rancher/k3s"},
		},
		"NVIDIA's container toolkit": {
			[]string{"components: [DEPLOY/runtime/nvidia]"},
			"pitstop-agent:dev",
			[]string{"/host/run/containerd", "/host/var/lib/containerd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			manifests := build(t, append([]string{"resources: [DEPLOY/base]"}, tt.lines...)...)
			if out, err := kubectl(t.Context(), strings.NewReader(manifests), "apply", "--server-side", "--dry-run=server", "-f", "-"); err != nil {
				t.Errorf("not accepted: %v\n%s", err, out)
			}
			pod := daemonSet(t, manifests).Spec.Template.Spec
			agent := pod.Containers[0]
			if agent.Image != tt.image {
				t.Errorf("image %s, want %s", agent.Image, tt.image)
			}
			if got := mounted(t, pod); !slices.Equal(got, tt.folders) {
				t.Errorf("folders of the runtime %q, want %q", got, tt.folders)
			}
		})
	}
}

// TestTheOverlaysOfTheDocumentsApply renders them with kubectl, as their reader does, and has the API server look at them.
func TestTheOverlaysOfTheDocumentsApply(t *testing.T) {
	for name, overlay := range overlays(t) {
		t.Run(name, func(t *testing.T) {
			manifests, err := kubectl(t.Context(), nil, "kustomize", overlay.dir)
			if err != nil {
				t.Fatalf("%v\n%s", err, manifests)
			}
			rendered(t, manifests, overlay.image)
			if out, err := kubectl(t.Context(), nil, "apply", "--server-side", "--dry-run=server", "-k", overlay.dir); err != nil {
				t.Errorf("not accepted: %v\n%s", err, out)
			}
		})
	}
}

// mounted lists what the agent sees under /host. Each such folder must be at the path that it has
// on the node, or the paths that the runtime tells would lead nowhere.
func mounted(t *testing.T, pod corev1.PodSpec) []string {
	t.Helper()
	paths := map[string]string{}
	for _, v := range pod.Volumes {
		paths[v.Name] = v.HostPath.Path
	}
	var folders []string
	for _, m := range pod.Containers[0].VolumeMounts {
		if !strings.HasPrefix(m.MountPath, "/host/") {
			continue
		}
		if m.MountPath != "/host"+paths[m.Name] || !m.ReadOnly {
			t.Errorf("%s is %s of the node, read-only %t", m.MountPath, paths[m.Name], m.ReadOnly)
		}
		folders = append(folders, m.MountPath)
	}
	slices.Sort(folders)
	return folders
}

// TestTheAgentIsNotPrivileged keeps what the lab shows to be enough.
func TestTheAgentIsNotPrivileged(t *testing.T) {
	ds := daemonSet(t, build(t, "resources: [DEPLOY/base]"))
	pod := ds.Spec.Template.Spec
	s := pod.Containers[0].SecurityContext
	if *s.Privileged || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
		!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
		t.Errorf("security context %+v", s)
	}
	if pod.HostNetwork || pod.HostIPC {
		t.Error("the agent shares more of the node than its processes")
	}
	if surge := ds.Spec.UpdateStrategy.RollingUpdate.MaxSurge; surge.IntValue() != 0 {
		t.Errorf("maxSurge %s: two agents cannot share a journal", surge)
	}
	for _, v := range pod.Volumes {
		if v.HostPath == nil {
			t.Errorf("volume %s is no folder of the node", v.Name)
		}
	}
}
