package world

import (
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/admission"
	"pitstop.dev/readiness"
	"pitstop.dev/test/sim/cluster"
)

// A deed is something that the user or fate does.
type deed struct {
	name   string
	weight int
	do     func(*World)
}

func deeds() []deed {
	return []deed{
		{"image", 20, func(w *World) {
			w.edit("gives a new image", func(s *v1alpha1.ModelServingSpec) { w.setImage(s, imageGood) })
			w.meddle()
		}},
		{"bad image", 7, func(w *World) {
			w.edit("gives a bad image", func(s *v1alpha1.ModelServingSpec) {
				w.setImage(s, pick(w.Loop, imageStuck, imageCrash, imageMissing, imageMissing, imageForeign))
			})
			w.meddle()
		}},
		{"image back", 5, func(w *World) { w.edit("takes images back", w.takeBack) }},
		{"push", 3, (*World).push},
		{"method", 4, func(w *World) { w.edit("changes the method", w.changeMethod) }},
		{"collect", 3, (*World).collectImages},
		{"order", 3, (*World).loseOrder},
		{"hold", 2, (*World).hold},
		{"scale", 9, func(w *World) {
			w.edit("scales", func(s *v1alpha1.ModelServingSpec) { s.Replicas = new(int32(w.IntN(5))) })
		}},
		{"scale role", 4, func(w *World) { w.edit("scales a role", w.scaleRole) }},
		{"roles", 3, func(w *World) { w.edit("changes the roles", w.changeRoles) }},
		{"budgets", 5, func(w *World) { w.edit("changes the budgets", w.setBudgets) }},
		{"partition", 5, func(w *World) { w.edit("moves the partition", w.setPartition) }},
		{"gap", 7, (*World).gap},
		{"pause", 3, func(w *World) {
			w.edit("pauses or resumes", func(s *v1alpha1.ModelServingSpec) { s.Paused = !s.Paused })
		}},
		{"strategy", 1, func(w *World) { w.edit("changes the strategy", w.changeStrategy) }},
		{"delete Pod", 5, (*World).deletePod},
		{"delete ServingGroup", 2, (*World).deleteGroup},
		{"delete ModelServing", 1, (*World).deleteServing},
		{"forge", 2, (*World).forge},
		{"squat", 2, (*World).squat},
		{"strip", 3, (*World).strip},
		{"finalizer", 2, (*World).takeFinalizer},
		{"crash", 5, (*World).crashPod},
		{"evict", 4, (*World).evictPod},
		{"node", 3, (*World).loseNode},
		{"agent", 3, (*World).loseAgent},
		{"quota", 1, (*World).refuse},
	}
}

// meddle has something happen while a rollout is likely to be under way.
func (w *World) meddle() {
	if !w.Chance(0.6) {
		return
	}
	do := pick(w.Loop,
		func(w *World) { w.edit("takes images back", w.takeBack) },
		func(w *World) { w.edit("takes images back", w.takeBack) },
		func(w *World) {
			w.edit("gives a new image", func(s *v1alpha1.ModelServingSpec) { w.setImage(s, imageGood) })
		},
		func(w *World) { w.edit("changes the method", w.changeMethod) },
		func(w *World) {
			w.edit("changes the method", w.changeMethod)
			w.edit("takes images back", w.takeBack)
		},
		(*World).collectImages, (*World).deletePod, (*World).evictPod, (*World).crashPod,
		(*World).loseNode, (*World).loseAgent, (*World).loseOrder, (*World).hold,
	)
	w.After(w.Between(time.Second, time.Minute), func() {
		if !w.calm {
			do(w)
		}
	})
}

// loseOrder has somebody delete an order, one that keeps a Pod out of traffic if there is one.
func (w *World) loseOrder() {
	all := w.Server.All(cluster.InPlaceUpdate)
	var holds []client.Object
	for _, o := range all {
		if pod := w.pod(client.ObjectKeyFromObject(o), ""); pod != nil && pod.Annotations[v1alpha1.HoldInPlace] != "" {
			holds = append(holds, o)
		}
	}
	switch {
	case len(holds) > 0:
		w.userDeletes(pick(w.Loop, holds...))
	case len(all) > 0:
		w.userDeletes(pick(w.Loop, all...))
	}
}

// hold has an operator keep a Pod out of traffic for a while.
func (w *World) hold() {
	all := w.pods(nil)
	if len(all) == 0 {
		return
	}
	pod := pick(w.Loop, all...)
	w.tell("user", "holds %s", pod.Name)
	put, err := readiness.Put(pod, "alice", "")
	w.must(err)
	w.must(w.as("user").Status().Patch(w.ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, put)))
	w.After(w.Between(time.Second, 4*time.Minute), func() { w.letGo(client.ObjectKeyFromObject(pod), pod.UID) })
}

func (w *World) letGo(key types.NamespacedName, uid types.UID) {
	pod := w.pod(key, uid)
	if pod == nil {
		return
	}
	data, err := readiness.Release(pod, "alice")
	w.must(err)
	w.must(w.as("user").Status().Patch(w.ctx, pod, client.RawPatch(types.StrategicMergePatchType, data)))
}

// Trouble has n things happen until end, at random times.
func (w *World) Trouble(n int, end time.Duration) {
	all := deeds()
	total := 0
	for _, d := range all {
		total += d.weight
	}
	for range n {
		x := w.IntN(total)
		i := 0
		for x >= all[i].weight {
			x -= all[i].weight
			i++
		}
		w.After(w.Between(time.Second, end), func() { all[i].do(w) })
	}
}

// edit changes the spec of one ModelServing.
func (w *World) edit(why string, change func(*v1alpha1.ModelServingSpec)) {
	all := w.Server.All(cluster.ModelServing)
	if len(all) == 0 {
		return
	}
	ms, ok := pick(w.Loop, all...).DeepCopyObject().(*v1alpha1.ModelServing)
	if !ok {
		return
	}
	old := ms.DeepCopy()
	change(&ms.Spec)
	if no := refusal(old, ms); no != "" {
		w.tell("user", "%s %s: refused: %s", why, ms.Name, no)
		return
	}
	w.tell("user", "%s %s", why, ms.Name)
	w.must(w.as("user").Update(w.ctx, ms))
}

// refusal is what admission says of a change where units are updated in place. Of other changes it is not
// asked: what it refuses may be stored since before there was an admission.
func refusal(old, ms *v1alpha1.ModelServing) string {
	if !inPlace(&old.Spec) && !inPlace(&ms.Spec) {
		return ""
	}
	ms = ms.DeepCopy()
	cluster.SetDefaults(ms)
	_, errs := admission.Validate(old, ms)
	if len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}

func inPlace(s *v1alpha1.ModelServingSpec) bool {
	return s.RolloutStrategy.UpdateMethod == v1alpha1.UpdateInPlace
}

func (w *World) setImage(s *v1alpha1.ModelServingSpec, kind string) {
	r := &s.Template.Roles[w.IntN(len(s.Template.Roles))]
	r.EntryTemplate.Spec.Containers[0].Image = w.newImage(kind)
	if r.WorkerTemplate != nil && w.Chance(0.7) {
		r.WorkerTemplate.Spec.Containers[0].Image = w.newImage(imageGood)
	}
}

// Bad reports whether there are Pods that cannot become ready, or such are declared.
func (w *World) Bad() bool {
	for _, o := range w.Server.All(cluster.ModelServing) {
		if ms, ok := o.(*v1alpha1.ModelServing); ok && slices.ContainsFunc(imagesOf(&ms.Spec), func(i *string) bool { return w.bad(*i) }) {
			return true
		}
	}
	return slices.ContainsFunc(w.pods(nil), func(pod *corev1.Pod) bool { return w.bad(imageOf(pod)) })
}

// imagesOf are the images that are declared.
func imagesOf(s *v1alpha1.ModelServingSpec) []*string {
	var out []*string
	for i := range s.Template.Roles {
		r := &s.Template.Roles[i]
		out = append(out, &r.EntryTemplate.Spec.Containers[0].Image)
		if r.WorkerTemplate != nil {
			out = append(out, &r.WorkerTemplate.Spec.Containers[0].Image)
		}
	}
	return out
}

// takeBack declares images that are running somewhere, as one who reverts a change does.
func (w *World) takeBack(s *v1alpha1.ModelServingSpec) {
	for i := range s.Template.Roles {
		r := &s.Template.Roles[i]
		for _, pod := range w.pods(nil) {
			switch {
			case pod.Labels[v1alpha1.LabelRole] != r.Name || w.bad(imageOf(pod)):
			case pod.Labels[v1alpha1.LabelIndex] == "0":
				r.EntryTemplate.Spec.Containers[0].Image = imageOf(pod)
			case r.WorkerTemplate != nil:
				r.WorkerTemplate.Spec.Containers[0].Image = imageOf(pod)
			}
		}
	}
}

// push has an image in the registry that was asked for before.
func (w *World) push() {
	for _, o := range w.Server.All(cluster.ModelServing) {
		if ms, ok := o.(*v1alpha1.ModelServing); ok {
			for _, image := range imagesOf(&ms.Spec) {
				if kindOfImage(*image) == imageMissing {
					w.tell("user", "pushes %s", *image)
					w.pushed[*image] = true
				}
			}
		}
	}
}

// changeMethod has units updated the other way from now on; from Recreate to InPlace with a new image.
func (w *World) changeMethod(s *v1alpha1.ModelServingSpec) {
	if inPlace(s) {
		s.RolloutStrategy.UpdateMethod = v1alpha1.UpdateRecreate
		return
	}
	s.RolloutStrategy.UpdateMethod = v1alpha1.UpdateInPlace
	w.setBudgets(s)
	if w.Chance(0.5) {
		w.setImage(s, imageGood)
	}
}

// Heal has the user take back what is bad, so that what is declared can be reached.
func (w *World) Heal() {
	for range w.Server.All(cluster.ModelServing) {
		w.edit("gives good images and resumes", func(s *v1alpha1.ModelServingSpec) {
			s.Paused = false
			for _, image := range imagesOf(s) {
				*image = w.newImage(imageGood)
			}
		})
	}
}

func (w *World) scaleRole(s *v1alpha1.ModelServingSpec) {
	s.Template.Roles[w.IntN(len(s.Template.Roles))].Replicas = new(int32(w.IntN(3)))
}

// changeRoles needs new Pods.
func (w *World) changeRoles(s *v1alpha1.ModelServingSpec) {
	if inPlace(s) && w.Chance(0.5) {
		s.RolloutStrategy.UpdateMethod = v1alpha1.UpdateRecreate
	}
	roles := s.Template.Roles
	switch {
	case len(roles) == 1:
		name := "router"
		if roles[0].Name == name {
			name = "decode"
		}
		s.Template.Roles = append(roles, w.role(name))
	case w.Chance(0.5):
		i := w.IntN(len(roles))
		s.Template.Roles = slices.Delete(slices.Clone(roles), i, i+1)
	default:
		i := w.IntN(len(roles))
		roles[i] = w.role(roles[i].Name)
	}
	w.setBudgets(s)
}

func (w *World) changeStrategy(s *v1alpha1.ModelServingSpec) {
	s.RolloutStrategy.Type = ""
	w.setBudgets(s)
}

// setPartition protects some units, or none.
func (w *World) setPartition(s *v1alpha1.ModelServingSpec) {
	p := intstr.FromInt32(int32(w.IntN(3)))
	if s.RolloutStrategy.Type == v1alpha1.RoleRollingUpdate {
		s.Template.Roles[w.IntN(len(s.Template.Roles))].Partition = &p
		return
	}
	if s.RolloutStrategy.RollingUpdateConfiguration == nil {
		s.RolloutStrategy.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{}
	}
	s.RolloutStrategy.RollingUpdateConfiguration.Partition = &p
}

// gap has the group with the lowest ordinal go first when there are to be fewer, and then protects
// some of those that are left: from now on ordinals are no positions.
func (w *World) gap() {
	groups := w.Server.All(cluster.ServingGroup)
	if len(groups) < 2 {
		return
	}
	for _, pod := range w.pods(nil) {
		if pod.Labels[v1alpha1.LabelServingGroup] == groups[0].GetName() {
			c := pod.DeepCopy()
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "controller.kubernetes.io/pod-deletion-cost", "-10")
			w.must(w.as("user").Update(w.ctx, c))
		}
	}
	w.After(5*time.Second, func() {
		w.edit("wants one group less of", func(s *v1alpha1.ModelServingSpec) { s.Replicas = new(max(1, *s.Replicas-1)) })
	})
	w.After(w.Between(20*time.Second, 3*time.Minute), func() { w.edit("moves the partition of", w.setPartition) })
}

func (w *World) deletePod() {
	if all := w.pods(nil); len(all) > 0 {
		w.userDeletes(pick(w.Loop, all...))
	}
}

func (w *World) deleteGroup() {
	if all := w.Server.All(cluster.ServingGroup); len(all) > 0 {
		w.userDeletes(pick(w.Loop, all...))
	}
}

// deleteServing deletes a ModelServing, and mostly makes one of the same name anew.
func (w *World) deleteServing() {
	all := w.Server.All(cluster.ModelServing)
	if len(all) == 0 {
		return
	}
	o := pick(w.Loop, all...)
	w.userDeletes(o)
	if w.Chance(0.7) {
		w.After(w.Between(100*time.Millisecond, 20*time.Second), func() {
			if w.Server.Stored(cluster.ModelServing, client.ObjectKeyFromObject(o)) == nil {
				w.Declare(o.GetName())
			}
		})
	}
}

func (w *World) userDeletes(o client.Object) {
	c, ok := o.DeepCopyObject().(client.Object)
	if ok {
		w.must(client.IgnoreNotFound(w.as("user").Delete(w.ctx, c)))
	}
}

// forge makes a Pod that has all labels of a ServingGroup's Pod and is nobody's.
func (w *World) forge() {
	all := w.pods(nil)
	if len(all) == 0 {
		return
	}
	model := pick(w.Loop, all...)
	pod := &corev1.Pod{Spec: *model.Spec.DeepCopy()}
	pod.Namespace, pod.Name = Namespace, model.Name+"-forged"
	pod.Labels, pod.Annotations = model.Labels, map[string]string{}
	pod.Spec.NodeName = ""
	w.create(pod)
}

// strip takes from an object the labels that caches select by.
func (w *World) strip() {
	kind := pick(w.Loop, cluster.Pod, cluster.Pod, cluster.Pod, cluster.Service, cluster.InPlaceUpdate, cluster.ControllerRevision)
	all := w.Server.All(kind)
	if len(all) == 0 {
		return
	}
	o, ok := pick(w.Loop, all...).DeepCopyObject().(client.Object)
	if !ok || o.GetDeletionTimestamp() != nil {
		return
	}
	w.tell("user", "takes the labels from %s %s", kind, o.GetName())
	kept := o.GetLabels()
	maps.DeleteFunc(kept, func(key, _ string) bool { return key != v1alpha1.LabelRevision })
	o.SetLabels(kept)
	w.must(w.as("user").Update(w.ctx, o))
}

// takeFinalizer takes the finalizer from a ServingGroup, and perhaps deletes it some time later.
func (w *World) takeFinalizer() {
	all := w.Server.All(cluster.ServingGroup)
	if len(all) == 0 {
		return
	}
	g, ok := pick(w.Loop, all...).DeepCopyObject().(client.Object)
	if !ok {
		return
	}
	w.tell("user", "takes the finalizers from %s", g.GetName())
	g.SetFinalizers(nil)
	w.must(w.as("user").Update(w.ctx, g))
	if w.Chance(0.3) {
		w.After(w.Between(0, 20*time.Second), func() { w.leave(g) })
	}
}

// squat takes a name that a ServingGroup or its Pods may need, for a while.
func (w *World) squat() {
	ordinal, role := int32(w.IntN(5)), pick(w.Loop, "prefill", "decode")
	name := v1alpha1.PodName(v1alpha1.ServingGroupName("m", ordinal), role, 0, 0)
	var o client.Object
	switch w.IntN(3) {
	case 0:
		pod := &corev1.Pod{Spec: w.template("other").Spec}
		o = pod
	case 1:
		o = &corev1.Service{}
	default:
		group := &v1alpha1.ServingGroup{Spec: v1alpha1.ServingGroupSpec{Ordinal: &ordinal, Revision: "somebody-elses"}}
		o, name = group, v1alpha1.ServingGroupName("m", ordinal)
	}
	o.SetNamespace(Namespace)
	o.SetName(name)
	if w.create(o) {
		w.After(w.Between(10*time.Second, 5*time.Minute), func() { w.leave(o) })
	}
}

// leave gives a taken name back.
func (w *World) leave(o client.Object) {
	kind, ok := kindOf(o)
	if !ok {
		return
	}
	if stored := w.Server.Stored(kind, client.ObjectKeyFromObject(o)); stored != nil && stored.GetUID() == o.GetUID() {
		w.userDeletes(stored)
	}
}

func kindOf(o client.Object) (string, bool) {
	switch o.(type) {
	case *corev1.Pod:
		return cluster.Pod, true
	case *corev1.Service:
		return cluster.Service, true
	case *v1alpha1.ServingGroup:
		return cluster.ServingGroup, true
	}
	return "", false
}

// create reports whether the name was free.
func (w *World) create(o client.Object) bool {
	err := w.as("user").Create(w.ctx, o)
	if apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) {
		return false
	}
	w.must(err)
	return true
}

func (w *World) crashPod() {
	if all := w.pods(nil); len(all) > 0 {
		pod := pick(w.Loop, all...)
		w.tell("world", "the engine of %s crashes", pod.Name)
		w.crash(w.engines[pod.UID], "")
	}
}

func (w *World) evictPod() {
	if all := w.pods(nil); len(all) > 0 {
		pod := pick(w.Loop, all...)
		w.tell("world", "%s is evicted", pod.Name)
		w.fail(w.engines[pod.UID])
	}
}

func (w *World) loseNode() {
	n := pick(w.Loop, w.nodes...)
	w.nodeDown(n)
	w.After(w.Between(10*time.Second, 15*time.Minute), func() { w.nodeUp(n) })
}

func (w *World) loseAgent() {
	n := pick(w.Loop, w.nodes...)
	w.agentDown(n)
	w.After(w.Between(5*time.Second, 5*time.Minute), func() { w.agentUp(n) })
}

// refuse has the API server refuse new Pods for a while, as a quota does.
func (w *World) refuse() {
	w.tell("world", "the quota is used up")
	w.Server.Admit = func(o client.Object) error {
		if _, ok := o.(*corev1.Pod); ok {
			return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errQuota)
		}
		return nil
	}
	w.After(w.Between(5*time.Second, time.Minute), func() { w.Server.Admit = nil })
}

// Squatters returns what the user made under names that are not his, by key.
func (w *World) Squatters(kind string) []types.NamespacedName {
	var out []types.NamespacedName
	for _, o := range w.Server.All(kind) {
		if len(o.GetOwnerReferences()) == 0 {
			out = append(out, client.ObjectKeyFromObject(o))
		}
	}
	return out
}

// errQuota is what a used up quota says.
var errQuota = errors.New("exceeded quota")
