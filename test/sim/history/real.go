package history

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/coordinator/plan"
	"pitstop.dev/coordinator/serving/modelserving"
	"pitstop.dev/coordinator/serving/servinggroup"
)

// Recorder takes the events that the coordinator writes.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// recorder tells the trace of events.
type recorder struct{ p *process }

func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	if r.p.h.trace == nil {
		return
	}
	name := ""
	if o, ok := regarding.(client.Object); ok {
		name = o.GetName()
	}
	r.p.h.tell(r.p.name, fmt.Sprintf("event %s on %s: %s", reason, name, fmt.Sprintf(note, args...)))
}

// Real is the coordinator as it is.
func Real(d Deps) (Reconcilers, error) { return Planned(plan.Decide)(d) }

// Planned is the coordinator with another planner.
func Planned(decide func(plan.Snapshot) plan.Plan) Build {
	return func(d Deps) (Reconcilers, error) {
		ms, err := modelserving.New(modelserving.Config{Client: d.Client, Live: d.Live, Clock: d.Clock, Events: d.Events, Decide: decide})
		if err != nil {
			return Reconcilers{}, fmt.Errorf("build ModelServing controller: %w", err)
		}
		sg, err := servinggroup.New(servinggroup.Config{Client: d.Client, Pins: d.Pins, Live: d.Live, Clock: d.Clock, Events: d.Events, Namespace: d.Namespace, Trifles: time.Second, Pin: servinggroup.PinConfig{Image: "agent"}})
		if err != nil {
			return Reconcilers{}, fmt.Errorf("build ServingGroup controller: %w", err)
		}
		return Reconcilers{ModelServing: ms, ServingGroup: sg}, nil
	}
}
