package diagnose

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// A WaitKind says what makes a unit wait.
type WaitKind string

// The kinds of waits, those first that a person has to do with.
const (
	// WaitBlocked: something stands in the way of a ServingGroup that does not pass by itself.
	WaitBlocked WaitKind = "Blocked"
	// WaitHeld: the unit is kept out of traffic for a sick GPU.
	WaitHeld WaitKind = "Held"
	// WaitSick: a GPU of the unit is sick, and it serves on.
	WaitSick WaitKind = "Sick"
	// WaitUpdate: the unit has an open update, a removal included.
	WaitUpdate WaitKind = "Update"
	// WaitDeletion: the ServingGroup is being deleted.
	WaitDeletion WaitKind = "Deletion"
	// WaitReady: a role instance in no update is not ready.
	WaitReady WaitKind = "NotReady"
	// WaitBooked: the unit is in the ledger and has no open update.
	WaitBooked WaitKind = "Booked"
)

// A Wait is a unit that waits: for what, since when, and what would free it.
type Wait struct {
	// Unit is `<servinggroup>` or `<servinggroup>/<role>-<n>`.
	Unit string   `json:"unit"`
	Kind WaitKind `json:"kind"`
	// Summary says in one sentence where the unit stands.
	Summary string       `json:"summary"`
	Since   *metav1.Time `json:"since,omitempty"`
	// Reason is a word of one of the closed lists, if the controller gives one.
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"`
	Way    string `json:"way,omitempty"`
	// Message are the controller's own words.
	Message string    `json:"message,omitempty"`
	Next    *Deadline `json:"next,omitempty"`
	// The rest is that of an open update.
	Attempt int64              `json:"attempt,omitempty"`
	Target  string             `json:"target,omitempty"`
	Permit  v1alpha1.Permit    `json:"permit,omitempty"`
	Stage   v1alpha1.UnitStage `json:"stage,omitempty"`
}

// waits lists what each unit waits for: by kind, then by group, then as the group lists them.
func waits(f ServingFacts) []Wait {
	all := []Wait{}
	opened := map[string]bool{}
	for _, sg := range f.Groups {
		all = append(all, groupWaits(f, sg)...)
		for _, w := range sickWaits(f, sg) {
			opened[w.Unit] = true
			all = append(all, w)
		}
		for _, u := range sg.Spec.Updates {
			opened[v1alpha1.LedgerEntry(sg.Name, u.Unit)] = true
			all = append(all, updateWait(f, sg, u))
		}
		all = append(all, instanceWaits(sg)...)
	}
	for _, entry := range slices.Sorted(slices.Values(f.Serving.Status.Updating)) {
		if !opened[entry] {
			all = append(all, Wait{
				Unit: entry, Kind: WaitBooked,
				Summary: "is in the ledger (status.updating) and has no open update",
				Why:     "the controller is about to open its update, or has closed it and not yet seen that by a live read",
				Way:     "the controller's next look, within seconds",
			})
		}
	}
	order := []WaitKind{WaitBlocked, WaitHeld, WaitSick, WaitUpdate, WaitDeletion, WaitReady, WaitBooked}
	slices.SortStableFunc(all, func(a, b Wait) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
	return all
}

// groupWaits are those of the group as a whole that are no updates.
func groupWaits(f ServingFacts, sg *v1alpha1.ServingGroup) []Wait {
	var all []Wait
	if c := blocked(sg.Status.Conditions); c != nil {
		e := explained(f.Serving, *c)
		all = append(all, Wait{
			Unit: sg.Name, Kind: WaitBlocked, Summary: "is blocked", Since: &e.Since,
			Reason: c.Reason, Why: e.Why, Way: e.Way, Message: e.Message,
		})
	}
	if sg.DeletionTimestamp != nil {
		all = append(all, Wait{
			Unit: sg.Name, Kind: WaitDeletion, Summary: fmt.Sprintf("is being deleted; %d Pods are left", sg.Status.LivePods),
			Since: sg.DeletionTimestamp,
			Why:   "its ordinal stays reserved, and it counts as live, until its last Pod is gone",
			Way:   "the Pods end, at the latest after their terminationGracePeriodSeconds; if one stays, look at the kubelet on its node",
		})
	}
	return all
}

func updateWait(f ServingFacts, sg *v1alpha1.ServingGroup, u v1alpha1.UnitUpdate) Wait {
	w := Wait{
		Unit: v1alpha1.LedgerEntry(sg.Name, u.Unit), Kind: WaitUpdate,
		Attempt: u.Attempt, Target: u.Target, Permit: u.Permit,
		Summary: fmt.Sprintf("attempt %d %s", u.Attempt, purpose(u)),
	}
	i := slices.IndexFunc(sg.Status.Updates, func(s v1alpha1.UnitUpdateStatus) bool { return s.Unit == u.Unit && s.Attempt == u.Attempt })
	if i < 0 {
		w.Why = "the ServingGroup controller has not taken up the attempt yet"
		w.Way = "its next look, within seconds; if it lasts, see whether a coordinator runs: `kubectl -n " + LeaseNamespace + " get pods`"
		return w
	}
	s := sg.Status.Updates[i]
	w.Stage, w.Since, w.Reason, w.Message = s.Stage, &s.Since, string(s.Reason), s.Message
	text := updateText(u, s)
	w.Why, w.Way = text.Why, strings.ReplaceAll(named(f.Serving, text.Way), "UNIT`", w.Unit+" -n "+f.Serving.Namespace+"`")
	w.Next = unitDeadline(f.Serving, u, s)
	return w
}

// purpose says what an update is for.
func purpose(u v1alpha1.UnitUpdate) string {
	switch {
	case u.Method == v1alpha1.UnitRemove:
		return "removes it"
	case u.Preparing() && u.Cancelled():
		return "was taken back by a person, and waits; it serves"
	case u.Recreates():
		return "creates its Pods anew at " + u.Target + ", as a person asked"
	case u.Preparing():
		return "prepares it for " + u.Target + ", while it serves"
	case u.Target == u.Previous:
		return "takes it back to " + u.Target
	case u.Method == v1alpha1.UnitInPlace:
		return "brings it to " + u.Target + " in place"
	}
	return "brings it to " + u.Target
}

// instanceWaits are the role instances that are in no update and not ready.
func instanceWaits(sg *v1alpha1.ServingGroup) []Wait {
	var all []Wait
	for _, s := range sg.Status.Instances {
		unit := v1alpha1.UnitName(s.Role, ordinal(s.Ordinal))
		busy := slices.ContainsFunc(sg.Spec.Updates, func(u v1alpha1.UnitUpdate) bool { return !u.Preparing() && (u.Unit == "" || u.Unit == unit) })
		if s.Ready || busy || heldForGPU(sg, unit) || sg.DeletionTimestamp != nil {
			continue
		}
		w := Wait{
			Unit: v1alpha1.LedgerEntry(sg.Name, unit), Kind: WaitReady, Message: s.Message, Since: s.DownSince,
			Summary: fmt.Sprintf("%d of %d Pods are Ready", s.ReadyPods, s.Pods),
		}
		w.Why, w.Way = phaseText(s.Phase)
		all = append(all, w)
	}
	return all
}

func phaseText(p v1alpha1.InstancePhase) (why, way string) {
	switch p {
	case v1alpha1.InstanceCreating:
		return "its Pods are being created for the first time", "all of them exist and are Ready: `kubectl pitstop explain POD` says what one waits for"
	case v1alpha1.InstanceRecreating:
		return "a Pod of it was lost or failed, so its Pods are drained, deleted and created anew (recoveryPolicy)", "all of them exist anew and are Ready"
	case v1alpha1.InstanceRemoving:
		return "it is no longer declared, and its Pods are being deleted", "the last of them is gone"
	case v1alpha1.InstanceRunning:
	}
	return "a Pod of it that existed is not Ready, or was lost", "it becomes Ready or recovery creates it anew: `kubectl pitstop explain POD` says what it waits for"
}

// names lists units for a sentence, and counts those that are too many to name.
func names(units []string) string {
	const most = 8
	if len(units) <= most {
		return strings.Join(units, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(units[:most], ", "), len(units)-most)
}
