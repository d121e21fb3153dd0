package pods

import (
	"cmp"
	"slices"

	"pitstop.dev/api/v1alpha1"
)

// strayOrders deletes the orders of Pods that are gone. They would keep new Pods of the name from
// being made.
func (d *decision) strayOrders() {
	alive := make(map[string]Pod, len(d.s.Pods))
	for _, p := range d.s.Pods {
		alive[p.Name] = p
	}
	orders := slices.SortedFunc(slices.Values(d.s.Orders), func(a, b Order) int { return cmp.Compare(a.Name, b.Name) })
	for _, o := range orders {
		if alive[o.Name].UID != o.PodUID && !o.Deleting {
			d.do(Action{Kind: DeleteOrder, Name: o.Name, UID: o.UID})
		}
	}
}

// order returns the order that stands for this Pod, given by this controller.
func (d *decision) order(p Pod) (Order, bool) {
	o, ok := d.orders[p.Name]
	return o, ok && o.PodUID == p.UID && o.Ours && !o.Deleting
}

// give has the agent of the Pod's node take the Pod as far as the permit says, and change nothing.
func (d *decision) give(p Pod, key string, permit v1alpha1.Permit) {
	d.place(p, NewOrder{Key: key, Permit: permit})
}

// place gives an order about a Pod. The key tells a new attempt from the present one; and what was given
// back in an attempt is taken in a new one only.
func (d *decision) place(p Pod, order NewOrder) {
	order.PodUID, order.Node, order.Attempt = p.UID, p.Node, 1
	o, ours := d.order(p)
	_, stands := d.orders[p.Name]
	anew := o.Key != order.Key || o.Permit == v1alpha1.PermitServe && order.Permit != v1alpha1.PermitServe
	switch {
	case ours && !anew && o.Permit.Allows(order.Permit):
	case ours:
		order.Attempt = o.Attempt
		if anew {
			order.Attempt++
		}
		d.do(Action{Kind: UpdateOrder, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Order: order})
	case !stands:
		d.do(Action{Kind: CreateOrder, Name: p.Name, Order: order})
	case o.PodUID == p.UID && !o.Deleting:
		// Made by hand: it may not be followed for a Pod of ours, and stands in the way.
		d.do(Action{Kind: DeleteOrder, Name: o.Name, UID: o.UID})
	}
}

// drained reports whether no request is left in the Pod, or none can be waited for. If it may have
// some, the agent of its node is ordered to drain it; message says what is waited for. skipped
// reports whether the Pod may have requests that cannot be waited for.
func (d *decision) drained(p Pod, key string) (done, skipped bool, message string) {
	switch {
	case p.Deleting, p.Ended, p.HeldUnit, p.Node == "":
		return true, false, ""
	case !d.alive(p.Node):
		return true, !p.Idle, ""
	}
	d.give(p, key, v1alpha1.PermitDrain)
	o, ours := d.order(p)
	switch {
	case !ours || o.Key != key || o.ReportedAttempt != o.Attempt:
		return false, false, "the agent of node " + p.Node + " has not answered yet"
	case o.Stage == v1alpha1.StageDrained:
		return true, false, ""
	case o.drainOver():
		return true, !p.Idle, "" // it could not be drained, and the agent says why
	}
	return false, false, cmp.Or(o.Message, "the agent of node "+p.Node+" is at stage "+string(o.Stage))
}

// drainOver reports whether the agent has drained the Pod for this order, or given up.
func (o Order) drainOver() bool {
	return o.ReportedAttempt == o.Attempt &&
		(o.Stage == v1alpha1.StageDrained || o.Stage == v1alpha1.StageFailed || o.Stage.Ended() && o.Permit == v1alpha1.PermitDrain)
}

// takes deletes an old Pod of a unit that is at Swap or later. It was drained for this attempt; one
// that was not, because it turned up later or its agent did, is drained now.
func (d *decision) takes(p Pod, u *v1alpha1.UnitUpdate) (message string) {
	if o, ours := d.order(p); !ours || o.Key != OrderKey(u.Attempt) || !o.drainOver() {
		if done, _, message := d.drained(p, KeyRecovery); !done {
			return message
		}
	}
	d.deletePod(p)
	return "it is being deleted"
}

// release gives a Pod back that an order of an earlier attempt keeps, or kept, out of traffic.
func (d *decision) release(p Pod, key string) {
	o, ours := d.order(p)
	switch {
	case p.Deleting || p.Ended || p.Node == "":
	case ours && !o.Permit.Allows(v1alpha1.PermitServe) && !o.ended():
		d.give(p, key, v1alpha1.PermitServe)
	case !ours && p.HeldInPlace: // a missing order is no release: the agent waits for a new one
		d.give(p, key, v1alpha1.PermitServe)
	}
}

// ended reports whether the agent does nothing more for the order.
func (o Order) ended() bool { return o.ReportedAttempt == o.Attempt && o.Stage.Ended() }

// settled reports whether no agent is about to move the Pod in or out of traffic.
func (d *decision) settled(p Pod) bool {
	o, ours := d.order(p)
	return !ours && !p.HeldInPlace || ours && o.ended() || !d.alive(p.Node)
}

// settle puts the Pods that may serve in service: holds of ours are taken away, and gates are opened
// where no agent does it.
func (d *decision) settle() {
	for _, i := range d.instances {
		if i.leaving() || i.update != nil && !i.covered(v1alpha1.PermitServe) {
			continue
		}
		key := KeyRecovery
		if i.update != nil {
			key = OrderKey(i.update.Attempt)
		}
		for _, p := range i.pods {
			if i.outdated(p) || p.Deleting {
				continue
			}
			if i.prepares == nil && !i.inPlace() { // those have orders of their own
				d.release(p, key)
			}
			d.open(p)
		}
	}
}

// relabel gives Pods back the labels by which Services and caches find them. Those that are being deleted
// get them too: that they are gone has to be seen.
func (d *decision) relabel() {
	for _, i := range d.instances {
		for _, p := range i.pods {
			if p.Mislabelled {
				d.do(Action{Kind: RestoreLabels, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion})
			}
		}
	}
}

func (d *decision) open(p Pod) {
	opens := p.GateAbsent && !p.Ended && p.Node != "" && !p.HeldOther && !p.HeldInPlace && !d.alive(p.Node)
	switch {
	case opens:
		d.do(Action{Kind: OpenGate, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion})
	case p.HeldUnit:
		d.do(Action{Kind: ClearHold, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion})
	}
}

// leaders sees to it that one Pod of the group has the leader's label: one that has it already, or
// else the first entry Pod.
func (d *decision) leaders() {
	var led bool
	var first *Pod
	for _, i := range d.instances {
		for n, p := range i.pods {
			switch {
			case p.Deleting || p.Ended:
			case p.Leader && led:
				d.do(Action{Kind: UnsetLeader, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion})
			case p.Leader:
				led = true
			case p.Index == 0 && first == nil && !i.outdated(p) && !i.leaving():
				first = &i.pods[n]
			}
		}
	}
	if led {
		return
	}
	if first != nil {
		d.do(Action{Kind: SetLeader, Name: first.Name, UID: first.UID, ResourceVersion: first.ResourceVersion})
		return
	}
	for n := range d.creates {
		if d.creates[n].Kind == CreatePod && d.creates[n].Pod.Index == 0 {
			d.creates[n].Pod.Leader = true
			return
		}
	}
}
