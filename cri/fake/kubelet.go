package fake

import (
	"fmt"
	"strconv"

	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pitstop.dev/cri"
)

// A Pod is what kubelet tells the runtime about one.
type Pod struct {
	UID       string
	Namespace string
	Name      string
	// Attempt is that of the sandbox, from 0.
	Attempt int
}

// A Container is one start of a container, as kubelet orders it.
type Container struct {
	PodUID string
	Name   string
	// Image is the string in the Pod's spec. It must be on the node.
	Image string
	// RestartCount goes into the annotation and must be new for this name.
	RestartCount int
	// Hash replaces kubelet's hash of name and image, if not "".
	Hash string
}

// RunPod makes a ready sandbox and returns its id.
func (r *Runtime) RunPod(p Pod) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runSandbox(&criv1.PodSandboxConfig{
		Metadata: &criv1.PodSandboxMetadata{Uid: p.UID, Namespace: p.Namespace, Name: p.Name, Attempt: uint32(p.Attempt)},
		Labels: map[string]string{
			"io.kubernetes.pod.uid": p.UID, "io.kubernetes.pod.namespace": p.Namespace, "io.kubernetes.pod.name": p.Name,
		},
	})
}

// CreateContainer makes a container in the Pod's newest sandbox and does not start it.
func (r *Runtime) CreateContainer(c Container) (id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	made, err := r.order(c)
	if err != nil {
		return "", err
	}
	return made.id, nil
}

// StartContainer makes a container in the Pod's newest sandbox and starts it.
func (r *Runtime) StartContainer(c Container) (id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	made, err := r.order(c)
	if err != nil {
		return "", err
	}
	return made.id, r.startContainer(made.id)
}

// SetPID says which process is the first of a container; without it there is none.
func (r *Runtime) SetPID(id string, pid int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.container(id); c != nil {
		c.pid = pid
	}
}

// order creates a container as kubelet does. The caller holds the lock.
func (r *Runtime) order(c Container) (*container, error) {
	var in *sandbox
	for _, b := range r.sandboxes {
		if b.config.GetMetadata().GetUid() == c.PodUID && b.ready {
			in = b
		}
	}
	if in == nil {
		return nil, fmt.Errorf("start container %s: pod %s has no ready sandbox", c.Name, c.PodUID)
	}
	image := r.resolve(c.Image)
	if image == nil {
		return nil, fmt.Errorf("start container %s: image %s is not on the node", c.Name, c.Image)
	}
	hash := c.Hash
	if hash == "" {
		hash = cri.KubeletHash(c.Name, c.Image)
	}
	return r.createContainer(in.id, &criv1.ContainerConfig{
		Metadata: &criv1.ContainerMetadata{Name: c.Name, Attempt: uint32(c.RestartCount)},
		Image:    &criv1.ImageSpec{Image: image.ID, UserSpecifiedImage: c.Image},
		Labels: map[string]string{
			"io.kubernetes.pod.uid":        c.PodUID,
			"io.kubernetes.pod.namespace":  in.config.GetMetadata().GetNamespace(),
			"io.kubernetes.pod.name":       in.config.GetMetadata().GetName(),
			"io.kubernetes.container.name": c.Name,
		},
		Annotations: map[string]string{
			"io.kubernetes.container.hash":         hash,
			"io.kubernetes.container.restartCount": strconv.Itoa(c.RestartCount),
		},
	})
}

// Exit ends a container by itself. One that is gone or has ended stays as it is.
func (r *Runtime) Exit(id string, code int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.container(id); c != nil {
		r.exit(c, code)
	}
}

// Stubborn makes a container ignore its stop signal; SIGKILL still ends it.
func (r *Runtime) Stubborn(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.container(id); c != nil {
		c.stubborn = true
	}
}

// Wedge makes a container survive SIGKILL too, as in uninterruptible sleep. Only Exit and
// the end of its sandbox end it.
func (r *Runtime) Wedge(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.container(id); c != nil {
		c.wedged = true
	}
}

// Signalled says whether a container was sent its stop signal.
func (r *Runtime) Signalled(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.container(id)
	return c != nil && c.signalled
}

// RemoveContainer takes a container's record away, as kubelet's collector does, and kills it
// if it runs.
func (r *Runtime) RemoveContainer(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeContainer(id)
}

// StopPod ends all sandboxes of a Pod with their containers. The records stay.
func (r *Runtime) StopPod(uid string) { r.eachSandbox(uid, r.stopSandbox) }

// RemovePod removes all records of a Pod.
func (r *Runtime) RemovePod(uid string) { r.eachSandbox(uid, r.removeSandbox) }

func (r *Runtime) eachSandbox(uid string, do func(id string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for _, b := range r.sandboxes {
		if b.config.GetMetadata().GetUid() == uid {
			ids = append(ids, b.id)
		}
	}
	for _, id := range ids {
		do(id)
	}
}
