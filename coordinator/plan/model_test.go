package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// A model is a ModelServing's world without its controller: the objects, and a ServingGroup
// controller that does at a time what chance has it do. Role instances are its smallest parts.
type model struct {
	draw    func(n int) int // a number below n
	decide  func(Snapshot) Plan
	now     time.Time
	serving Serving
	target  string
	current string
	layouts map[string]Layout
	hidden  map[string]bool // revisions that cannot be read at present
	bad     map[string]bool // digests whose Pods never become ready
	ledger  []string
	// rejected is the revision that no unit is brought to.
	rejected string
	groups   map[string]*servingGroup
	writes   int64
	healed   bool // nothing fails any more
	mixed    bool // the strategy changed while units were in update
	trace    []string
	after    map[string]*v1alpha1.ServingGroupSpec // the specs as the plan at hand makes them
	// asked are the requests that are not answered yet, answers the last answer of each verb, done the requests
	// by which a unit was recreated.
	asked   map[v1alpha1.Verb]Request
	answers map[v1alpha1.Verb]Answer
	serial  int
	done    map[string]bool
}

type servingGroup struct {
	Group
	pods     map[string]*instancePods // by unit
	drained  map[string]int64         // the last attempt of a unit that was drained
	swapping map[int64]time.Time      // since when an attempt has been replacing Pods
}

// instancePods are the Pods of one role instance.
type instancePods struct {
	role                       string
	ordinal                    int32
	revision                   string
	phase                      v1alpha1.InstancePhase
	exist, dying, loaded, gate bool
	attempt                    int64 // for which it was made
	readySince, downSince      time.Time
}

// doomed reports whether the Pods go by request, though they are at the pin.
func (p *instancePods) doomed(u *v1alpha1.UnitUpdate) bool {
	return u != nil && u.Recreates() && u.Permit.Allows(v1alpha1.PermitSwap) && p.attempt != u.Attempt
}

func (p *instancePods) ready() bool { return p.exist && !p.dying && p.loaded && p.gate }

const modelDeadline = 10 * time.Minute

func (m *model) logf(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf("%s  ", m.now.Format("15:04:05"))+fmt.Sprintf(format, args...))
}

func (m *model) snapshot() Snapshot {
	s := Snapshot{
		Now: m.now, Serving: m.serving, Target: m.target, Current: m.current,
		Layouts: map[string]Layout{}, Ledger: slices.Clone(m.ledger), Rejected: m.rejected, Requests: m.requests(),
	}
	s.Serving.Roles = slices.Clone(m.serving.Roles)
	for name, l := range m.layouts {
		if !m.hidden[name] || name == m.target {
			s.Layouts[name] = l
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[name].Group
		g.Spec, g.Status = *g.Spec.DeepCopy(), *g.Status.DeepCopy()
		s.Groups = append(s.Groups, g)
	}
	slices.SortFunc(s.Groups, func(a, b Group) int { return cmp.Compare(*a.Spec.Ordinal, *b.Spec.Ordinal) })
	return s
}

func (m *model) touch(g *servingGroup) {
	m.writes++
	g.ResourceVersion = fmt.Sprint(m.writes)
}

func (m *model) create(a Action) {
	m.writes++
	m.groups[a.Group] = &servingGroup{
		Group: Group{
			Name: a.Group, UID: types.UID(fmt.Sprintf("uid-%d", m.writes)), Generation: 1,
			ResourceVersion: fmt.Sprint(m.writes), Spec: *a.Spec.DeepCopy(),
		},
		pods: map[string]*instancePods{}, drained: map[string]int64{}, swapping: map[int64]time.Time{},
	}
}

// pinOf is the revision that an instance is pinned to.
func pinOf(spec *v1alpha1.ServingGroupSpec, i *v1alpha1.RoleInstance) string {
	return cmp.Or(i.Revision, spec.Revision)
}

func (m *model) digest(revision, role string) string { return m.layouts[revision][role].Digest }

// covering is the open update that an instance is part of, nil if there is none.
func covering(spec *v1alpha1.ServingGroupSpec, unit string) *v1alpha1.UnitUpdate {
	for i := range spec.Updates {
		if u := &spec.Updates[i]; (u.Unit == "" || u.Unit == unit) && !u.Preparing() {
			return u
		}
	}
	return nil
}

// reconcile is one pass of the ServingGroup controller.
func (m *model) reconcile(g *servingGroup) {
	if g.Deleting {
		for _, name := range slices.Sorted(maps.Keys(g.pods)) {
			delete(g.pods, name)
			if !m.healed && m.draw(2) == 0 {
				break
			}
		}
		if len(g.pods) == 0 {
			delete(m.groups, g.Name)
			m.writes++
			return
		}
		m.report(g)
		return
	}
	declared := map[string]bool{}
	for i := range g.Spec.Instances {
		inst := &g.Spec.Instances[i]
		name := v1alpha1.UnitName(inst.Role, *inst.Ordinal)
		declared[name] = true
		if g.pods[name] == nil {
			g.pods[name] = &instancePods{role: inst.Role, ordinal: *inst.Ordinal, phase: v1alpha1.InstanceCreating, downSince: m.now}
		}
		m.materialise(g, name, pinOf(&g.Spec, inst))
	}
	for _, name := range slices.Sorted(maps.Keys(g.pods)) {
		p := g.pods[name]
		switch {
		case declared[name]:
		case p.dying || !p.exist:
			delete(g.pods, name)
		default:
			p.phase, p.dying = v1alpha1.InstanceRemoving, true
		}
	}
	for _, u := range g.Spec.Updates {
		if u.Permit == v1alpha1.PermitDrain && (m.healed || m.draw(2) == 0) {
			g.drained[u.Unit] = u.Attempt
		}
	}
	g.Status.ObservedGeneration = g.Generation
	m.report(g)
}

// materialise brings the Pods of one instance a step nearer to their pin.
func (m *model) materialise(g *servingGroup, name, pin string) {
	p, u := g.pods[name], covering(&g.Spec, name)
	switch {
	case p.dying:
		p.exist, p.dying, p.loaded = false, false, false
	case !p.exist:
		p.exist, p.loaded, p.revision, p.phase = true, false, pin, v1alpha1.InstanceRunning
		if u != nil {
			p.attempt = u.Attempt
		}
	case m.digest(p.revision, p.role) != m.digest(pin, p.role), p.doomed(u):
		p.dying = true
	}
	p.gate = u == nil || u.Permit == v1alpha1.PermitServe
	m.clock(p)
}

// clock keeps the times of an instance.
func (m *model) clock(p *instancePods) {
	switch {
	case p.ready():
		p.downSince = time.Time{}
		if p.readySince.IsZero() {
			p.readySince = m.now
		}
	default:
		p.readySince = time.Time{}
		if p.downSince.IsZero() {
			p.downSince = m.now
		}
	}
}

// report writes the status of a group.
func (m *model) report(g *servingGroup) {
	before, old := g.Status.DeepCopy(), g.Status.Updates
	g.Status.Instances, g.Status.Updates = nil, nil
	for _, name := range slices.Sorted(maps.Keys(g.pods)) {
		p := g.pods[name]
		st := v1alpha1.InstanceStatus{Role: p.role, Ordinal: new(p.ordinal), Phase: p.phase, Revision: p.revision}
		st.Ready = p.ready() && covering(&g.Spec, name) == nil
		if !p.readySince.IsZero() {
			st.ReadySince = &metav1.Time{Time: p.readySince}
		}
		if !p.downSince.IsZero() {
			st.DownSince = &metav1.Time{Time: p.downSince}
		}
		g.Status.Instances = append(g.Status.Instances, st)
	}
	if g.Status.ObservedGeneration == g.Generation {
		for i := range g.Spec.Updates {
			if !g.Spec.Updates[i].Preparing() {
				g.Status.Updates = append(g.Status.Updates, m.stage(g, &g.Spec.Updates[i], old))
			}
		}
	}
	if !equality.Semantic.DeepEqual(before, &g.Status) {
		m.touch(g)
	}
}

func (m *model) stage(g *servingGroup, u *v1alpha1.UnitUpdate, old []v1alpha1.UnitUpdateStatus) v1alpha1.UnitUpdateStatus {
	st := v1alpha1.UnitUpdateStatus{Unit: u.Unit, Attempt: u.Attempt, Since: metav1.Time{Time: m.now}}
	st.Stage = m.stageOf(g, u)
	for _, o := range old {
		if o.Unit == st.Unit && o.Attempt == st.Attempt && o.Stage == st.Stage {
			st.Since = o.Since
		}
	}
	return st
}

func (m *model) stageOf(g *servingGroup, u *v1alpha1.UnitUpdate) v1alpha1.UnitStage {
	if u.Permit == v1alpha1.PermitDrain {
		if g.drained[u.Unit] == u.Attempt {
			return v1alpha1.UnitDrained
		}
		return v1alpha1.UnitDraining
	}
	loaded, ready := true, true
	for i := range g.Spec.Instances {
		inst := &g.Spec.Instances[i]
		name := v1alpha1.UnitName(inst.Role, *inst.Ordinal)
		if u.Unit != "" && u.Unit != name {
			continue
		}
		p := g.pods[name]
		at := p != nil && p.exist && !p.dying && !p.doomed(u) && p.loaded && m.digest(p.revision, p.role) == m.digest(pinOf(&g.Spec, inst), p.role)
		loaded = loaded && at
		ready = ready && at && p.gate
	}
	switch {
	case loaded && ready && u.Permit == v1alpha1.PermitServe:
		return v1alpha1.UnitInService
	case loaded:
		return v1alpha1.UnitVerified
	}
	if _, ok := g.swapping[u.Attempt]; !ok {
		g.swapping[u.Attempt] = m.now
	}
	if m.now.Sub(g.swapping[u.Attempt]) >= modelDeadline {
		return v1alpha1.UnitFailed
	}
	return v1alpha1.UnitSwapping
}
