package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"pitstop.dev/api/v1alpha1"
)

// Rules are what a ModelServing's frames are judged by.
type Rules struct {
	// Name is the ModelServing.
	Name string
	// MaxUnavailable and MaxSurge count ServingGroups.
	MaxUnavailable, MaxSurge int
	// Workers is the number of worker Pods of an instance, by role.
	Workers map[string]int32
	// Whole: units are ServingGroups that are updated in place, so that all Ready Pods of one have the same
	// revision, none is deleted, and no image is changed while one of them is in traffic.
	Whole bool
	// Planned: with Whole, no container ends by itself, so that each is restarted for new images only, once
	// for each.
	Planned bool
	// Spare are the restarts by Pod that the test may have caused itself.
	Spare map[string]int32
	// Flaps: the test restarts kubelet, which then takes containers that were started less than 10 s before
	// for unready until it has probed them. Pods that run and that nobody holds count as Ready.
	Flaps bool
	// Broken are groups that the test itself takes out of service: they count as available, and
	// their Pods may go at any time.
	Broken map[string]bool
}

// A Judge replays frames. Its zero value with Rules is ready.
type Judge struct {
	Rules
	// Judged counts the frames at which the bounds of availability were judged.
	Judged int

	specs      []v1alpha1.ModelServing // as of generations that the controller may not have seen yet
	groups     map[string]*v1alpha1.ServingGroup
	pods       map[string]*corev1.Pod
	starts     map[container]starts
	revisions  map[string]bool
	updating   []string
	booked     map[string]int // replicas by which each unit of the ledger was chosen
	steady     bool           // all groups were available once
	available  int
	violations []string
}

// Run judges all frames and returns what they violate.
func (j *Judge) Run(frames []Frame) []string {
	j.groups, j.pods, j.revisions = map[string]*v1alpha1.ServingGroup{}, map[string]*corev1.Pod{}, map[string]bool{}
	j.starts = map[container]starts{}
	for _, f := range frames {
		switch o := f.Object.(type) {
		case *v1alpha1.ModelServing:
			if o.Name == j.Name {
				j.serving(f, o)
			}
		case *v1alpha1.ServingGroup:
			if metav1.IsControlledBy(o, &v1alpha1.ModelServing{ObjectMeta: metav1.ObjectMeta{UID: j.uid()}}) {
				j.group(f, o)
			}
		case *appsv1.ControllerRevision:
			j.revisions[o.Name] = f.Type != watch.Deleted
		case *corev1.Pod:
			if o.Labels[v1alpha1.LabelModelServing] == j.Name {
				j.pod(f, o)
			}
		}
		j.bounds(f)
	}
	return j.violations
}

func (j *Judge) violate(f Frame, format string, args ...any) {
	j.violations = append(j.violations, fmt.Sprintf("at %d, %s %T %s: %s",
		f.Version, f.Type, f.Object, f.Object.GetName(), fmt.Sprintf(format, args...)))
}

func (j *Judge) serving(f Frame, ms *v1alpha1.ModelServing) {
	if f.Type == watch.Deleted {
		j.specs, j.steady = nil, false
		return
	}
	j.specs = slices.DeleteFunc(append(j.specs, *ms), func(s v1alpha1.ModelServing) bool {
		return s.Generation < ms.Status.ObservedGeneration
	})
	j.updating = ms.Status.Updating
	before := j.booked
	j.booked = map[string]int{}
	for _, entry := range j.updating {
		j.booked[entry] = j.least()
		if chosen, ok := before[entry]; ok {
			j.booked[entry] = chosen
		}
	}
	if limit := max(1, j.MaxUnavailable+j.MaxSurge); j.inUpdate() > limit+j.shrink() {
		j.violate(f, "%d units in update, at most %d may be: %v", j.inUpdate(), limit, j.updating)
	}
}

// inUpdate counts the units of the ledger whose group lives; one that was removed is struck later.
func (j *Judge) inUpdate() int {
	n := 0
	for _, entry := range j.updating {
		name, _, _ := strings.Cut(entry, "/")
		if j.groups[name] != nil {
			n++
		}
	}
	return n
}

func (j *Judge) uid() types.UID {
	if len(j.specs) == 0 {
		return ""
	}
	return j.specs[0].UID
}

// shrink is how many groups more live than are declared: they may be drained to be removed.
func (j *Judge) shrink() int { return max(0, len(j.groups)-j.least()) }

// least and most bound the replicas that the controller may know of.
func (j *Judge) least() int {
	n := replicas(j.specs[0])
	for _, s := range j.specs {
		n = min(n, replicas(s))
	}
	return n
}

func (j *Judge) most() int {
	n := 0
	for _, s := range j.specs {
		n = max(n, replicas(s))
	}
	return n
}

func replicas(ms v1alpha1.ModelServing) int {
	if ms.Spec.Replicas == nil {
		return 1
	}
	return int(*ms.Spec.Replicas)
}

func (j *Judge) group(f Frame, g *v1alpha1.ServingGroup) {
	_, known := j.groups[g.Name]
	if f.Type == watch.Deleted {
		delete(j.groups, g.Name)
		return
	}
	j.groups[g.Name] = g
	for _, name := range named(g) {
		if !j.revisions[name] {
			j.violate(f, "names revision %s, which is not stored", name)
		}
	}
	if !known && len(j.specs) > 0 && len(j.groups) > j.most()+j.MaxSurge {
		j.violate(f, "%d groups live, at most %d+%d may", len(j.groups), j.most(), j.MaxSurge)
	}
}

// named are the revisions that the group's spec names.
func named(g *v1alpha1.ServingGroup) []string {
	out := []string{g.Spec.Revision}
	for _, i := range g.Spec.Instances {
		out = append(out, i.Revision)
	}
	for _, u := range g.Spec.Updates {
		out = append(out, u.Target, u.Previous)
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" })
}

func (j *Judge) pod(f Frame, p *corev1.Pod) {
	before := j.pods[p.Name]
	if f.Type == watch.Deleted {
		delete(j.pods, p.Name)
	} else {
		j.pods[p.Name] = p
	}
	g := j.groups[p.Labels[v1alpha1.LabelServingGroup]]
	if g == nil || !metav1.IsControlledBy(p, g) {
		return
	}
	if j.Whole {
		j.mixed(f, g)
		j.change(f, g, before, p)
	}
	if pin := pinOf(g, p); before == nil && f.Type == watch.Added && pin != "" && p.Labels[v1alpha1.LabelRevision] != pin {
		j.violate(f, "created at revision %s, its unit is pinned to %s", p.Labels[v1alpha1.LabelRevision], pin)
	}
	if before != nil && before.DeletionTimestamp == nil && p.DeletionTimestamp != nil {
		j.deletion(f, g, p)
	}
}

// mixed judges that a group serves at one revision.
func (j *Judge) mixed(f Frame, g *v1alpha1.ServingGroup) {
	at := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(j.pods)) {
		if p := j.pods[name]; metav1.IsControlledBy(p, g) && ready(p) && p.DeletionTimestamp == nil {
			at[p.Labels[v1alpha1.LabelRevision]] = name
		}
	}
	if len(at) > 1 {
		j.violate(f, "Pods of several revisions are Ready: %v", at)
	}
}

// deletion judges that a Pod in service is deleted only if its unit is in the ledger.
func (j *Judge) deletion(f Frame, g *v1alpha1.ServingGroup, p *corev1.Pod) {
	if j.Whole && !j.Broken[g.Name] && g.DeletionTimestamp == nil {
		j.violate(f, "deleted, though its group is updated in place")
	}
	unit := p.Labels[v1alpha1.LabelRole] + "-" + p.Labels[v1alpha1.LabelInstance]
	booked := slices.Contains(j.updating, g.Name) || slices.Contains(j.updating, v1alpha1.LedgerEntry(g.Name, unit))
	if !booked && !j.Broken[g.Name] && g.DeletionTimestamp == nil {
		j.violate(f, "deleted while neither %s nor its unit %s is in the ledger %v", g.Name, unit, j.updating)
	}
}

func pinOf(g *v1alpha1.ServingGroup, p *corev1.Pod) string {
	for _, i := range g.Spec.Instances {
		if i.Role == p.Labels[v1alpha1.LabelRole] && fmt.Sprint(*i.Ordinal) == p.Labels[v1alpha1.LabelInstance] {
			if i.Revision != "" {
				return i.Revision
			}
			return g.Spec.Revision
		}
	}
	return ""
}

// bounds judges that the number of available groups never falls below what is promised.
func (j *Judge) bounds(f Frame) {
	if len(j.specs) == 0 {
		return
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(j.groups)) {
		if j.Broken[name] || j.serves(j.groups[name]) {
			n++
		}
	}
	if n == replicas(j.specs[len(j.specs)-1]) {
		j.steady = true
	}
	if j.steady {
		j.Judged++
		if floor := j.promised() - j.MaxUnavailable; n < j.available && n < floor {
			j.violate(f, "%d groups available, %d are promised", n, floor)
		}
	}
	j.available = n
}

// promised is the number of replicas that the budget is judged by: a unit that was chosen before a
// scale-up goes on afterwards.
func (j *Judge) promised() int {
	n := j.least()
	for _, chosen := range j.booked {
		n = min(n, chosen)
	}
	return n
}

// serves reports whether all Pods of all instances of the group are Ready and stay.
func (j *Judge) serves(g *v1alpha1.ServingGroup) bool {
	for _, i := range g.Spec.Instances {
		for index := range j.Workers[i.Role] + 1 {
			p := j.pods[v1alpha1.PodName(g.Name, i.Role, *i.Ordinal, index)]
			if p == nil || p.DeletionTimestamp != nil || !metav1.IsControlledBy(p, g) || !j.inTraffic(p) {
				return false
			}
		}
	}
	return len(g.Spec.Instances) > 0 && g.DeletionTimestamp == nil
}

func (j *Judge) inTraffic(p *corev1.Pod) bool { return ready(p) || j.Flaps && running(p) }

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
