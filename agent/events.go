package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// events tell people what the agent did, on the Pod.
type events struct {
	api         *apiServer
	node        string
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newEvents(api *apiServer, node string) *events { return &events{api: api, node: node} }

func (e *events) start(ctx context.Context) {
	e.broadcaster = record.NewBroadcaster(record.WithContext(ctx))
	e.recorder = e.broadcaster.NewRecorder(e.api.scheme, corev1.EventSource{Component: "pitstop-agent", Host: e.node})
	e.broadcaster.StartRecordingToSink(eventSink{ctx: ctx, api: e.api})
}

func (e *events) stop() { e.broadcaster.Shutdown() }

func (e *events) note(s *sight, kind, reason, message string) {
	if s.pod == nil {
		return
	}
	ref := &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: s.pod.Namespace, Name: s.pod.Name, UID: s.pod.UID}
	e.recorder.Event(ref, kind, reason, message)
}

// eventSink writes events with the agent's own client.
type eventSink struct {
	ctx context.Context // the interface of the recorder has none
	api *apiServer
}

func (s eventSink) Create(e *corev1.Event) (*corev1.Event, error) {
	var out corev1.Event
	err := s.api.core.Post().Namespace(e.Namespace).Resource("events").Body(e).Do(s.ctx).Into(&out)
	return &out, err
}

func (s eventSink) Update(e *corev1.Event) (*corev1.Event, error) {
	var out corev1.Event
	err := s.api.core.Put().Namespace(e.Namespace).Resource("events").Name(e.Name).Body(e).Do(s.ctx).Into(&out)
	return &out, err
}

func (s eventSink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	var out corev1.Event
	err := s.api.core.Patch(types.StrategicMergePatchType).Namespace(e.Namespace).Resource("events").Name(e.Name).
		Body(data).Do(s.ctx).Into(&out)
	return &out, err
}
