package fake

import (
	"google.golang.org/grpc"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A subscriber is one open stream of events. Its queue grows as far as it must: a test that
// does not read must not stop the runtime.
type subscriber struct {
	queue []*criv1.ContainerEventResponse // under the Runtime's lock
	more  chan struct{}
}

// SetEvents changes what subscribers get. EventsOff ends the open streams.
func (r *Runtime) SetEvents(e Events) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = e
	for s := range r.subscribers {
		wake(s)
	}
}

// Subscribers returns how many streams of events are open.
func (r *Runtime) Subscribers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.subscribers)
}

func (s *runtimeServer) GetContainerEvents(_ *criv1.GetEventsRequest, stream grpc.ServerStreamingServer[criv1.ContainerEventResponse]) error {
	r := s.r
	sub := &subscriber{more: make(chan struct{}, 1)}
	r.mu.Lock()
	r.subscribers[sub] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subscribers, sub)
	}()
	for {
		r.mu.Lock()
		queue, off := sub.queue, r.events == EventsOff
		sub.queue = nil
		r.mu.Unlock()
		if off {
			return nil
		}
		for _, e := range queue {
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-sub.more:
		}
	}
}

// send broadcasts an event. The caller holds the lock.
func (r *Runtime) send(id, sandboxID string, kind criv1.ContainerEventType) {
	if r.events != EventsOn || len(r.subscribers) == 0 {
		return
	}
	e := &criv1.ContainerEventResponse{ContainerId: id, ContainerEventType: kind, CreatedAt: r.clock.Now().UnixNano()}
	if b := r.sandbox(sandboxID); b != nil {
		e.PodSandboxStatus = b.wire()
	}
	for _, c := range r.containers {
		if c.sandbox == sandboxID {
			e.ContainersStatuses = append(e.ContainersStatuses, r.status(c))
		}
	}
	for s := range r.subscribers {
		s.queue = append(s.queue, e)
		wake(s)
	}
}

func wake(s *subscriber) {
	select {
	case s.more <- struct{}{}:
	default:
	}
}
