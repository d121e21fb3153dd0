package pods

import (
	"slices"
	"strings"
	"time"

	"pitstop.dev/api/v1alpha1"
)

const (
	// restless is how long a Pod has to have lived to be recreated for having failed the first time.
	// The time doubles with every failure, up to patience: kubelet's own back-off ends with the Pod.
	restless = 10 * time.Second
	patience = 5 * time.Minute
	// forgiven is how long a Pod has to have lived for the failures before it not to count.
	forgiven = 10 * time.Minute
)

// pauseOver reports whether a Pod that failed has lived long enough to be recreated.
func (d *decision) pauseOver(i *instance, p Pod) bool { return d.due(i.pauseEnd(p)) }

func (i *instance) pauseEnd(p Pod) time.Time {
	return p.Created.Add(min(restless<<min(i.old.Recoveries, 10), patience))
}

// count counts a failure for which the Pod is recreated.
func (d *decision) count(i *instance, p Pod) {
	i.recoveries = i.old.Recoveries + 1
	if d.s.Now.Sub(p.Created) >= forgiven {
		i.recoveries = 1
	}
}

// recover looks after the instances that no update covers.
func (d *decision) recover() {
	for _, i := range d.instances {
		if i.update != nil {
			if i.phase == "" { // its permit allows nothing yet
				i.phase = i.keptPhase()
			}
			continue
		}
		if i.phase = i.keptPhase(); !i.declared {
			i.phase = v1alpha1.InstanceRemoving
		}
	}
	for _, i := range d.instances {
		if i.update == nil && i.declared && i.resolved {
			d.judge(i)
		}
	}
	for _, i := range d.instances {
		if i.update == nil {
			d.follow(i)
		}
	}
}

// judge finds out whether an instance lost a Pod, and lets recovery begin if it did.
func (d *decision) judge(i *instance) {
	if i.phase == v1alpha1.InstanceRecreating {
		return
	}
	why, failed := d.loss(i)
	if why == "" || d.s.Settings.Recovery == v1alpha1.RecoverNone {
		return
	}
	if failed != nil {
		d.count(i, *failed)
	}
	what := unitWords(i.unit)
	i.phase = v1alpha1.InstanceRecreating
	if d.s.Settings.Recovery == v1alpha1.RecoverServingGroup {
		what = unitWords("")
		for _, other := range d.instances {
			if other.update == nil && other.declared && other.resolved && len(other.pods) > 0 {
				other.phase = v1alpha1.InstanceRecreating
			}
		}
	}
	d.note(Notice{Reason: v1alpha1.EventRecovering, Warning: true, Message: what + " is created anew: " + why})
}

// loss says which Pod of the instance is lost; empty if none is. It returns the Pod if that failed by
// itself. An instance whose Pods never were all there has lost none, but what is there may be no good.
func (d *decision) loss(i *instance) (why string, failed *Pod) {
	if missing := i.missing(); len(missing) > 0 && i.phase == v1alpha1.InstanceRunning {
		return "Pod " + v1alpha1.PodName(d.s.Group.Name, i.role, i.ordinal, missing[0]) + " is gone", nil
	}
	for n, p := range i.pods {
		switch {
		case p.Deleting:
			if i.phase == v1alpha1.InstanceRunning {
				return "Pod " + p.Name + " was deleted", nil
			}
		case i.outdated(p):
			return "Pod " + p.Name + " is not at the revision that the instance is pinned to", nil
		case p.Ended:
			if d.pauseOver(i, p) {
				return words("Pod "+p.Name+" has ended", p.Trouble), &i.pods[n]
			}
		case !p.Restarted.IsZero():
			if d.due(later(p.Restarted.Add(d.s.Settings.RestartGrace), i.pauseEnd(p))) {
				return "a container of Pod " + p.Name + " was restarted and is not ready", &i.pods[n]
			}
		}
	}
	return "", nil
}

// words adds a detail, if there is one.
func words(what, detail string) string {
	if detail == "" {
		return what
	}
	return what + ": " + detail
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// follow does what the phase asks for.
func (d *decision) follow(i *instance) {
	switch i.phase {
	case v1alpha1.InstanceCreating:
		if i.resolved && i.whole() {
			i.phase = v1alpha1.InstanceRunning
		}
		d.replace(i)
	case v1alpha1.InstanceRunning:
		d.replace(i)
	case v1alpha1.InstanceRecreating:
		if i.old.Phase != v1alpha1.InstanceRecreating || !i.resolved {
			return // that it is to be is written first
		}
		if d.clear(i); len(i.pods) == 0 && d.othersClear() {
			i.phase = v1alpha1.InstanceCreating
		}
	case v1alpha1.InstanceRemoving:
		d.clear(i)
	}
}

// replace refills single Pods. Where recovery is None that is all that recovery does.
func (d *decision) replace(i *instance) {
	if !i.resolved {
		return
	}
	for _, p := range i.pods {
		switch {
		case p.Ended:
			d.replaceEnded(i, p)
		case i.outdated(p):
			if done, _, message := d.drained(p, KeyRecovery); done {
				d.deletePod(p)
			} else {
				i.trouble = "Pod " + p.Name + ": " + message
			}
		}
	}
	if i.phase == v1alpha1.InstanceCreating && slices.ContainsFunc(i.pods, i.outdated) {
		return // what comes up together is of one revision
	}
	d.refill(i)
}

// replaceEnded deletes a Pod in which nothing runs any more.
func (d *decision) replaceEnded(i *instance, p Pod) {
	if !p.Deleting && d.pauseOver(i, p) {
		d.count(i, p)
		d.deletePod(p)
	}
}

// clear drains all Pods of the instance, then deletes them.
func (d *decision) clear(i *instance) {
	at := d.drainAll([]*instance{i}, KeyRecovery)
	if at.stage != v1alpha1.UnitDrained {
		i.trouble = at.message
		return
	}
	for _, p := range i.pods {
		d.deletePod(p)
	}
	if going := i.standing(); len(at.skipped) > 0 && going > 0 {
		d.note(Notice{
			Reason: v1alpha1.EventDrainSkipped, Warning: true,
			Message: unitWords(i.unit) + " goes without a drain of " + strings.Join(at.skipped, ", ") + ": no live agent drains there",
		})
	}
}

// standing counts the Pods that are not being deleted.
func (i *instance) standing() int {
	var n int
	for _, p := range i.pods {
		if !p.Deleting {
			n++
		}
	}
	return n
}

// othersClear reports whether no instance of the group has old Pods that recovery is about to take,
// where a group is created anew as one.
func (d *decision) othersClear() bool {
	if d.s.Settings.Recovery != v1alpha1.RecoverServingGroup {
		return true
	}
	for _, i := range d.instances {
		if i.update == nil && i.phase == v1alpha1.InstanceRecreating && len(i.pods) > 0 {
			return false
		}
	}
	return true
}
