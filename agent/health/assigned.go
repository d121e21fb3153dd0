package health

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/attribution"
)

// A PodResources asks kubelet which devices it has assigned.
type PodResources interface {
	Read(context.Context) attribution.Assignments
}

// Kubelet is the Assigner that asks kubelet. What a Pod was given stays its own for as long as it lives, so that what was
// known once counts while kubelet does not answer.
type Kubelet struct {
	resources PodResources
	known     map[types.UID][]string
}

// NewKubelet returns an Assigner for one Monitor: it must not be used from several goroutines.
func NewKubelet(r PodResources) *Kubelet {
	return &Kubelet{resources: r, known: map[types.UID][]string{}}
}

// Assigned implements Assigner.
func (k *Kubelet) Assigned(ctx context.Context, pods []*corev1.Pod, r gpu.Reading) map[types.UID][]string {
	a := k.resources.Read(ctx)
	out := map[types.UID][]string{}
	for _, pod := range pods {
		before, was := k.known[pod.UID]
		uuids, known := assignedTo(a, pod, r)
		switch {
		case known:
			out[pod.UID] = uuids
		case was:
			out[pod.UID] = before
		}
	}
	k.known = out
	return out
}

// assignedTo returns the GPUs of a Pod, and whether these are known.
func assignedTo(a attribution.Assignments, pod *corev1.Pod, r gpu.Reading) (uuids []string, known bool) {
	if a.Confidence != attribution.Known {
		return nil, false
	}
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for _, c := range containers {
		for _, d := range a.Of(attribution.PodName{Namespace: pod.Namespace, Name: pod.Name}, c.Name) {
			uuid, known := uuidOf(d, r)
			switch {
			case !known:
				return nil, false
			case uuid != "" && !slices.Contains(uuids, uuid):
				uuids = append(uuids, uuid)
			}
		}
	}
	return uuids, true
}

// uuidOf returns the UUID of an assigned device; empty: it is no GPU. One that the driver does not list keeps the UUID
// that kubelet has for it.
func uuidOf(d attribution.Assigned, r gpu.Reading) (uuid string, known bool) {
	if d.Ref == nil {
		return "", !d.GPU() // of another kind, or one that cannot be told
	}
	target, found := d.Ref.Find(r)
	switch {
	case found && target.MIG != nil:
		return target.MIG.UUID, true
	case found:
		return target.Device.UUID, true
	}
	return d.Ref.UUID, d.Ref.UUID != ""
}

// Holders is the Residency that joins what the driver, procfs and the runtime say.
type Holders struct{ attribution.Attributor }

// Residents implements Residency.
func (h Holders) Residents(ctx context.Context, r gpu.Reading) (map[string][]states.Resident, bool) {
	list, known := h.Attribute(ctx, r)
	by := map[string][]states.Resident{}
	for _, device := range list {
		known = known && device.Known
		for _, p := range device.List {
			by[device.UUID] = append(by[device.UUID], states.Resident{
				PID: p.PID, Name: p.Command, PodUID: p.PodUID, Container: p.Container, MIG: p.MIG, UsedMiB: p.MiB, Doubt: doubtOf(p),
			})
		}
	}
	return by, known
}

// doubtOf says in plain words what is not known of a holder; empty: whose it is is known.
func doubtOf(h attribution.Holder) string {
	switch {
	case h.Outcome == attribution.Attributed:
		return ""
	case h.Reason == attribution.NotInProcfs: // its message names the PID, which the Resident has
		return "it has ended, or is in another PID namespace"
	case h.Outcome == attribution.Unattributed && h.Message != "":
		return h.Message
	}
	return strings.TrimSuffix("whose it is cannot be told: "+h.Message, ": ")
}
