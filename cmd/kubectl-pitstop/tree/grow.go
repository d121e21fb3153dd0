package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/pins"
)

// A grower has the objects by what they are looked up by.
type grower struct {
	Objects
	pods   map[types.UID][]*corev1.Pod // by owner
	orders map[types.UID]*v1alpha1.InPlaceUpdate
	ledger map[string]bool
}

func newGrower(o Objects) *grower {
	g := &grower{Objects: o, pods: map[types.UID][]*corev1.Pod{}, orders: map[types.UID]*v1alpha1.InPlaceUpdate{}, ledger: map[string]bool{}}
	for _, entry := range o.Serving.Status.Updating {
		g.ledger[entry] = true
	}
	for _, p := range o.Pods {
		var owner types.UID
		if c := metav1.GetControllerOfNoCopy(p); c != nil {
			owner = c.UID
		}
		g.pods[owner] = append(g.pods[owner], p)
	}
	for _, u := range o.Orders {
		g.orders[u.Spec.PodUID] = u
	}
	return g
}

func (g *grower) group(sg *v1alpha1.ServingGroup) Group {
	group := Group{
		Unit: Unit{
			Name: sg.Name, Revision: sg.Spec.Revision, Outdated: g.outdated("", sg.Spec.Revision),
			ReadyPods: sg.Status.ReadyPods, ExpectedPods: sg.Status.Pods,
		},
		Deleting:  sg.DeletionTimestamp != nil,
		Instances: []Instance{},
	}
	if sg.Spec.Ordinal != nil {
		group.Ordinal = *sg.Spec.Ordinal
	}
	group.update(g, sg, "")
	switch blocked := meta.FindStatusCondition(sg.Status.Conditions, v1alpha1.ConditionBlocked); {
	case blocked != nil && blocked.Status == metav1.ConditionTrue:
		group.Mark = Wrong
		group.State = join(group.State, fmt.Sprintf("Blocked %s (%s)", g.ago(&blocked.LastTransitionTime), blocked.Reason))
		group.Message = blocked.Message
	case group.Deleting:
		group.Mark = UnderWay
		group.State = fmt.Sprintf("being deleted for %s, %d Pods left", g.ago(sg.DeletionTimestamp), len(g.pods[sg.UID]))
	}
	around := group.Mark
	if group.Update.serves() && !group.Deleting {
		around = Fine
	}
	for _, key := range g.instances(sg) {
		i := g.instance(sg, key, around)
		group.Mark = worse(group.Mark, i.Mark)
		group.Instances = append(group.Instances, i)
	}
	return group
}

// update fills in what an open update of the unit says.
func (u *Unit) update(g *grower, sg *v1alpha1.ServingGroup, unit string) {
	i := slices.IndexFunc(sg.Spec.Updates, func(o v1alpha1.UnitUpdate) bool { return o.Unit == unit })
	if i < 0 {
		switch {
		case slices.Contains(sg.Spec.GPUHolds, unit): // the hold has its place in the ledger
			u.Mark, u.State, u.Message = Wrong, "kept out of traffic for a sick GPU", fault(sg, unit)
		case g.ledger[v1alpha1.LedgerEntry(sg.Name, unit)]:
			u.Mark, u.State = UnderWay, "booked in the ledger; no open update"
		}
		return
	}
	open := sg.Spec.Updates[i]
	u.Mark = UnderWay
	u.Update = &Update{Attempt: open.Attempt, Method: open.Method, Target: open.Target, Permit: open.Permit}
	u.State = fmt.Sprintf("%s: not taken up yet", g.towards(open))
	for _, s := range sg.Status.Updates {
		if s.Unit != unit || s.Attempt != open.Attempt {
			continue
		}
		u.Update.Stage, u.Update.Since, u.Update.Reason = s.Stage, &s.Since, s.Reason
		u.State = fmt.Sprintf("%s: %s %s", g.towards(open), s.Stage, g.ago(&s.Since))
		if s.Reason != "" && string(s.Reason) != string(s.Stage) {
			u.State += fmt.Sprintf(" (%s)", s.Reason)
		}
		u.Message = s.Message
		if s.Stage == v1alpha1.UnitFailed || s.Stage == v1alpha1.UnitRefused && s.Reason != v1alpha1.UnitCancelled {
			u.Mark = Wrong
		}
	}
}

// fault is what the coordinator says of a sick GPU of the unit; the group as a whole has no name.
func fault(sg *v1alpha1.ServingGroup, unit string) string {
	for _, s := range sg.Status.Instances {
		if s.GPUFault != "" && (unit == "" || unit == v1alpha1.UnitName(s.Role, number(s.Ordinal))) {
			return s.GPUFault
		}
	}
	return ""
}

// serves reports whether the unit is in service while its update goes on, so that nothing about its Pods
// is due to the update.
func (u *Update) serves() bool {
	return u != nil && v1alpha1.UnitUpdate{Method: u.Method, Permit: u.Permit}.Preparing()
}

// towards says what an update is about.
func (g *grower) towards(u v1alpha1.UnitUpdate) string {
	switch {
	case u.Method == v1alpha1.UnitRemove:
		return "removal"
	case u.Recreates():
		return "anew at " + short(u.Target)
	case u.Preparing() && u.Cancelled():
		return "not yet to " + short(u.Target)
	case u.Target == u.Previous:
		return "back to " + short(u.Target)
	}
	return "to " + short(u.Target)
}

// A key names a role instance within its group.
type key struct {
	role    string
	ordinal int32
}

// instances are those that are to exist, those that are reported on, and those that Pods say they
// belong to.
func (g *grower) instances(sg *v1alpha1.ServingGroup) []key {
	var all []key
	for _, i := range sg.Spec.Instances {
		all = append(all, key{i.Role, number(i.Ordinal)})
	}
	for _, i := range sg.Status.Instances {
		all = append(all, key{i.Role, number(i.Ordinal)})
	}
	for _, p := range g.pods[sg.UID] {
		all = append(all, keyOf(p))
	}
	slices.SortFunc(all, func(a, b key) int {
		return cmp.Or(strings.Compare(a.role, b.role), cmp.Compare(a.ordinal, b.ordinal))
	})
	return slices.Compact(all)
}

func (g *grower) instance(sg *v1alpha1.ServingGroup, k key, group Mark) Instance {
	i := Instance{Role: k.role, Ordinal: k.ordinal, Pods: []Pod{}}
	i.Name, i.Revision = v1alpha1.UnitName(k.role, k.ordinal), sg.Spec.Revision
	for _, s := range sg.Spec.Instances {
		if k == (key{s.Role, number(s.Ordinal)}) && s.Revision != "" {
			i.Revision = s.Revision
		}
	}
	i.Outdated = g.outdated(i.Role, i.Revision)
	var status v1alpha1.InstanceStatus
	for _, s := range sg.Status.Instances {
		if k == (key{s.Role, number(s.Ordinal)}) {
			status = s
		}
	}
	i.Phase, i.ReadyPods, i.ExpectedPods = status.Phase, status.ReadyPods, status.Pods
	i.update(g, sg, i.Name)
	i.judge(status, group)
	i.ail(sg, status)
	around := worse(i.Mark, group)
	if i.Update.serves() {
		around = group
	}
	for _, p := range g.members(sg, k, status.Pods) {
		pod := g.pod(p, around)
		i.Mark = worse(i.Mark, pod.Mark)
		i.Pods = append(i.Pods, pod)
	}
	return i
}

// judge says how an instance is that is in no update of its own.
func (i *Instance) judge(s v1alpha1.InstanceStatus, group Mark) {
	if i.Update != nil && !i.Update.serves() {
		return
	}
	i.Message = cmp.Or(i.Message, s.Message)
	switch {
	case s.Phase == "":
		i.Mark, i.State = worse(i.Mark, UnderWay), join(i.State, "not reported yet")
	case s.Phase != v1alpha1.InstanceRunning:
		i.Mark, i.State = worse(i.Mark, UnderWay), join(i.State, string(s.Phase))
	case !s.Ready && group == Fine:
		i.Mark, i.State = Wrong, join(i.State, "not ready")
	case !s.Ready:
		i.Mark = worse(i.Mark, UnderWay)
	}
}

// ail marks an instance with a sick GPU. The words are shown once: where the hold is, if there is one.
func (i *Instance) ail(sg *v1alpha1.ServingGroup, s v1alpha1.InstanceStatus) {
	if s.GPUFault == "" || slices.Contains(sg.Spec.GPUHolds, i.Name) {
		return
	}
	i.Mark, i.State = Wrong, join(i.State, "sick GPU")
	if !slices.Contains(sg.Spec.GPUHolds, "") {
		i.Message = join(i.Message, s.GPUFault)
	}
}

// A member is a Pod, or the name of one that is expected and not there.
type member struct {
	name  string
	index int32
	pod   *corev1.Pod
}

func (g *grower) members(sg *v1alpha1.ServingGroup, k key, expected int32) []member {
	var all []member
	there := map[string]bool{}
	for _, p := range g.pods[sg.UID] {
		if keyOf(p) == k {
			all = append(all, member{p.Name, labelNumber(p, v1alpha1.LabelIndex), p})
			there[p.Name] = true
		}
	}
	for index := range expected {
		if name := v1alpha1.PodName(sg.Name, k.role, k.ordinal, index); !there[name] {
			all = append(all, member{name: name, index: index})
		}
	}
	slices.SortFunc(all, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.index, b.index), strings.Compare(a.name, b.name))
	})
	return all
}

// foreign are the Pods that carry the labels of this ModelServing and belong to none of its groups.
func (g *grower) foreign(groups []Group) []string {
	shown := map[string]bool{}
	for _, group := range groups {
		for _, i := range group.Instances {
			for _, p := range i.Pods {
				shown[p.Name] = !p.Missing
			}
		}
	}
	var names []string
	for _, p := range g.Pods {
		if p.Namespace == g.Serving.Namespace && p.Labels[v1alpha1.LabelModelServing] == g.Serving.Name && !shown[p.Name] {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (g *grower) outdated(role, revision string) bool {
	target := g.Serving.Status.UpdateRevision
	return target != "" && !g.Pins.Same(pins.Unit{Namespace: g.Serving.Namespace, Role: role}, revision, target)
}

// short is the hash at the end of a revision's name: before it stands the name of the ModelServing.
func short(revision string) string { return revision[strings.LastIndexByte(revision, '-')+1:] }

func (g *grower) ago(t *metav1.Time) string { return ago(g.Now, t) }

func ago(now time.Time, t *metav1.Time) string {
	return duration.HumanDuration(max(0, now.Sub(t.Time)))
}

func keyOf(p *corev1.Pod) key {
	return key{p.Labels[v1alpha1.LabelRole], labelNumber(p, v1alpha1.LabelInstance)}
}

func labelNumber(p *corev1.Pod, label string) int32 {
	n, err := strconv.ParseInt(p.Labels[label], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func number(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
