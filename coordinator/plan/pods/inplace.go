package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pitstop.dev/api/v1alpha1"
)

// inPlace takes an update in place as far as its permit allows.
func (d *decision) inPlace(u *v1alpha1.UnitUpdate, members []*instance) standing {
	for _, i := range members {
		if _, known := d.s.Revisions[u.Target][i.role]; i.declared && (!i.resolved || !known) {
			return standing{frozen: true}
		}
	}
	switch {
	case d.waits(u):
		return d.again(u)
	case !u.Permit.Allows(v1alpha1.PermitDrain):
		return d.prepare(u, members)
	case !u.Permit.Allows(v1alpha1.PermitSwap):
		return d.drainInPlace(u, members)
	default:
		return d.swapInPlace(u, members)
	}
}

// again is the standing of an attempt that is not to begin yet: what the one before it was given up for.
func (d *decision) again(u *v1alpha1.UnitUpdate) standing {
	was := d.stages[u.Unit]
	if u.Cancelled() {
		return standing{
			stage: v1alpha1.UnitRefused, reason: v1alpha1.UnitCancelled, waits: true,
			message: "a person took its update back; tried again at " + stamp(*u.NotBefore),
		}
	}
	if was.Stage != v1alpha1.UnitRefused { // it went back in service meanwhile
		was.Reason, was.Message = v1alpha1.UnitWaitingPrepare, "the attempt before was given up"
	}
	next := "; tried again at " + stamp(*u.NotBefore)
	message, _, _ := strings.Cut(was.Message, "; tried again at ")
	return standing{stage: v1alpha1.UnitRefused, reason: was.Reason, message: message + next, waits: true}
}

// prepare has the images of the target brought to the nodes, while the unit serves. A Pod that is lost is
// waited for: it is recovered as if there were no update.
func (d *decision) prepare(u *v1alpha1.UnitUpdate, members []*instance) standing {
	at := standing{stage: v1alpha1.UnitPrepared, reason: v1alpha1.UnitWaitingPermit}
	for _, i := range members {
		lost := i.incomplete(d.s.Group.Name)
		if i.old.Phase == v1alpha1.InstanceRecreating {
			lost = standing{stage: v1alpha1.UnitPreparing, message: unitWords(i.unit) + " is created anew"}
		}
		if lost.stage != "" {
			at = least(at, standing{stage: v1alpha1.UnitPreparing, reason: v1alpha1.UnitPodLost, message: lost.message})
		}
		for _, p := range i.pods {
			switch {
			case p.Deleting || p.Ended || i.old.Phase == v1alpha1.InstanceRecreating || i.outdated(p): // recovery has its own orders
			case p.Node == "":
				at = least(at, standing{stage: v1alpha1.UnitPreparing, reason: v1alpha1.UnitWaitingScheduling, message: notReady(p)})
			case !d.alive(p.Node):
				at = least(at, noAgent(v1alpha1.UnitRefused, p))
			case d.s.Behind[p.Node]:
				at = least(at, tooOld(v1alpha1.UnitPreparing, p))
			case p.HeldInPlace: // by an attempt before, which its agent has followed too late
				d.give(p, KeyRecovery, v1alpha1.PermitServe)
				at = least(at, unanswered(v1alpha1.UnitPreparing, p))
			default:
				d.place(p, d.change(u, i, p, v1alpha1.PermitPrepare))
				at = least(at, d.prepared(u, i, p))
				if at.stage != v1alpha1.UnitRefused {
					at = least(at, d.trusted(u, i, p))
				}
			}
		}
	}
	return at
}

func (d *decision) prepared(u *v1alpha1.UnitUpdate, i *instance, p Pod) standing {
	o, answered := d.answer(u, p)
	switch {
	case !answered:
		return unanswered(v1alpha1.UnitPreparing, p)
	case gaveUp(o):
		return d.ended(u, i, p)
	case o.Stage == v1alpha1.StageCancelled:
		return standing{stage: v1alpha1.UnitPreparing, reason: v1alpha1.UnitPodLost, message: "Pod " + p.Name + " is lost"}
	case o.Stage == v1alpha1.StagePending || o.Stage == v1alpha1.StagePreparing:
		return d.reported(v1alpha1.UnitPreparing, u, i, p)
	case d.driverless(u, i, p):
		return d.noDriver(u, p)
	}
	return standing{stage: v1alpha1.UnitPrepared}
}

// drainInPlace takes the Pods out of traffic: first those through which requests enter, then those that
// work for them.
func (d *decision) drainInPlace(u *v1alpha1.UnitUpdate, members []*instance) standing {
	at := standing{stage: v1alpha1.UnitDrained, reason: v1alpha1.UnitWaitingPermit}
	front := at
	for _, back := range []bool{false, true} {
		permit := v1alpha1.PermitDrain
		if back && front.stage != v1alpha1.UnitDrained {
			permit = v1alpha1.PermitPrepare
		}
		for _, i := range members {
			if d.s.Settings.Back[i.role] != back {
				continue
			}
			if missing := i.incomplete(d.s.Group.Name); missing.stage != "" && !u.Swapped {
				at = least(at, standing{stage: v1alpha1.UnitRefused, reason: v1alpha1.UnitPodLost, message: missing.message})
			}
			for _, p := range i.pods {
				at = least(at, d.drainPod(u, i, p, permit))
			}
		}
		front = at
	}
	return at
}

// drainPod drains one Pod. One that is lost has nothing left to drain; before the first swap that ends
// the attempt, after it the Pod is made anew at Swap.
func (d *decision) drainPod(u *v1alpha1.UnitUpdate, i *instance, p Pod, permit v1alpha1.Permit) standing {
	switch {
	case p.Deleting || p.Ended || p.Node == "":
		if u.Swapped {
			return standing{stage: v1alpha1.UnitDrained}
		}
		return standing{stage: v1alpha1.UnitRefused, reason: v1alpha1.UnitPodLost, message: "Pod " + p.Name + " is lost"}
	case !d.alive(p.Node) && !u.Swapped:
		return noAgent(v1alpha1.UnitRefused, p)
	case d.s.Behind[p.Node] && !u.Swapped:
		return tooOld(v1alpha1.UnitRefused, p)
	}
	d.place(p, d.change(u, i, p, permit))
	o, answered := d.answer(u, p)
	switch {
	case answered && gaveUp(o):
		return d.ended(u, i, p)
	case d.driverless(u, i, p):
		return d.noDriver(u, p)
	case answered && o.Stage == v1alpha1.StageDrained:
		return standing{stage: v1alpha1.UnitDrained}
	case !d.alive(p.Node):
		return noAgent(v1alpha1.UnitDraining, p)
	case !answered:
		return unanswered(v1alpha1.UnitDraining, p)
	}
	return d.reported(v1alpha1.UnitDraining, u, i, p)
}

// swapInPlace has the changed containers of all Pods restarted, and Pods that are lost made anew at the
// pin. Nothing that has a container is deleted.
func (d *decision) swapInPlace(u *v1alpha1.UnitUpdate, members []*instance) standing {
	at := standing{stage: v1alpha1.UnitInService, reason: v1alpha1.UnitWaitingPermit}
	for _, i := range members {
		for _, p := range i.pods {
			switch {
			case p.Deleting:
			case p.Ended:
				d.replaceEnded(i, p)
			case p.Node == "" && i.differs(p):
				d.deletePod(p) // it never started a container: there is nothing to keep
			case p.Node == "":
				at = least(at, standing{stage: v1alpha1.UnitSwapping, reason: v1alpha1.UnitWaitingScheduling, message: notReady(p)})
			default:
				at = least(at, d.swapPod(u, i, p))
			}
		}
		d.refill(i)
		if missing := i.incomplete(d.s.Group.Name); missing.stage != "" {
			at = least(at, missing)
		}
	}
	if !u.Permit.Allows(v1alpha1.PermitServe) && at.stage == v1alpha1.UnitInService {
		at.stage = v1alpha1.UnitVerified
	}
	return at
}

// swapPod orders the swap of one Pod, and says how far it is. A Pod that was made at the pin while the
// unit is in update needs no order.
func (d *decision) swapPod(u *v1alpha1.UnitUpdate, i *instance, p Pod) standing {
	o, ours := d.order(p)
	stale := ours && !o.Permit.Allows(v1alpha1.PermitServe) && !o.ended() // its agent may follow it yet
	if (!ours || o.Key != OrderKey(u.Attempt)) && !i.differs(p) && !p.HeldInPlace && !stale && d.settled(p) {
		return d.servingPod(u, p)
	}
	d.place(p, d.change(u, i, p, u.Permit))
	o, answered := d.answer(u, p)
	switch {
	case answered && gaveUp(o):
		return gives(v1alpha1.UnitFailed, p, o)
	case answered && (o.Stage == v1alpha1.StageVerified || o.Stage == v1alpha1.StageInService):
		if s := d.servingPod(u, p); s.stage != v1alpha1.UnitSwapping {
			return s
		}
		return standing{stage: v1alpha1.UnitVerified, reason: v1alpha1.UnitWaitingReady, message: notReady(p)}
	case !d.alive(p.Node) && p.Ready && !p.HeldInPlace && backsOut(u):
		return standing{stage: v1alpha1.UnitInService} // it never was taken out of traffic
	case !d.alive(p.Node):
		return noAgent(v1alpha1.UnitSwapping, p)
	case !answered:
		return unanswered(v1alpha1.UnitSwapping, p)
	}
	return d.reported(v1alpha1.UnitSwapping, u, i, p)
}

// servingPod says how far a Pod is in which nothing is left to change.
func (d *decision) servingPod(u *v1alpha1.UnitUpdate, p Pod) standing {
	waits := standing{reason: v1alpha1.UnitWaitingReady, message: notReady(p)}
	switch {
	case !p.ContainersReady:
		waits.stage = v1alpha1.UnitSwapping
	case u.Permit.Allows(v1alpha1.PermitServe) && p.Ready && !p.HeldUnit && d.settled(p):
		return standing{stage: v1alpha1.UnitInService}
	default:
		waits.stage = v1alpha1.UnitVerified
	}
	return waits
}

// change is the order that brings a Pod to the update's target.
func (d *decision) change(u *v1alpha1.UnitUpdate, i *instance, p Pod, permit v1alpha1.Permit) NewOrder {
	shape := d.s.Revisions[u.Target][i.role]
	order := NewOrder{Key: OrderKey(u.Attempt), Permit: permit, Alone: d.alone(u)}
	switch {
	case backsOut(u):
	case u.Swapped: // an attempt at the pin may be about to change what was read
		order.Revision, order.Digest, order.Containers = u.Target, shape.Digest, shape.beside(i.shape, p)
	default:
		order.Revision, order.Digest, order.Containers = u.Target, shape.Digest, shape.missing(p)
	}
	return order
}

// backsOut reports whether the update leads back to where the unit is, and no Pod has left it. An update to the
// revision of a group of which an instance has another one has steps before it may serve.
func backsOut(u *v1alpha1.UnitUpdate) bool {
	return !u.Swapped && u.Target == u.Previous && u.Permit.Allows(v1alpha1.PermitServe)
}

// alone reports whether the unit is to have one Pod.
func (d *decision) alone(u *v1alpha1.UnitUpdate) bool {
	size := int32(0)
	for _, i := range d.members(u) {
		size += i.size()
	}
	return size == 1
}

// images are what the containers of a Pod with that index are to run, by name.
func (s Shape) images(index int32) map[string]string {
	if index > 0 {
		return s.Worker
	}
	return s.Entry
}

// missing are the containers of a Pod that do not have the image of its role, by name.
func (s Shape) missing(p Pod) []v1alpha1.ContainerImage { return s.beside(s, p) }

// beside are the containers that do not have the image of the role, or would not have it at another revision. What
// is the same everywhere is not named: an agent refuses what it may not change.
func (s Shape) beside(other Shape, p Pod) []v1alpha1.ContainerImage {
	var out []v1alpha1.ContainerImage
	for name, image := range s.images(p.Index) {
		if is, ok := p.Images[name]; ok && (is != image || other.images(p.Index)[name] != image) {
			out = append(out, v1alpha1.ContainerImage{Name: name, Image: image})
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.ContainerImage) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// differs reports whether the Pod is not what its pin says. What a Pod says of itself is written when it
// is opened: until then only its images tell.
func (i *instance) differs(p Pod) bool { return i.outdated(p) || len(i.shape.missing(p)) > 0 }

// answer is the order of the present attempt, if the agent has reported on it.
func (d *decision) answer(u *v1alpha1.UnitUpdate, p Pod) (Order, bool) {
	o, ours := d.order(p)
	return o, ours && o.Key == OrderKey(u.Attempt) && o.ReportedAttempt == o.Attempt
}

// gaveUp reports whether the agent has ended the attempt short of its aim.
func gaveUp(o Order) bool {
	return o.Stage == v1alpha1.StageRefused || o.Stage == v1alpha1.StageFailed
}

// gives is a standing for which the agent gives the reason, if it has one: its own pace needs none.
func gives(stage v1alpha1.UnitStage, p Pod, o Order) standing {
	pace := map[v1alpha1.UnitStage]v1alpha1.UnitReason{
		v1alpha1.UnitPreparing: v1alpha1.UnitWaitingPrepare, v1alpha1.UnitDraining: v1alpha1.UnitWaitingDrain, v1alpha1.UnitSwapping: v1alpha1.UnitWaitingSwap,
	}[stage]
	reason := cmp.Or(v1alpha1.UnitReason(o.Reason), pace, v1alpha1.UnitWaitingAgent)
	message := cmp.Or(o.Message, "the agent is at stage "+string(o.Stage))
	return standing{stage: stage, reason: reason, message: fmt.Sprintf("Pod %s on node %s: %s", p.Name, p.Node, message)}
}

func unanswered(stage v1alpha1.UnitStage, p Pod) standing {
	return standing{stage: stage, reason: v1alpha1.UnitWaitingAgent, message: "the agent of node " + p.Node + " has not answered yet about Pod " + p.Name}
}

func noAgent(stage v1alpha1.UnitStage, p Pod) standing {
	return standing{stage: stage, reason: v1alpha1.UnitAgentMissing, message: "node " + p.Node + " of Pod " + p.Name + " has no live agent: see the DaemonSet pitstop-agent"}
}

func tooOld(stage v1alpha1.UnitStage, p Pod) standing {
	return standing{stage: stage, reason: v1alpha1.UnitReason(v1alpha1.WaitingAgentTooOld), message: "the agent of node " + p.Node +
		" of Pod " + p.Name + " is older than this coordinator and might not follow all of an order: update the DaemonSet pitstop-agent"}
}

// least returns the standing that is less far; what has ended badly goes before all. Of two that are as far it is
// that which needs a person.
func least(a, b standing) standing {
	if order(b.stage) < order(a.stage) || b.stage == a.stage && b.reason == v1alpha1.UnitPinFails {
		return b
	}
	return a
}

func order(s v1alpha1.UnitStage) int {
	return slices.Index([]v1alpha1.UnitStage{
		v1alpha1.UnitFailed, v1alpha1.UnitRefused, v1alpha1.UnitPreparing, v1alpha1.UnitPrepared, v1alpha1.UnitDraining,
		v1alpha1.UnitDrained, v1alpha1.UnitSwapping, v1alpha1.UnitVerified, v1alpha1.UnitInService,
	}, s)
}
