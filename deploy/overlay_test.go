package deploy_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// blocks are the indented blocks of a text in Markdown, without their indent.
func blocks(text string) []string {
	var list []string
	for _, b := range regexp.MustCompile(`(?m)(?:^(?: {4}.*|[ \t]*)\n)+`).FindAllString(text, -1) {
		b = strings.Trim(b, "\n")
		indent := b[:len(b)-len(strings.TrimLeft(b, " "))]
		list = append(list, regexp.MustCompile("(?m)^"+indent).ReplaceAllString(b, "")+"\n")
	}
	return list
}

// block is the one that has the word.
func block(t *testing.T, file, word string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := slices.DeleteFunc(blocks(string(text)), func(b string) bool { return !strings.Contains(b, word) })
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks with %q, want 1", file, len(found), word)
	}
	return found[0]
}

// A copied is an overlay as somebody copies it out of a document, in a folder of its own.
type copied struct{ dir, image string }

// overlays are those of the documents: as they are, and for each of the components with all that is commented out.
func overlays(t *testing.T) map[string]copied {
	t.Helper()
	runtimes, err := os.ReadDir("runtime")
	if err != nil {
		t.Fatal(err)
	}
	variants := map[string]func(string) string{"as copied": func(text string) string { return text }}
	for _, r := range runtimes {
		variants[r.Name()] = func(text string) string {
			text = regexp.MustCompile(`(?m)^# `).ReplaceAllString(text, "")
			return strings.ReplaceAll(text, "deploy/runtime/crio", "deploy/runtime/"+r.Name())
		}
	}
	list := map[string]copied{}
	for name, change := range variants {
		root := filepath.Join(t.TempDir(), "pitstop")
		if err := os.CopyFS(filepath.Join(root, "deploy"), os.DirFS(".")); err != nil {
			t.Fatal(err)
		}
		shell, _, _ := strings.Cut(block(t, "../README.md", "<<EOF"), "kubectl apply")
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", shell[strings.Index(shell, "mkdir"):])
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, out, shell)
		}
		mine := filepath.Join(filepath.Dir(root), "mine")
		if err := os.Mkdir(mine, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(mine, "kustomization.yaml"), []byte(block(t, "README.md", "kind: Kustomization")), 0o600); err != nil {
			t.Fatal(err)
		}
		list["README.md, "+name] = copied{filepath.Join(root, "my-cluster"), "REGISTRY/pitstop-agent:VERSION"}
		list["deploy/README.md, "+name] = copied{mine, "REGISTRY/pitstop-agent:v1"}
		for _, c := range []string{filepath.Join(root, "my-cluster"), mine} {
			file := filepath.Join(c, "kustomization.yaml")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(change(string(text))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return list
}

// TestTheOverlaysOfTheDocumentsRender takes what a reader copies, word for word.
func TestTheOverlaysOfTheDocumentsRender(t *testing.T) {
	signs := map[string]string{ // what tells that the component is in
		"crio": "path: /run/crio\n", "k3s": "path: /run/k3s/containerd\n", "nvidia": "runtimeClassName: nvidia\n", "as copied": "path: /run/containerd\n",
	}
	list := overlays(t)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		t.Run(name, func(t *testing.T) {
			made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), list[name].dir)
			if err != nil {
				t.Fatal(err)
			}
			manifests, err := made.AsYaml()
			if err != nil {
				t.Fatal(err)
			}
			rendered(t, string(manifests), list[name].image)
			_, variant, _ := strings.Cut(name, ", ")
			if sign, ok := signs[variant]; !ok || !strings.Contains(string(manifests), sign) {
				t.Errorf("%q is not in it", sign)
			}
			if only := strings.Contains(string(manifests), "example.com/gpu"); only != (variant != "as copied" && strings.HasPrefix(name, "deploy/")) {
				t.Errorf("the agent is kept to some nodes: %t", only)
			}
		})
	}
}

// rendered checks that the agent has the image, and that pin Pods run the same.
func rendered(t *testing.T, manifests, image string) {
	t.Helper()
	seen := 0
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		var d appsv1.Deployment // a DaemonSet has its template in the same place
		if err := yaml.Unmarshal([]byte(document), &d); err != nil || d.Kind != "DaemonSet" && d.Kind != "Deployment" {
			continue
		}
		seen++
		c := d.Spec.Template.Spec.Containers[0]
		own := strings.Replace(image, "pitstop-agent", d.Name, 1)
		if c.Image != own {
			t.Errorf("%s has image %s, want %s", d.Name, c.Image, own)
		}
		if pin := "--pin-image=" + image; d.Kind == "Deployment" && !slices.Equal(pins(c), []string{pin}) {
			t.Errorf("%s has arguments %q, want one %s", d.Name, c.Args, pin)
		}
	}
	if seen != 2 {
		t.Errorf("%d workloads, want 2", seen)
	}
}

func pins(c corev1.Container) []string {
	return slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return !strings.HasPrefix(a, "--pin-image") })
}
