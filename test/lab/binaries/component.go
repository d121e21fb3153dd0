// Package binaries builds the programs of a lab from their Go modules and keeps them in a
// cache, so that only the first lab of a machine has to wait:
//
//	<cache>/<module>-<hash>/<binary>    complete as soon as it is there
//
// The hash covers the module files, the sources of our own programs, the flags and the Go
// version.
package binaries

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const versionPackage = "k8s.io/component-base/version"

// kubernetesVersion is what the Kubernetes binaries report; it is that of the module file.
const kubernetesVersion = "v1.37.2"

// A build is one run of the Go tool; all builds of a module share a folder of the cache.
type build struct {
	what     string   // for people
	packages []string // the last element of a package's path is the name of its binary
	name     string   // the name of the binary instead, if there is one package only
	tags     string
	ldflags  string
}

// A module is built in one folder.
type module struct {
	name    string
	dir     string   // of the go.mod, relative to the root of the repository
	sources []string // what the binaries depend on: files and folders relative to dir
	builds  []build
	links   map[string]string // further names of a binary
}

func modules() []module {
	const strip = "-s -w"
	x := " -X " + versionPackage
	return []module{
		{
			name:    "own",
			dir:     ".",
			sources: []string{"go.mod", "test/lab/pause", "test/lab/registry", "test/lab/cmd/registry"},
			builds: []build{{
				what:     "the lab's registry and pause image",
				packages: []string{"./test/lab/cmd/registry", "./test/lab/pause"},
				ldflags:  strip,
			}},
		},
		{
			name:    "runtime",
			dir:     "test/lab/runtime",
			sources: []string{"go.mod", "go.sum"},
			builds: []build{
				{what: "etcd", packages: []string{"go.etcd.io/etcd/server/v3"}, name: "etcd", ldflags: strip},
				{
					what: "containerd",
					packages: []string{
						"github.com/containerd/containerd/v2/cmd/containerd",
						"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
					},
					tags:    "no_btrfs no_devmapper no_zfs",
					ldflags: strip,
				},
				{what: "crictl", packages: []string{"sigs.k8s.io/cri-tools/cmd/crictl"}, ldflags: strip},
			},
		},
		{
			name:    "kube",
			dir:     "test/lab/kube",
			sources: []string{"go.mod", "go.sum", "main.go"},
			builds: []build{{
				what:     "Kubernetes " + kubernetesVersion,
				packages: []string{"."},
				name:     "kube",
				ldflags: strip + x + ".gitVersion=" + kubernetesVersion +
					x + ".gitMajor=1" + x + ".gitMinor=37",
			}},
			links: map[string]string{
				"kube-apiserver": "kube", "kube-controller-manager": "kube", "kube-scheduler": "kube",
				"kube-proxy": "kube", "kubelet": "kube", "kubectl": "kube",
			},
		},
	}
}

// args are those of the Go tool that puts the binaries into the folder out.
func (b build) args(out string) []string {
	args := []string{"build", "-v", "-trimpath"}
	if b.tags != "" {
		args = append(args, "-tags", b.tags)
	}
	args = append(args, "-ldflags", b.ldflags, "-o", out+string(filepath.Separator)+b.name)
	return append(args, b.packages...)
}

// hash identifies the output of m built by goVersion from the repository at root.
func (m module) hash(root, goVersion string) (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintln(h, goVersion)
	for _, b := range m.builds {
		_, _ = fmt.Fprintf(h, "%q\n", b.args(""))
	}
	for _, s := range m.sources {
		if err := hashInto(h, filepath.Join(root, m.dir), s); err != nil {
			return "", fmt.Errorf("hash module %s: %w", m.name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// hashInto adds the name and content of a file, or of the Go files of a folder.
func hashInto(h io.Writer, dir, path string) error {
	info, err := os.Stat(filepath.Join(dir, path))
	if err != nil {
		return err
	}
	files := []string{path}
	if info.IsDir() {
		matches, err := filepath.Glob(filepath.Join(dir, path, "*.go"))
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(matches, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		for i := range files {
			files[i] = filepath.Join(path, filepath.Base(files[i]))
		}
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(h, "%s %d\n", f, len(data))
		_, _ = h.Write(data)
	}
	return nil
}
