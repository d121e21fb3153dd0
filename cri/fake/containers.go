package fake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A sandbox is one that exists. Its fields change under the Runtime's lock.
type sandbox struct {
	id      string
	config  *criv1.PodSandboxConfig
	ready   bool
	created time.Time
}

// A container is one that exists. Its fields change under the Runtime's lock.
type container struct {
	id      string
	sandbox string
	config  *criv1.ContainerConfig
	image   Image

	state                      criv1.ContainerState
	created, started, finished time.Time
	code                       int32
	reason                     string
	signalled                  bool // the stop signal is sent once in a container's life
	stubborn                   bool
	wedged                     bool
	pid                        int32         // of its first process; 0: it has none
	exited                     chan struct{} // closed at the exit
}

type runtimeServer struct {
	criv1.UnimplementedRuntimeServiceServer
	r *Runtime
}

func (s *runtimeServer) Version(context.Context, *criv1.VersionRequest) (*criv1.VersionResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return &criv1.VersionResponse{Version: "0.1.0", RuntimeName: s.r.name, RuntimeVersion: s.r.version, RuntimeApiVersion: "v1"}, nil
}

func (s *runtimeServer) Status(context.Context, *criv1.StatusRequest) (*criv1.StatusResponse, error) {
	return &criv1.StatusResponse{Status: &criv1.RuntimeStatus{Conditions: []*criv1.RuntimeCondition{
		{Type: criv1.RuntimeReady, Status: true}, {Type: criv1.NetworkReady, Status: true},
	}}}, nil
}

func (s *runtimeServer) RunPodSandbox(_ context.Context, req *criv1.RunPodSandboxRequest) (*criv1.RunPodSandboxResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return &criv1.RunPodSandboxResponse{PodSandboxId: s.r.runSandbox(req.GetConfig())}, nil
}

func (s *runtimeServer) StopPodSandbox(_ context.Context, req *criv1.StopPodSandboxRequest) (*criv1.StopPodSandboxResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.stopSandbox(req.GetPodSandboxId())
	return &criv1.StopPodSandboxResponse{}, nil
}

func (s *runtimeServer) RemovePodSandbox(_ context.Context, req *criv1.RemovePodSandboxRequest) (*criv1.RemovePodSandboxResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.removeSandbox(req.GetPodSandboxId())
	return &criv1.RemovePodSandboxResponse{}, nil
}

func (s *runtimeServer) ListPodSandbox(_ context.Context, req *criv1.ListPodSandboxRequest) (*criv1.ListPodSandboxResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var answer criv1.ListPodSandboxResponse
	for _, b := range s.r.sandboxes {
		if f := req.GetFilter(); f.GetId() != "" && f.GetId() != b.id || !matches(b.config.GetLabels(), f.GetLabelSelector()) {
			continue
		}
		answer.Items = append(answer.Items, &criv1.PodSandbox{
			Id: b.id, Metadata: b.config.GetMetadata(), State: b.state(), CreatedAt: b.created.UnixNano(),
			Labels: b.config.GetLabels(), Annotations: b.config.GetAnnotations(),
		})
	}
	return &answer, nil
}

func (s *runtimeServer) PodSandboxStatus(_ context.Context, req *criv1.PodSandboxStatusRequest) (*criv1.PodSandboxStatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	b := s.r.sandbox(req.GetPodSandboxId())
	if b == nil {
		return nil, notFound("an error occurred when try to find sandbox")
	}
	return &criv1.PodSandboxStatusResponse{Status: b.wire()}, nil
}

func (s *runtimeServer) CreateContainer(_ context.Context, req *criv1.CreateContainerRequest) (*criv1.CreateContainerResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c, err := s.r.createContainer(req.GetPodSandboxId(), req.GetConfig())
	if err != nil {
		return nil, err
	}
	return &criv1.CreateContainerResponse{ContainerId: c.id}, nil
}

func (s *runtimeServer) StartContainer(_ context.Context, req *criv1.StartContainerRequest) (*criv1.StartContainerResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return &criv1.StartContainerResponse{}, s.r.startContainer(req.GetContainerId())
}

func (s *runtimeServer) RemoveContainer(_ context.Context, req *criv1.RemoveContainerRequest) (*criv1.RemoveContainerResponse, error) {
	s.r.RemoveContainer(req.GetContainerId())
	return &criv1.RemoveContainerResponse{}, nil
}

func (s *runtimeServer) ListContainers(_ context.Context, req *criv1.ListContainersRequest) (*criv1.ListContainersResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var answer criv1.ListContainersResponse
	for _, c := range s.r.containers {
		f := req.GetFilter()
		if f.GetId() != "" && f.GetId() != c.id || f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.sandbox ||
			f.GetState() != nil && f.GetState().GetState() != c.state || !matches(c.config.GetLabels(), f.GetLabelSelector()) {
			continue
		}
		answer.Containers = append(answer.Containers, s.r.listed(c))
	}
	return &answer, nil
}

func (s *runtimeServer) ContainerStatus(_ context.Context, req *criv1.ContainerStatusRequest) (*criv1.ContainerStatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c := s.r.container(req.GetContainerId())
	if c == nil {
		return nil, notFound("an error occurred when try to find container %q", req.GetContainerId())
	}
	answer := &criv1.ContainerStatusResponse{Status: s.r.status(c)}
	if req.GetVerbose() {
		answer.Info = map[string]string{"info": fmt.Sprintf(`{"sandboxID":%q,"pid":%d}`, c.sandbox, c.task())}
	}
	return answer, nil
}

// StopContainer follows containerd: one stop signal in a container's life, SIGKILL once the
// grace is over, at once for 0, and never after the caller has gone.
func (s *runtimeServer) StopContainer(ctx context.Context, req *criv1.StopContainerRequest) (*criv1.StopContainerResponse, error) {
	r := s.r
	r.mu.Lock()
	c := r.container(req.GetContainerId())
	if c == nil || c.state != criv1.ContainerState_CONTAINER_RUNNING {
		r.mu.Unlock()
		return &criv1.StopContainerResponse{}, nil
	}
	grace := time.Duration(req.GetTimeout()) * time.Second
	if grace > 0 && !c.signalled {
		c.signalled = true
		if !c.stubborn && !c.wedged {
			r.exit(c, 0)
		}
	}
	exited := c.exited
	timer := r.clock.NewTimer(grace)
	r.mu.Unlock()
	defer timer.Stop()
	if grace > 0 {
		select {
		case <-exited:
			return &criv1.StopContainerResponse{}, nil
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-timer.C():
		}
	}
	r.mu.Lock()
	if !c.wedged {
		r.exit(c, 137)
	}
	r.mu.Unlock()
	select {
	case <-exited:
		return &criv1.StopContainerResponse{}, nil
	case <-ctx.Done():
		return nil, status.Errorf(status.FromContextError(ctx.Err()).Code(),
			"an error occurs during waiting for container %q to be killed: wait container %q: %v", c.id, c.id, ctx.Err())
	}
}

func matches(labels, selector map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// The functions below need the Runtime's lock.

func (r *Runtime) sandbox(id string) *sandbox {
	if i := slices.IndexFunc(r.sandboxes, func(b *sandbox) bool { return b.id == id }); i >= 0 {
		return r.sandboxes[i]
	}
	return nil
}

func (r *Runtime) container(id string) *container {
	if i := slices.IndexFunc(r.containers, func(c *container) bool { return c.id == id }); i >= 0 {
		return r.containers[i]
	}
	return nil
}

func (r *Runtime) runSandbox(config *criv1.PodSandboxConfig) string {
	b := &sandbox{id: r.id(), config: config, ready: true, created: r.clock.Now()}
	r.sandboxes = append(r.sandboxes, b)
	r.send(b.id, b.id, criv1.ContainerEventType_CONTAINER_CREATED_EVENT)
	r.send(b.id, b.id, criv1.ContainerEventType_CONTAINER_STARTED_EVENT)
	return b.id
}

func (r *Runtime) stopSandbox(id string) {
	b := r.sandbox(id)
	if b == nil || !b.ready {
		return
	}
	for _, c := range r.containers {
		if c.sandbox == id {
			r.exit(c, 137)
		}
	}
	b.ready = false
	r.send(id, id, criv1.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

func (r *Runtime) removeSandbox(id string) {
	r.stopSandbox(id)
	for _, c := range slices.Clone(r.containers) {
		if c.sandbox == id {
			r.removeContainer(c.id)
		}
	}
	if r.sandbox(id) == nil {
		return
	}
	r.sandboxes = slices.DeleteFunc(r.sandboxes, func(b *sandbox) bool { return b.id == id })
	r.send(id, id, criv1.ContainerEventType_CONTAINER_DELETED_EVENT)
}

func (r *Runtime) createContainer(sandboxID string, config *criv1.ContainerConfig) (*container, error) {
	b := r.sandbox(sandboxID)
	if b == nil {
		return nil, notFound("failed to find sandbox id %q", sandboxID)
	}
	if !b.ready {
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", sandboxID)
	}
	i := r.resolve(config.GetImage().GetImage())
	if i == nil {
		return nil, notFound("failed to resolve image %q", config.GetImage().GetImage())
	}
	for _, c := range r.containers {
		if m, n := c.config.GetMetadata(), config.GetMetadata(); c.sandbox == sandboxID && m.GetName() == n.GetName() && m.GetAttempt() == n.GetAttempt() {
			return nil, status.Errorf(codes.Unknown, "failed to reserve container name %q: name is reserved for %q",
				fmt.Sprintf("%s_%d", n.GetName(), n.GetAttempt()), c.id)
		}
	}
	c := &container{
		id: r.id(), sandbox: sandboxID, config: config, image: i.Image, created: r.clock.Now(),
		state: criv1.ContainerState_CONTAINER_CREATED, stubborn: i.Stubborn, exited: make(chan struct{}),
	}
	r.containers = append(r.containers, c)
	r.send(c.id, sandboxID, criv1.ContainerEventType_CONTAINER_CREATED_EVENT)
	return c, nil
}

func (r *Runtime) startContainer(id string) error {
	c := r.container(id)
	if c == nil {
		return notFound("an error occurred when try to find container %q", id)
	}
	if c.state != criv1.ContainerState_CONTAINER_CREATED {
		return status.Errorf(codes.Unknown, "failed to set starting state for container %q: container is in %s state", id, c.state)
	}
	c.state, c.started = criv1.ContainerState_CONTAINER_RUNNING, r.clock.Now()
	r.send(id, c.sandbox, criv1.ContainerEventType_CONTAINER_STARTED_EVENT)
	return nil
}

func (r *Runtime) exit(c *container, code int32) {
	if c.state == criv1.ContainerState_CONTAINER_EXITED {
		return
	}
	c.state, c.finished, c.code = criv1.ContainerState_CONTAINER_EXITED, r.clock.Now(), code
	c.reason = "Completed"
	if code != 0 {
		c.reason = "Error"
	}
	close(c.exited)
	r.send(c.id, c.sandbox, criv1.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

func (r *Runtime) removeContainer(id string) {
	c := r.container(id)
	if c == nil {
		return
	}
	r.exit(c, 137)
	r.containers = slices.DeleteFunc(r.containers, func(c *container) bool { return c.id == id })
	r.send(id, c.sandbox, criv1.ContainerEventType_CONTAINER_DELETED_EVENT)
}

// task is the PID that the runtime tells: none of a container that does not run.
func (c *container) task() int32 {
	if c.state != criv1.ContainerState_CONTAINER_RUNNING {
		return 0
	}
	return c.pid
}

func (b *sandbox) state() criv1.PodSandboxState {
	if b.ready {
		return criv1.PodSandboxState_SANDBOX_READY
	}
	return criv1.PodSandboxState_SANDBOX_NOTREADY
}

func (b *sandbox) wire() *criv1.PodSandboxStatus {
	return &criv1.PodSandboxStatus{
		Id: b.id, Metadata: b.config.GetMetadata(), State: b.state(), CreatedAt: b.created.UnixNano(),
		Labels: b.config.GetLabels(), Annotations: b.config.GetAnnotations(),
	}
}

// listed is the container as ListContainers has it, with each runtime's way with images.
func (r *Runtime) listed(c *container) *criv1.Container {
	answer := &criv1.Container{
		Id: c.id, PodSandboxId: c.sandbox, Metadata: c.config.GetMetadata(), State: c.state, CreatedAt: c.created.UnixNano(),
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		Image: c.config.GetImage(), ImageRef: c.image.ID,
	}
	if r.imageIDs() {
		answer.ImageId = r.bare(c.image.ID)
	}
	if r.crio() {
		answer.Image = &criv1.ImageSpec{Image: c.config.GetImage().GetImage()}
		_, answer.ImageRef = r.names(c)
	}
	return answer
}

// status is the container as ContainerStatus has it: the image's names are those that it has
// on the node now, the id alone once it is gone.
func (r *Runtime) status(c *container) *criv1.ContainerStatus {
	answer := &criv1.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state, CreatedAt: c.created.UnixNano(),
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		ExitCode: c.code, Reason: c.reason,
	}
	if !c.started.IsZero() {
		answer.StartedAt = c.started.UnixNano()
	}
	if !c.finished.IsZero() {
		answer.FinishedAt = c.finished.UnixNano()
	}
	tag, ref := r.names(c)
	answer.Image, answer.ImageRef = &criv1.ImageSpec{Image: tag}, ref
	if r.imageIDs() {
		answer.ImageId = r.bare(c.image.ID)
	}
	return answer
}

// names returns any tag and any digest of a container's image.
func (r *Runtime) names(c *container) (tag, ref string) {
	tag, ref = c.config.GetImage().GetImage(), c.image.ID
	if n := r.node[c.image.ID]; n != nil {
		if len(n.tags) > 0 {
			tag = n.tags[0]
		}
		if len(n.digests) > 0 {
			ref = n.digests[0]
		}
	}
	return tag, ref
}
