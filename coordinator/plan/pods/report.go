package pods

import (
	"cmp"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

const (
	// overdue is how long a Pod may outlast its grace period before that is reported.
	overdue = time.Minute
	// reread is how long it takes until a revision that could not be read is read again.
	reread = 30 * time.Second
	// maxMessage is the longest message that the API takes, and maxFault that of a GPU.
	maxMessage = 1024
	maxFault   = 256
	// maxPins is how many names of pin Pods the status takes.
	maxPins = 1000
)

// report says what is, and what stands in the way.
func (d *decision) report() {
	st := &d.plan.Status
	st.Conditions = append([]metav1.Condition(nil), d.s.Group.Status.Conditions...)
	st.ObservedGeneration = d.s.Group.Generation
	for _, i := range d.instances {
		one := d.reportInstance(i)
		st.Pods += one.Pods
		st.ReadyPods += one.ReadyPods
		st.LivePods += one.LivePods
		st.Instances = append(st.Instances, one)
	}
	st.PinPods = d.pinNames()
	for n := range st.Updates {
		st.Updates[n].Message = Cut(st.Updates[n].Message)
	}
	d.unresolved()
	d.stuckPods()
	d.plan.Ready, d.plan.Blocked = d.ready(), Verdict{Reason: v1alpha1.NotBlocked, Message: "nothing stands in the way"}
	if len(d.blocks) > 0 {
		d.plan.Blocked = gravest(d.blocks)
	}
	d.condition(v1alpha1.ConditionReady, d.plan.Ready)
	d.condition(v1alpha1.ConditionBlocked, d.plan.Blocked)
}

// SetCondition writes a verdict into the status.
func SetCondition(st *v1alpha1.ServingGroupStatus, kind string, v Verdict, now metav1.Time) {
	c := metav1.Condition{
		Type: kind, Status: metav1.ConditionFalse, Reason: string(v.Reason), Message: Cut(v.Message),
		ObservedGeneration: st.ObservedGeneration, LastTransitionTime: now,
	}
	if v.True {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&st.Conditions, c)
}

func (d *decision) condition(kind string, v Verdict) {
	SetCondition(&d.plan.Status, kind, v, d.now())
}

func (d *decision) reportInstance(i *instance) v1alpha1.InstanceStatus {
	one := v1alpha1.InstanceStatus{
		Role: i.role, Ordinal: new(i.ordinal), Phase: i.phase, Revision: i.revision(),
		Pods: i.size(), ReadyPods: i.readyPods(), LivePods: int32(len(i.pods)), Recoveries: i.recoveries,
	}
	for _, p := range i.pods {
		one.DeletionCost += p.DeletionCost
		one.GPUFault = cmp.Or(one.GPUFault, i.gpuFault(p))
	}
	one.Ready = i.update == nil && i.declared && i.all(func(p Pod) bool { return p.Ready })
	if one.Ready {
		one.ReadySince = i.readySince()
	} else {
		one.Message = Cut(i.why(d.s.Group.Name))
	}
	if entry, ok := i.at(0); !ok || !entry.Ready || entry.Deleting {
		if one.DownSince = i.old.DownSince; one.DownSince == nil {
			one.DownSince = new(d.now())
		}
	}
	return one
}

// revision is the one that all Pods of the instance are at; empty if they differ.
func (i *instance) revision() string {
	var one string
	for n, p := range i.pods {
		is := p.Revision
		if i.declared && i.atPin(p) {
			is = i.pin
		}
		if n > 0 && is != one {
			return ""
		}
		one = is
	}
	return one
}

func (i *instance) readySince() *metav1.Time {
	var last time.Time
	for _, p := range i.pods {
		last = later(last, p.ReadySince)
	}
	if last.IsZero() {
		return i.old.ReadySince
	}
	return new(metav1.NewTime(last).Rfc3339Copy())
}

// why says why the instance is not ready.
func (i *instance) why(group string) string {
	switch {
	case i.declared && !i.resolved:
		return "revision " + i.pin + " cannot be read"
	case i.trouble != "":
		return i.trouble
	}
	if at := i.incomplete(group); at.stage != "" {
		return at.message
	}
	for _, p := range i.pods {
		switch {
		case i.outdated(p):
			return "Pod " + p.Name + " is to be replaced"
		case !p.Ready:
			return notReady(p)
		}
	}
	if i.update != nil {
		return "in an update"
	}
	return ""
}

func (d *decision) ready() Verdict {
	for n, i := range d.instances {
		one := d.plan.Status.Instances[n]
		if i.declared && one.ReadyPods < one.Pods || i.declared && !i.resolved && !one.Ready {
			message := cmp.Or(one.Message, i.why(d.s.Group.Name))
			return Verdict{Reason: v1alpha1.GroupNotReady, Message: "instance " + i.unit + ": " + message}
		}
	}
	if d.s.Group.Deleting {
		return Verdict{Reason: v1alpha1.GroupNotReady, Message: "the group is being deleted"}
	}
	return Verdict{True: true, Reason: v1alpha1.GroupReady, Message: "all Pods are Ready"}
}

// unresolved reports the revisions that cannot be read.
func (d *decision) unresolved() {
	for _, i := range d.instances {
		if i.declared && !i.resolved && !d.s.Group.Deleting {
			d.by(d.s.Now.Add(reread))
			d.block(v1alpha1.BlockedRevision, "revision "+i.pin+" of "+unitWords(i.unit)+
				" is missing, cannot be read, or does not have the role: nothing of it is created or deleted until it is restored")
		}
	}
}

// stuckPods reports Pods that were deleted and do not go.
func (d *decision) stuckPods() {
	for _, i := range d.instances {
		for _, p := range i.pods {
			if !p.Deleting || !d.due(p.DeletedAt.Add(overdue)) {
				continue
			}
			since := stamp(metav1.NewTime(p.DeletedAt))
			if p.NodeLost {
				d.block(v1alpha1.BlockedNode, "Pod "+p.Name+" was to be gone at "+since+" and node "+p.Node+
					" does not answer: bring the node back, or delete its Node object or the Pod by force once it is certain that it is down")
			} else {
				d.block(v1alpha1.BlockedDelete, "Pod "+p.Name+" was to be gone at "+since+
					": look for finalizers on it, and at kubelet on node "+p.Node)
			}
		}
	}
}

// gravest returns the verdict that is to be seen first: what needs a person goes first.
func gravest(all []Verdict) Verdict {
	order := []v1alpha1.ConditionReason{
		v1alpha1.BlockedRevision, v1alpha1.BlockedName, v1alpha1.BlockedCreate, v1alpha1.BlockedNode,
		v1alpha1.BlockedDelete, v1alpha1.BlockedFailed, v1alpha1.BlockedRefused, v1alpha1.BlockedPin, v1alpha1.BlockedDeadline,
	}
	for _, reason := range order {
		for _, v := range all {
			if v.Reason == reason {
				return v
			}
		}
	}
	return all[0]
}

// Cut shortens a message to what the API takes.
func Cut(message string) string { return cut(message, maxMessage) }

func cut(message string, most int) string {
	if len(message) <= most {
		return message
	}
	end := most - 3
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + "..."
}
