package revision

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Obstacles returns all that keeps Pods of one revision from becoming those of the other in place, each
// with its role, its field, and its old and new value, shortened. The order is that of roles and fields. None
// means that the images of regular containers are all that has to change, if anything. Both Data are
// canonical.
//
// It says nothing of live Pods: a webhook may have given them what no template says.
func Obstacles(from, to Data) []string {
	var out []string
	if from.SchedulerName != to.SchedulerName {
		out = append(out, difference{"schedulerName", scheduler("", from), scheduler("", to)}.String())
	}
	for _, name := range roleNames(from, to) {
		old, before := from.Role(name)
		updated, after := to.Role(name)
		switch {
		case !before:
			out = append(out, "role "+name+" is added")
		case !after:
			out = append(out, "role "+name+" is removed")
		default:
			for _, obstacle := range roleObstacles(roleStep{from, to, old, updated}) {
				out = append(out, "role "+name+": "+obstacle)
			}
		}
	}
	return out
}

func roleNames(from, to Data) []string {
	var names []string
	for _, r := range slices.Concat(from.Roles, to.Roles) {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// roleStep is a role that both revisions have.
type roleStep struct {
	from, to     Data
	old, updated Role
}

func roleObstacles(s roleStep) []string {
	out := s.templateObstacles("entryTemplate", s.old.EntryTemplate, s.updated.EntryTemplate)
	if s.old.WorkerReplicas != s.updated.WorkerReplicas {
		out = append(out, difference{"workerReplicas", s.old.WorkerReplicas, s.updated.WorkerReplicas}.String())
	}
	if s.old.WorkerTemplate == nil || s.updated.WorkerTemplate == nil {
		return out // there are no workers on one side, as their number says
	}
	return append(out, s.templateObstacles("workerTemplate", s.old.WorkerTemplate, s.updated.WorkerTemplate)...)
}

func (s roleStep) templateObstacles(path string, old, updated *corev1.PodTemplateSpec) []string {
	old, updated = old.DeepCopy(), updated.DeepCopy()
	x, y := &old.Spec, &updated.Spec
	if (x.SchedulerName == "") != (y.SchedulerName == "") {
		x.SchedulerName, y.SchedulerName = scheduler(x.SchedulerName, s.from), scheduler(y.SchedulerName, s.to)
	}
	alignVolumes(x, y)
	alignInit(x.InitContainers, y.InitContainers)
	out := takeImages(path+".spec", x, y)
	for _, d := range differences(path, tree(old), tree(updated)) {
		out = append(out, d.String())
	}
	return out
}

// scheduler is that of Pods whose template says name.
func scheduler(name string, d Data) string {
	return cmp.Or(name, d.SchedulerName, corev1.DefaultSchedulerName)
}

// takeImages takes from both sides the images of the regular containers that both have, and their pull
// policies, and returns what stands in the way of changing those.
func takeImages(path string, x, y *corev1.PodSpec) []string {
	var out []string
	changed := false
	for old, updated := range pairs(x.Containers, y.Containers) {
		at := fmt.Sprintf("%s.containers[%s]", path, old.Name)
		alignRequests(&old.Resources, &updated.Resources)
		out = append(out, pullObstacles(at, old, updated)...)
		if p := updated.RestartPolicy; old.Image != updated.Image && p != nil && *p != corev1.ContainerRestartPolicyAlways &&
			old.RestartPolicy != nil && *old.RestartPolicy == *p {
			out = append(out, fmt.Sprintf("%s.restartPolicy is %s: kubelet would not start the container with %s", at, *p, shown(updated.Image)))
		}
		changed = changed || old.Image != updated.Image
		old.Image, updated.Image = "", ""
		old.ImagePullPolicy, updated.ImagePullPolicy = "", ""
	}
	if changed && y.RestartPolicy != "" && y.RestartPolicy == x.RestartPolicy { // Always is left out
		out = append(out, fmt.Sprintf("%s.restartPolicy is %s: kubelet would not start containers with other images", path, y.RestartPolicy))
	}
	return out
}

// pullObstacles judges the policies as Pods have them: what is set by the tag of a Pod's first image stays,
// whatever image it gets later.
func pullObstacles(at string, old, updated *corev1.Container) []string {
	before := cmp.Or(old.ImagePullPolicy, pullPolicy(old.Image))
	after := cmp.Or(updated.ImagePullPolicy, pullPolicy(updated.Image))
	switch {
	case before != after:
		byTag := ""
		if old.ImagePullPolicy == "" && updated.ImagePullPolicy == "" {
			byTag = fmt.Sprintf(": it follows from the tags of %s and %s, and stays in the Pod", shown(old.Image), shown(updated.Image))
		}
		return []string{difference{at + ".imagePullPolicy", before, after}.String() + byTag}
	case after == corev1.PullAlways && old.Image != updated.Image:
		return []string{fmt.Sprintf("%s.imagePullPolicy is Always: kubelet would stop the container and only then ask the registry for %s", at, shown(updated.Image))}
	}
	return nil
}

// tree is a template as JSON has it, without what is empty.
func tree(t *corev1.PodTemplateSpec) any {
	data, err := json.Marshal(t)
	if err == nil {
		var v any
		if v, err = tidied(data); err == nil {
			return v
		}
	}
	panic(fmt.Sprintf("template: %v", err)) // it was read from JSON
}
