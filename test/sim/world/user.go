package world

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/admission"
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
			w.edit("gives a new image", func(s *v1alpha1.ModelServingSpec) { w.setImage(s, pick(w.Loop, imageGood, imagePrivate)) })
			w.meddle()
		}},
		{"bad image", 7, func(w *World) {
			w.edit("gives a bad image", func(s *v1alpha1.ModelServingSpec) {
				w.setImage(s, pick(w.Loop, imageStuck, imageCrash, imageMissing, imageMissing, imageForeign, imageHidden, imageDenied))
			})
			w.meddle()
		}},
		{"pin", 3, (*World).hurtPin},
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
		{"ask", 12, (*World).ask},
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
		(*World).collectImages, (*World).hurtPin, (*World).deletePod, (*World).evictPod, (*World).crashPod,
		(*World).loseNode, (*World).loseAgent, (*World).loseOrder, (*World).hold, (*World).ask, (*World).ask, (*World).ask,
	)
	w.After(w.Between(time.Second, time.Minute), func() {
		if !w.calm {
			do(w)
		}
	})
}

// Trouble has n things happen until end, at random times.
func (w *World) Trouble(n int, end time.Duration) {
	all := deeds()
	if w.gpus {
		all = append(all, deed{"GPU", 10, (*World).sickGPUs}, deed{"GPU driver", 5, (*World).releaseDriver})
	}
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
				if kind := kindOfImage(*image); kind == imageMissing || kind == imageHidden {
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
