package cri

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// What kubelet writes on every sandbox and container it creates.
const (
	labelPodUID            = "io.kubernetes.pod.uid"
	labelContainerName     = "io.kubernetes.container.name"
	annotationHash         = "io.kubernetes.container.hash"
	annotationRestartCount = "io.kubernetes.container.restartCount"
)

// A State is what a container does.
type State string

// The states of a container.
const (
	Created State = "Created" // exists and was never started
	Running State = "Running"
	Exited  State = "Exited"
	Unknown State = "Unknown" // the runtime has lost track of it; not dead, not alive
)

// A Pod is every record that the runtime has of one Pod.
type Pod struct {
	// Sandboxes are newest first. More than one: the sandbox was rebuilt.
	Sandboxes []Sandbox
	// Containers hold every attempt, sorted by name, then newest first.
	Containers []Container
}

// A Sandbox is what a Pod's containers share: network, IPC, the cgroup above them.
type Sandbox struct {
	ID        string
	Ready     bool
	Attempt   int
	CreatedAt time.Time
}

// A Container is one record of the runtime: one start of one container of a Pod.
type Container struct {
	ID        string
	Name      string
	SandboxID string
	State     State
	// Hash is kubelet's hash of the definition, in hex; see KubeletHash. Empty: not made by
	// kubelet.
	Hash string
	// RestartCount is kubelet's. It can fall back once dead containers were collected:
	// identify by ID and CreatedAt, and never by this.
	RestartCount int
	// Image is what kubelet handed to the runtime: a resolved image id as a rule.
	Image string
	// UserImage is the string in the Pod's spec where the runtime keeps it; CRI-O does not.
	UserImage string
	// ImageID is the digest of the image's configuration, comparable with Image.ID. Empty:
	// the runtime does not say.
	ImageID string
	// The rest is from the container's status. StartedAt and FinishedAt are zero for what
	// has not happened; ExitCode, Reason and Message are those of an Exited container.
	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int32
	Reason, Message                  string
}

// Newest returns the latest record of the named container.
func (p Pod) Newest(name string) (Container, bool) {
	i := slices.IndexFunc(p.Containers, func(c Container) bool { return c.Name == name })
	if i < 0 {
		return Container{}, false
	}
	return p.Containers[i], true
}

// Container returns the record with this id.
func (p Pod) Container(id string) (Container, bool) {
	i := slices.IndexFunc(p.Containers, func(c Container) bool { return c.ID == id })
	if i < 0 {
		return Container{}, false
	}
	return p.Containers[i], true
}

// Pod returns what the runtime knows about the Pod with this UID; no record at all is an
// empty Pod and no error. The parts are read one after the other, and one missing record
// proves nothing: kubelet may be replacing it at this moment.
func (c *Client) Pod(ctx context.Context, podUID string) (Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	selector := map[string]string{labelPodUID: podUID}
	sandboxes, err := c.runtime.ListPodSandbox(ctx, &criv1.ListPodSandboxRequest{
		Filter: &criv1.PodSandboxFilter{LabelSelector: selector},
	})
	if err != nil {
		return Pod{}, fmt.Errorf("sandboxes of pod %s: %w", podUID, translate(err))
	}
	containers, err := c.runtime.ListContainers(ctx, &criv1.ListContainersRequest{
		Filter: &criv1.ContainerFilter{LabelSelector: selector},
	})
	if err != nil {
		return Pod{}, fmt.Errorf("containers of pod %s: %w", podUID, translate(err))
	}
	var pod Pod
	for _, s := range sandboxes.GetItems() {
		pod.Sandboxes = append(pod.Sandboxes, sandbox(s))
	}
	for _, listed := range containers.GetContainers() {
		r, err := c.runtime.ContainerStatus(ctx, &criv1.ContainerStatusRequest{ContainerId: listed.GetId()})
		if status.Code(err) == codes.NotFound {
			continue // removed since it was listed
		}
		if err != nil {
			return Pod{}, fmt.Errorf("status of container %s: %w", listed.GetId(), translate(err))
		}
		pod.Containers = append(pod.Containers, container(listed, r.GetStatus()))
	}
	slices.SortFunc(pod.Sandboxes, func(a, b Sandbox) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Attempt, a.Attempt))
	})
	slices.SortFunc(pod.Containers, func(a, b Container) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.RestartCount, a.RestartCount))
	})
	return pod, nil
}

func sandbox(s *criv1.PodSandbox) Sandbox {
	return Sandbox{
		ID:        s.GetId(),
		Ready:     s.GetState() == criv1.PodSandboxState_SANDBOX_READY,
		Attempt:   int(s.GetMetadata().GetAttempt()),
		CreatedAt: instant(s.GetCreatedAt()),
	}
}

// container joins the two views of one container. The image comes from the list: containerd
// overwrites it in the status with any tag of the same image, and fills image_id in only
// from 2.3 on. Everything that changes comes from the status, which is the later reading.
func container(listed *criv1.Container, s *criv1.ContainerStatus) Container {
	c := Container{
		ID:           listed.GetId(),
		Name:         cmp.Or(listed.GetLabels()[labelContainerName], listed.GetMetadata().GetName()),
		SandboxID:    listed.GetPodSandboxId(),
		State:        state(s.GetState()),
		Hash:         listed.GetAnnotations()[annotationHash],
		RestartCount: int(listed.GetMetadata().GetAttempt()),
		Image:        listed.GetImage().GetImage(),
		UserImage:    listed.GetImage().GetUserSpecifiedImage(),
		// Before 2.3 containerd's list has the digest in image_ref; a reference in there is
		// another runtime's and does not pass for an id.
		ImageID:    cmp.Or(imageID(listed.GetImageId()), imageID(s.GetImageId()), imageID(listed.GetImageRef())),
		CreatedAt:  instant(cmp.Or(listed.GetCreatedAt(), s.GetCreatedAt())),
		StartedAt:  instant(s.GetStartedAt()),
		FinishedAt: instant(s.GetFinishedAt()),
		ExitCode:   s.GetExitCode(),
		Reason:     s.GetReason(),
		Message:    s.GetMessage(),
	}
	if s == nil {
		c.State = Unknown
	}
	if n, err := strconv.Atoi(listed.GetAnnotations()[annotationRestartCount]); err == nil {
		c.RestartCount = n
	}
	return c
}

func state(s criv1.ContainerState) State {
	switch s {
	case criv1.ContainerState_CONTAINER_CREATED:
		return Created
	case criv1.ContainerState_CONTAINER_RUNNING:
		return Running
	case criv1.ContainerState_CONTAINER_EXITED:
		return Exited
	case criv1.ContainerState_CONTAINER_UNKNOWN:
		return Unknown
	default:
		return Unknown
	}
}

// instant reads the nanoseconds of CRI, in which 0 is "not yet". CRI-O gives the zero time's
// nanoseconds, which are negative.
func instant(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
