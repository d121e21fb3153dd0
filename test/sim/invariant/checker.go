package invariant

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/revision"
	"pitstop.dev/test/sim/cluster"
)

// A Violation is a rule that was broken, and by what.
type Violation struct {
	Rule string
	Text string
}

// A Checker collects what was broken.
type Checker struct {
	server     *cluster.Server
	leases     string
	revisions  map[types.NamespacedName]revisionFacts
	rollouts   map[string]bool     // by UID and unit: an update that is part of a rollout is open
	backOuts   map[string]int64    // by ledger entry: the attempt that goes back to the pin
	served     map[string]bool     // by UID and unit: it was permitted to serve since its last swap
	patches    map[types.UID]int32 // of a Pod's images, while it ran
	lost       map[string][]string // by UID and instance, and by UID: who deleted a Pod; empty: fate
	requested  map[string]int64    // by id: the attempt that was made for the request
	condemned  map[types.UID]bool  // Pods of a unit that is created anew on request, as it was when it was swapped
	Violations []Violation
}

// revisionFacts is what a stored revision makes of each role.
type revisionFacts struct {
	digests map[string]string
	workers map[string]int32
	images  map[string][2]string // of the entry and of a worker
}

// New returns a checker that sees every write of the server from now on. The agents' Leases are in
// the namespace leases.
func New(s *cluster.Server, leases string) *Checker {
	c := &Checker{
		server: s, leases: leases, revisions: map[types.NamespacedName]revisionFacts{},
		requested: map[string]int64{}, condemned: map[types.UID]bool{},
		rollouts: map[string]bool{}, backOuts: map[string]int64{}, lost: map[string][]string{}, patches: map[types.UID]int32{}, served: map[string]bool{},
	}
	s.Watch(c.observe)
	return c
}

func (c *Checker) observe(w cluster.Write) {
	c.noteLosses(w)
	if w.Frame != nil {
		c.ofOthers(w)
	}
	switch w.Kind {
	case cluster.ControllerRevision:
		c.ofRevision(w)
	case cluster.ServingGroup:
		c.ofGroup(w)
	case cluster.ModelServing:
		c.ofServing(w)
	case cluster.Pod:
		c.ofInPlace(w)
		c.ofPod(w)
	}
}

func (c *Checker) violated(w cluster.Write, rule, format string, args ...any) {
	c.Violations = append(c.Violations, Violation{Rule: rule, Text: fmt.Sprintf("%s by %s: ", w, w.By) + fmt.Sprintf(format, args...)})
}

// The rules, by name.
const (
	ruleOwner     = "nothing of another owner is touched"
	ruleRevision  = "a revision is stored before it is referred to, and as long as it is"
	ruleOrdinal   = "no ordinal twice"
	ruleLive      = "live <= replicas + maxSurge"
	ruleBudget    = "available >= replicas - maxUnavailable"
	ruleInUpdate  = "units in update <= max(1, maxUnavailable + maxSurge)"
	ruleLedger    = "the ledger has a unit from before it is touched until its update is closed"
	rulePermit    = "a permit answers what was reported"
	rulePin       = "the pin changes with the permit Swap and in no other way"
	rulePod       = "Pods are at their unit's pin"
	ruleHold      = "a Pod that is created into a unit in update is held"
	ruleDelete    = "a Pod is deleted for a reason"
	ruleDrain     = "a Pod that serves is drained before it is deleted"
	ruleMixed     = "no unit serves two revisions"
	ruleGate      = "the coordinator opens an absent gate of a Pod without hold or agent, and nothing else"
	rulePartition = "ordinals below the partition keep their pin"
	rulePatch     = "a Pod is patched once in an attempt, by permit, and after its whole unit was drained"
	ruleHeld      = "a unit in place serves nothing from its swap on before it may serve"
	ruleFront     = "front roles are drained first"
	ruleHolder    = "a hold is released by its holder"
	ruleProof     = "a unit leaves traffic only for images that kubelet starts for its Pods"
	rulePinPod    = "a pin Pod is made for an open update, is no workload, and goes with it"
	ruleGPU       = "a unit with a sick GPU is held within the budget, by grant, and let go when it is healthy"
	ruleRequest   = "what a person asks for is recorded, then done once, and then removed"
	ruleEnd       = "a history ends as declared, or a condition says why not"
	ruleQuiet     = "nothing is written where nothing changes"
	ruleReport    = "the status says what is"
)

// ofRevision keeps what revisions say, and judges their removal.
func (c *Checker) ofRevision(w cluster.Write) {
	switch w.Verb {
	case cluster.Create:
		if cr, ok := w.New.(*appsv1.ControllerRevision); ok {
			c.keep(w.Key, cr)
		}
	case cluster.Update:
		before, after := w.Old.(*appsv1.ControllerRevision), w.New.(*appsv1.ControllerRevision)
		if string(before.Data.Raw) != string(after.Data.Raw) {
			c.violated(w, ruleRevision, "the data of a revision is immutable")
		}
	case cluster.Remove:
		if user := c.userOf(w.Key, w.Old); w.Frame != nil && user != "" {
			c.violated(w, ruleRevision, "%s refers to it", user)
		}
	case cluster.UpdateStatus, cluster.Mark: // it has neither status nor finalizers
	}
}

func (c *Checker) keep(key types.NamespacedName, cr *appsv1.ControllerRevision) {
	data, err := revision.Decode(cr)
	if err != nil {
		return
	}
	f := revisionFacts{digests: map[string]string{}, workers: map[string]int32{}, images: map[string][2]string{}}
	for _, r := range data.Roles {
		f.digests[r.Name], f.workers[r.Name] = data.RoleDigest(r.Name), r.WorkerReplicas
		images := [2]string{r.EntryTemplate.Spec.Containers[0].Image}
		if r.WorkerTemplate != nil {
			images[1] = r.WorkerTemplate.Spec.Containers[0].Image
		}
		f.images[r.Name] = images
	}
	c.revisions[key] = f
}

// userOf names an object of the same owner that refers to the revision.
func (c *Checker) userOf(key types.NamespacedName, cr client.Object) string {
	for _, o := range c.server.All(cluster.ServingGroup) {
		if g := o.(*v1alpha1.ServingGroup); ownerUID(g) == ownerUID(cr) && slices.Contains(referred(g), key.Name) {
			return "ServingGroup " + g.Name
		}
	}
	for _, o := range c.server.All(cluster.ModelServing) {
		ms := o.(*v1alpha1.ModelServing)
		if ms.UID == ownerUID(cr) && (ms.Status.CurrentRevision == key.Name || ms.Status.UpdateRevision == key.Name) {
			return "ModelServing " + ms.Name
		}
	}
	return ""
}

// referred are the revisions that a group's spec names.
func referred(g *v1alpha1.ServingGroup) []string {
	out := []string{g.Spec.Revision}
	for _, i := range g.Spec.Instances {
		out = append(out, i.Revision)
	}
	for _, u := range g.Spec.Updates {
		out = append(out, u.Target, u.Previous)
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// ofServing judges the status of a ModelServing: what leaves the ledger, and what it names.
func (c *Checker) ofServing(w cluster.Write) {
	ms, ok := w.New.(*v1alpha1.ModelServing)
	if !ok || w.Frame == nil {
		return
	}
	for _, name := range []string{ms.Status.CurrentRevision, ms.Status.UpdateRevision} {
		if name != "" && c.server.Stored(cluster.ControllerRevision, types.NamespacedName{Namespace: ms.Namespace, Name: name}) == nil {
			c.violated(w, ruleRevision, "status names %s, which is not stored", name)
		}
	}
	c.ofAnswers(w, w.Old.(*v1alpha1.ModelServing), ms)
	for _, entry := range w.Old.(*v1alpha1.ModelServing).Status.Updating {
		if !slices.Contains(ms.Status.Updating, entry) && c.open(ms, entry) {
			c.violated(w, ruleLedger, "%s was struck out while its update is open", entry)
		}
	}
}

// open reports whether the ledger's entry stands for an update that is not closed.
func (c *Checker) open(ms *v1alpha1.ModelServing, entry string) bool {
	name, unit, _ := strings.Cut(entry, "/")
	g, ok := c.server.Stored(cluster.ServingGroup, types.NamespacedName{Namespace: ms.Namespace, Name: name}).(*v1alpha1.ServingGroup)
	return ok && ownerUID(g) == ms.UID && (openOf(g, unit) != nil || slices.Contains(g.Spec.GPUHolds, unit))
}

func updateOf(g *v1alpha1.ServingGroup, unit string) *v1alpha1.UnitUpdate {
	for i := range g.Spec.Updates {
		if g.Spec.Updates[i].Unit == unit {
			return &g.Spec.Updates[i]
		}
	}
	return nil
}

func ownerUID(o client.Object) types.UID {
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
		return owner.UID
	}
	return ""
}
