package history

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/agent"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
	"pitstop.dev/readiness"
	"pitstop.dev/test/sim/cluster"
	"pitstop.dev/test/sim/world"
)

// inPlaceFaults are those of updates in place.
func inPlaceFaults() map[string]fault {
	return map[string]fault{
		"labels that move before the images": {
			build: Real, agents: labelsFirst, rules: []string{"no unit serves two revisions"},
		},
		"an agent that patches before all Pods of the unit are drained": {
			build: Real, agents: patchAtDrained, rules: []string{"is patched once"},
		},
		"Pods that are taken for drained while they drain": {
			build: tampered(group, tamper{list: drainingForDrained}), rules: []string{"is patched once", "front roles"},
		},
		"a hold that another holder releases": {
			build: Real, agents: releaseOthers, rules: []string{"released by its holder"},
		},
		"a budget that is freed at Verified": {
			build: snapshots(verifiedForInService), rules: []string{"a permit answers", "available >="},
		},
		"a missing order that is taken for a release": {
			build: Real, agents: missingForRelease, rules: []string{"serves nothing from its swap", "no unit serves two revisions", "is patched once"},
		},
		"a unit that is taken before its images are proved": {
			build: snapshots(preparingForPrepared), rules: []string{"a permit answers"},
		},
		"sick GPUs that are held whatever the budget": {
			build: Planned(holdAllSick), rules: []string{"available >=", "the ledger has"},
		},
		"Pods that are held for a GPU without a grant": {
			build: tampered(group, tamper{get: allHeld, live: allHeld}), rules: []string{"a sick GPU is held"},
		},
		"pull secrets that are overlooked": {
			build: tampered(group, tamper{list: noSecrets, liveList: noSecrets}), rules: []string{"images that kubelet starts"},
		},
		"roles that are all drained at once": {
			build: tampered(group, tamper{get: allFront}), rules: []string{"front roles"},
		},
		"pin Pods that are counted as workload": {
			build: tampered(group, tamper{create: counted}), rules: []string{"a pin Pod"},
		},
		"pin Pods that are forgotten": {
			build: mixed(group, forgotten), rules: []string{"a pin Pod", "nothing is written"},
		},
		"an attempt that swaps at once where it begins": {
			build: tampered(group, tamper{get: swapInPlace, live: swapInPlace}), rules: []string{"is patched once", "no unit serves two revisions", "front roles"},
		},
	}
}

// labelsFirst writes labels with the hold, and not with the opening.
func labelsFirst(w *world.World, node string, l *agent.Look) {
	pod, order := stored(w, l.Key())
	if l.Step.Do != agent.ActHold || order == nil || order.Spec.Revision == "" {
		return
	}
	pod.Labels = maps.Clone(pod.Labels)
	pod.Labels[v1alpha1.LabelRevision] = order.Spec.Revision
	update(w, node, pod)
}

func stored(w *world.World, key types.NamespacedName) (*corev1.Pod, *v1alpha1.InPlaceUpdate) {
	pod, _ := w.Server.Stored(cluster.Pod, key).(*corev1.Pod)
	order, _ := w.Server.Stored(cluster.InPlaceUpdate, key).(*v1alpha1.InPlaceUpdate)
	return pod.DeepCopy(), order
}

func update(w *world.World, node string, pod *corev1.Pod) {
	if err := w.Server.Direct("agent/"+node).Update(context.Background(), pod); err != nil {
		panic(err)
	}
}

func patchAtDrained(_ *world.World, _ string, l *agent.Look) {
	if l.Step.Do == agent.ActNone && l.Step.Stage == v1alpha1.StageDrained && len(l.Update.Order.Want) > 0 {
		l.Step = agent.Step{Do: agent.ActPatch, Stage: v1alpha1.StageSwapping}
	}
}

func releaseOthers(w *world.World, node string, l *agent.Look) {
	pod, _ := stored(w, l.Key())
	if l.Step.Do != agent.ActNone || len(l.Update.Pod.OtherHolders) == 0 {
		return
	}
	data, err := readiness.Raise(pod, readiness.Opening{Remove: []string{v1alpha1.HoldUnit, v1alpha1.HoldPrefix + "alice"}}, w.Now())
	if err == nil {
		err = w.Server.Direct("agent/"+node).Status().Patch(context.Background(), pod, client.RawPatch(types.StrategicMergePatchType, data))
	}
	if err != nil {
		panic(err)
	}
}

// missingForRelease also has somebody delete orders in the middle of a swap: they are soon made anew.
func missingForRelease(w *world.World, _ string, l *agent.Look) {
	_, order := stored(w, l.Key())
	if order != nil && l.Step.Do == agent.ActNone && l.Step.Stage == v1alpha1.StageSwapping && w.Chance(0.5) {
		if err := w.Server.Direct("user").Delete(context.Background(), order.DeepCopy()); err != nil {
			panic(err)
		}
	}
	if l.Step.Do == agent.ActNone && l.Update.Order.Attempt == 0 && l.Update.Pod.Hold.Placed() {
		l.Step = agent.Step{Do: agent.ActOpen}
	}
}

func drainingForDrained(list client.ObjectList) {
	if orders, ok := list.(*v1alpha1.InPlaceUpdateList); ok {
		for i := range orders.Items {
			o := &orders.Items[i]
			if o.Spec.Permit == v1alpha1.PermitDrain && o.Status.Attempt == o.Spec.Attempt && o.Status.Stage == v1alpha1.StagePrepared {
				o.Status.Stage = v1alpha1.StageDrained
			}
		}
	}
}

func verifiedForInService(s *plan.Snapshot) {
	restage(s, v1alpha1.UnitVerified, v1alpha1.UnitInService)
}

func preparingForPrepared(s *plan.Snapshot) {
	restage(s, v1alpha1.UnitPreparing, v1alpha1.UnitPrepared)
}

func restage(s *plan.Snapshot, from, to v1alpha1.UnitStage) {
	for i := range s.Groups {
		g := &s.Groups[i]
		for n := range g.Status.Updates {
			if u := &g.Status.Updates[n]; u.Stage == from {
				u.Stage, u.Since.Time = to, s.Now.Add(-time.Hour)
			}
		}
	}
}

// holdAllSick has the budget ignored for sick GPUs.
func holdAllSick(s plan.Snapshot) plan.Plan {
	p := plan.Decide(s)
	written := map[string]bool{}
	for _, a := range p.Actions {
		written[a.Group] = true
	}
	for _, g := range s.Groups {
		sick := slices.ContainsFunc(g.Status.Instances, func(i v1alpha1.InstanceStatus) bool { return i.GPUFault != "" })
		if sick && !written[g.Name] && len(g.Spec.Updates)+len(g.Spec.GPUHolds) == 0 {
			spec := *g.Spec.DeepCopy()
			spec.GPUHolds = []string{""}
			p.Actions = append(p.Actions, plan.Action{Kind: plan.Write, Group: g.Name, UID: g.UID, ResourceVersion: g.ResourceVersion, Spec: spec})
		}
	}
	return p
}

func allHeld(o client.Object) {
	if g, ok := o.(*v1alpha1.ServingGroup); ok {
		g.Spec.GPUHolds = []string{""}
	}
}

func noSecrets(list client.ObjectList) {
	if pods, ok := list.(*corev1.PodList); ok {
		for i := range pods.Items {
			pods.Items[i].Spec.ImagePullSecrets = nil
		}
	}
}

func allFront(o client.Object) {
	if ms, ok := o.(*v1alpha1.ModelServing); ok {
		for i := range ms.Spec.Template.Roles {
			ms.Spec.Template.Roles[i].Front = nil
		}
	}
}

// swapInPlace goes ahead of the permit.
func swapInPlace(o client.Object) {
	if g, ok := o.(*v1alpha1.ServingGroup); ok {
		for i := range g.Spec.Updates {
			if u := &g.Spec.Updates[i]; u.Method == v1alpha1.UnitInPlace && u.Permit == v1alpha1.PermitDrain {
				u.Permit = v1alpha1.PermitSwap
			}
		}
	}
}

// counted gives a pin Pod the labels of the group's own Pods.
func counted(o client.Object) bool {
	if pod, ok := o.(*corev1.Pod); ok && pod.Labels[v1alpha1.LabelPin] != "" {
		pod.Labels[v1alpha1.LabelModelServing], pod.Labels[v1alpha1.LabelServingGroup] = "m", pod.Labels[v1alpha1.LabelPin]
	}
	return true
}

// forgotten has the coordinator see no pin Pod.
func forgotten(d Deps) Deps {
	d.Pins, d.Live = noPins{d.Pins}, noPins{d.Live}
	return d
}

type noPins struct{ client.Reader }

func (r noPins) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := r.Reader.List(ctx, list, opts...)
	if pods, ok := list.(*corev1.PodList); ok {
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Labels[v1alpha1.LabelPin] != "" })
	}
	return err
}

func (r noPins) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if strings.Contains(key.Name, "-pin-") {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	return r.Reader.Get(ctx, key, o, opts...)
}
