package contract

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/wait"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pitstop.dev/cri"
)

// A kubelet makes Pods by plain CRI, with the labels and annotations of the real one.
type kubelet struct{ runtime criv1.RuntimeServiceClient }

// A pod is one that it runs.
type pod struct {
	uid     string
	sandbox string
	config  *criv1.PodSandboxConfig
}

// A start is what it starts: the string in the Pod's spec, and the image id that kubelet
// found for it.
type start struct {
	name    string
	ref     string
	image   string
	attempt int
}

func newKubelet(t *testing.T, endpoint string) *kubelet {
	t.Helper()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return &kubelet{runtime: criv1.NewRuntimeServiceClient(conn)}
}

func (k *kubelet) runPod(t *testing.T) pod {
	t.Helper()
	name := strings.NewReplacer("/", "-", " ", "-", ",", "").Replace(strings.ToLower(t.Name()))
	p := pod{uid: "uid-" + name}
	p.config = &criv1.PodSandboxConfig{
		Metadata: &criv1.PodSandboxMetadata{Name: name, Namespace: "contract", Uid: p.uid},
		Labels: map[string]string{
			"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "contract", "io.kubernetes.pod.uid": p.uid,
		},
		// The host's namespaces need no network plugin.
		Linux: &criv1.LinuxPodSandboxConfig{SecurityContext: &criv1.LinuxSandboxSecurityContext{
			NamespaceOptions: &criv1.NamespaceOption{Network: criv1.NamespaceMode_NODE},
		}},
	}
	r, err := k.runtime.RunPodSandbox(t.Context(), &criv1.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		t.Fatal(err)
	}
	p.sandbox = r.GetPodSandboxId()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
		defer cancel()
		if _, err := k.runtime.StopPodSandbox(ctx, &criv1.StopPodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
			t.Error(err)
		}
		if _, err := k.runtime.RemovePodSandbox(ctx, &criv1.RemovePodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (k *kubelet) create(t *testing.T, p pod, s start) (id string) {
	t.Helper()
	r, err := k.runtime.CreateContainer(t.Context(), &criv1.CreateContainerRequest{
		PodSandboxId:  p.sandbox,
		SandboxConfig: p.config,
		Config: &criv1.ContainerConfig{
			Metadata: &criv1.ContainerMetadata{Name: s.name, Attempt: uint32(s.attempt)},
			Image:    &criv1.ImageSpec{Image: s.image, UserSpecifiedImage: s.ref},
			Labels: map[string]string{
				"io.kubernetes.container.name": s.name, "io.kubernetes.pod.name": p.config.GetMetadata().GetName(),
				"io.kubernetes.pod.namespace": "contract", "io.kubernetes.pod.uid": p.uid,
			},
			Annotations: map[string]string{
				"io.kubernetes.container.hash":         cri.KubeletHash(s.name, s.ref),
				"io.kubernetes.container.restartCount": strconv.Itoa(s.attempt),
			},
			LogPath: fmt.Sprintf("%s_%d.log", s.name, s.attempt),
			Linux: &criv1.LinuxContainerConfig{SecurityContext: &criv1.LinuxContainerSecurityContext{
				NamespaceOptions: &criv1.NamespaceOption{Network: criv1.NamespaceMode_NODE},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.GetContainerId()
}

func (k *kubelet) start(t *testing.T, p pod, s start) (id string) {
	t.Helper()
	id = k.create(t, p, s)
	if _, err := k.runtime.StartContainer(t.Context(), &criv1.StartContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	k.settle(t, id)
	return id
}

// settle waits until the container's program heeds signals. A fake runtime has no process, and nothing to
// wait for.
func (k *kubelet) settle(t *testing.T, id string) {
	t.Helper()
	status, err := k.runtime.ContainerStatus(t.Context(), &criv1.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		t.Fatal(err)
	}
	var process struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(cmp.Or(status.GetInfo()["info"], "{}")), &process); err != nil {
		t.Fatal(err)
	}
	if process.PID == 0 {
		return
	}
	ready := fmt.Sprintf("/proc/%d/root/ready", process.PID)
	err = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		_, err := os.Stat(ready)
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("container %s did not get ready: %v", id, err)
	}
}

func (k *kubelet) remove(t *testing.T, id string) {
	t.Helper()
	if _, err := k.runtime.RemoveContainer(t.Context(), &criv1.RemoveContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
}
