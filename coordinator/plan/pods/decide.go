package pods

import (
	"cmp"
	"slices"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// A decision is a Plan in the making.
type decision struct {
	s         Snapshot
	plan      Plan
	instances []*instance
	orders    map[string]Order
	services  map[string]Service
	stages    map[string]v1alpha1.UnitUpdateStatus
	// creates come last: what they wait for is then under way.
	creates []Action
	// pins are the pin Pods by name; makePins are those to be made.
	pins     map[string]Pin
	makePins []Action
	// blocks are what stands in the way, the gravest first.
	blocks []Verdict
	// notBefore is when the next timer ends; zero if none runs.
	notBefore time.Time
}

// Decide returns what to do now, what to report, and when to look again although nothing changed.
// Equal snapshots have equal plans.
func Decide(s Snapshot) Plan {
	d := &decision{
		s: s, instances: instances(s),
		orders: make(map[string]Order, len(s.Orders)), services: make(map[string]Service, len(s.Services)),
		stages: make(map[string]v1alpha1.UnitUpdateStatus, len(s.Group.Status.Updates)), pins: make(map[string]Pin, len(s.Pins)),
	}
	for _, o := range s.Orders {
		d.orders[o.Name] = o
	}
	for _, v := range s.Services {
		d.services[v.Name] = v
	}
	for _, u := range s.Group.Status.Updates {
		d.stages[u.Unit] = u
	}
	for _, p := range s.Pins {
		d.pins[p.Name] = p
	}
	d.strayOrders()
	d.relabel()
	if s.Group.Deleting {
		d.remove()
	} else {
		if !s.Group.Finalizer { // somebody took it away
			d.do(Action{Kind: RestoreFinalizer, Name: s.Group.Name, UID: s.Group.UID})
		}
		d.updates()
		d.recover()
		d.settle()
		d.holdGPUs()
		d.leaders()
	}
	d.tidyServices()
	d.tidyPins()
	d.plan.Actions = slices.Concat(d.plan.Actions, d.creates, d.makePins) // what serves comes before what prepares
	d.report()
	if !d.notBefore.IsZero() {
		d.plan.Recheck = max(d.notBefore.Sub(s.Now), time.Second)
	}
	return d.plan
}

func (d *decision) do(a Action) { d.plan.Actions = append(d.plan.Actions, a) }

func (d *decision) note(n Notice) { d.plan.Notices = append(d.plan.Notices, n) }

func (d *decision) block(reason v1alpha1.ConditionReason, message string) {
	d.blocks = append(d.blocks, Verdict{True: true, Reason: reason, Message: message})
}

// by has the snapshot judged again at t at the latest.
func (d *decision) by(t time.Time) {
	if d.notBefore.IsZero() || t.Before(d.notBefore) {
		d.notBefore = t
	}
}

// due reports whether t has come; if not, the snapshot is judged again then.
func (d *decision) due(t time.Time) bool {
	if !d.s.Now.Before(t) {
		return true
	}
	d.by(t)
	return false
}

// alive reports whether the node has a live agent. Where that is so something is waited for from it,
// so the snapshot is judged again when it counts as dead.
func (d *decision) alive(node string) bool {
	until, ok := d.s.Agents[node]
	return ok && node != "" && !d.due(until)
}

// deletePod deletes a Pod that is not being deleted yet.
func (d *decision) deletePod(p Pod) {
	if !p.Deleting {
		d.do(Action{Kind: DeletePod, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion})
	}
}

// members are the instances that the update covers.
func (d *decision) members(u *v1alpha1.UnitUpdate) []*instance {
	var out []*instance
	for _, i := range d.instances {
		if i.update == u || i.prepares == u {
			out = append(out, i)
		}
	}
	return out
}

// remove takes all Pods of a group that is being deleted. They were drained before, where somebody
// waited for that.
func (d *decision) remove() {
	for _, i := range d.instances {
		i.declared, i.phase = false, v1alpha1.InstanceRemoving
		for _, p := range i.pods {
			d.deletePod(p)
		}
	}
	if len(d.s.Pods) == 0 && d.s.Group.Finalizer {
		d.do(Action{Kind: RemoveFinalizer, Name: d.s.Group.Name, UID: d.s.Group.UID})
	}
}

// tidyServices deletes the Services of instances that are no more.
func (d *decision) tidyServices() {
	wanted := make(map[string]bool)
	for _, i := range d.instances {
		if !d.s.Group.Deleting && (len(i.pods) > 0 || i.declared && (!i.resolved || i.shape.Workers > 0)) {
			wanted[v1alpha1.EntryPodName(d.s.Group.Name, i.role, i.ordinal)] = true
		}
	}
	services := slices.SortedFunc(slices.Values(d.s.Services), func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
	for _, v := range services {
		if !wanted[v.Name] && !v.Deleting {
			d.do(Action{Kind: DeleteService, Name: v.Name, UID: v.UID})
		}
	}
}

// refill creates the Pods of the instance that are missing, and its Service.
func (d *decision) refill(i *instance) {
	made := NewPod{Role: i.role, Instance: i.ordinal, Revision: i.pin, Digest: i.shape.Digest, Size: i.size()}
	entry := v1alpha1.EntryPodName(d.s.Group.Name, i.role, i.ordinal)
	if v, ok := d.services[entry]; i.shape.Workers > 0 && (!ok || v.Deleting) {
		d.creates = append(d.creates, Action{Kind: CreateService, Name: entry, Pod: made})
	}
	made.Held, made.HeldGPU = i.update != nil && !i.covered(v1alpha1.PermitServe), d.heldForGPU(i)
	for _, index := range i.missing() {
		name := v1alpha1.PodName(d.s.Group.Name, i.role, i.ordinal, index)
		// An order is about one Pod and goes with it.
		if _, stands := d.orders[name]; stands {
			i.trouble = "Pod " + name + " waits until the InPlaceUpdate of the Pod before it is gone"
			continue
		}
		made.Index = index
		d.creates = append(d.creates, Action{Kind: CreatePod, Name: name, Pod: made})
	}
}
