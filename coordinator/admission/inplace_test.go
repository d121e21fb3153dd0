package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/admission"
)

func method(m v1alpha1.UpdateMethod) change {
	return func(ms *v1alpha1.ModelServing) { ms.Spec.RolloutStrategy.UpdateMethod = m }
}

// reported is a status: the generation that is stored and the one that was seen, and two revisions.
func reported(stored, seen int64, current, update string) change {
	return func(ms *v1alpha1.ModelServing) {
		ms.Generation = stored
		ms.Status.ObservedGeneration, ms.Status.CurrentRevision, ms.Status.UpdateRevision = seen, current, update
	}
}

// TestRulesOfUpdatesInPlace: each rule with an object that is accepted and one that is refused.
func TestRulesOfUpdatesInPlace(t *testing.T) {
	const configuration = "spec.rolloutStrategy.rollingUpdateConfiguration."
	const role = "spec.template.roles[0]."
	for name, tt := range map[string]struct {
		change []change
		want   []string
	}{
		"as it is":                             {nil, nil},
		"no surge":                             {[]change{groups("1", "0")}, nil},
		"no surge, in percent":                 {[]change{groups("1", "0%")}, nil},
		"a surge of groups":                    {[]change{groups("1", "2")}, []string{configuration + "maxSurge", `"2"`, "must be 0 with rolloutStrategy.updateMethod InPlace", "set it to 0"}},
		"a surge in percent":                   {[]change{groups("1", "1%")}, []string{configuration + "maxSurge", `"1%"`}},
		"a surge in percent of nothing yet":    {[]change{groups("1", "1%"), replicas(0)}, []string{configuration + "maxSurge", `"1%"`}},
		"a surge of instances":                 {[]change{byRole, instances(4, "1", "1")}, []string{role + "maxSurge", `"1"`, "updateMethod to Recreate"}},
		"no surge of instances":                {[]change{byRole, instances(4, "1", "0")}, nil},
		"no group may be out":                  {[]change{groups("0")}, []string{configuration + "maxUnavailable", `"0"`, "is 0 of 4 replicas, and updateMethod InPlace", "at least 1 or 25%"}},
		"no group may be out, but for surge":   {[]change{groups("0", "1")}, []string{configuration + "maxUnavailable", configuration + "maxSurge"}},
		"a percentage that comes to nothing":   {[]change{groups("25%"), replicas(3)}, []string{configuration + "maxUnavailable", `"25%"`, "at least 1 or 34%"}},
		"a percentage that comes to one":       {[]change{groups("25%")}, nil},
		"no group has to be out":               {[]change{groups("0", "0", "4")}, nil},
		"no instance may be out":               {[]change{byRole, instances(4, "0")}, []string{role + "maxUnavailable", "is 0 of 4 instances of the role", "updateMethod InPlace"}},
		"an instance may be out":               {[]change{byRole, instances(4, "25%")}, nil},
		"a container that never restarts":      {[]change{engine(func(c *corev1.Container) { c.RestartPolicy = new(corev1.ContainerRestartPolicyNever) })}, []string{"restartPolicy"}},
		"an image that is asked for each time": {[]change{image("vllm:latest")}, nil}, // a warning
	} {
		t.Run(name, func(t *testing.T) {
			judge(t, nil, serving(append([]change{method(v1alpha1.UpdateInPlace)}, tt.change...)...), tt.want...)
		})
	}
	judge(t, nil, serving(groups("0", "1"))) // Recreate
}

// TestStepsInPlace judges changes of stored objects of the method InPlace.
func TestStepsInPlace(t *testing.T) {
	const template = "spec.template: Forbidden"
	const entry = "role decode: entryTemplate."
	workers := func(ms *v1alpha1.ModelServing) { ms.Spec.Template.Roles[0].WorkerReplicas = 2 }
	prefill := func(ms *v1alpha1.ModelServing) {
		ms.Spec.Template.Roles[0].EntryTemplate.Spec.Containers[0].Image = "vllm:3"
		ms.Spec.Template.Roles[0].WorkerTemplate.Spec.Containers[0].Image = "vllm:3"
	}
	env := engine(func(c *corev1.Container) { c.Env[0].Value = "c" })
	always := engine(func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullAlways })
	for name, tt := range map[string]struct {
		old, updated []change
		want         []string
	}{
		"images":                                  {nil, []change{image("vllm:2"), prefill}, nil},
		"images in the middle of an update":       {[]change{updating("llm-3"), reported(4, 3, "llm-a", "llm-b")}, []change{image("vllm:2")}, nil},
		"replicas and budgets":                    {nil, []change{groups("2"), replicas(9)}, nil},
		"instances of a role":                     {nil, []change{instances(9)}, nil},
		"the same in other words":                 {nil, []change{engine(func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullIfNotPresent })}, nil},
		"a variable":                              {nil, []change{env}, []string{template, entry + `spec.containers[engine].env[A].value changes from "b" to "c"`, "Change only images", "updateMethod to Recreate in the same request"}},
		"a variable, by new Pods":                 {nil, []change{env, method(v1alpha1.UpdateRecreate)}, nil},
		"one role in the way of another":          {nil, []change{prefill, env}, []string{template, entry}},
		"everything in the way is named":          {nil, []change{prefill, workers, env, image("vllm"), pod(func(t *corev1.PodTemplateSpec) { t.Labels["a"] = "b" })}, []string{"role prefill: workerReplicas changes from 1 to 2", entry + "metadata.labels.a is added", entry + "spec.containers[engine].env[A].value", entry + `spec.containers[engine].imagePullPolicy changes from "IfNotPresent" to "Always"`}},
		"an image with policy Always":             {[]change{always}, []change{always, image("vllm:2")}, []string{entry + "spec.containers[engine].imagePullPolicy is Always"}},
		"another role's with policy Always":       {[]change{always}, []change{always, prefill}, nil},
		"an init container's image":               {nil, []change{pod(func(t *corev1.PodTemplateSpec) { t.Spec.InitContainers[0].Image = "init:2" })}, []string{entry + `spec.initContainers[init].image changes from "init:1" to "init:2"`}},
		"a role more":                             {nil, []change{func(ms *v1alpha1.ModelServing) { ms.Spec.Template.Roles[1].Name = "router" }}, []string{"role decode is removed; role router is added"}},
		"another scheduler":                       {nil, []change{func(ms *v1alpha1.ModelServing) { ms.Spec.SchedulerName = "volcano" }}, []string{`schedulerName changes from "default-scheduler" to "volcano"`}},
		"a method that comes with the change":     {[]change{method(v1alpha1.UpdateRecreate), reported(2, 2, "llm-a", "llm-a")}, []change{env}, []string{template, entry}},
		"another type in the middle of an update": {[]change{updating("llm-3")}, []change{byRole}, []string{"spec.rolloutStrategy.type"}},
	} {
		t.Run(name, func(t *testing.T) {
			inPlace := []change{method(v1alpha1.UpdateInPlace)}
			judge(t, serving(append(inPlace, tt.old...)...), serving(append(inPlace, tt.updated...)...), tt.want...)
		})
	}
	judge(t, serving(), serving(env)) // Recreate
}

// TestMethodsChange judges changes of the method.
func TestMethodsChange(t *testing.T) {
	const at = "spec.rolloutStrategy.updateMethod: Forbidden: Recreate cannot become InPlace in the middle of a rollout: "
	for name, tt := range map[string]struct {
		old  []change
		want []string
	}{
		"all is at one revision":                     {[]change{reported(3, 3, "llm-a", "llm-a")}, nil},
		"the first change of all":                    {[]change{reported(1, 0, "", "")}, nil},
		"a second change before anything was seen":   {[]change{reported(2, 0, "", "")}, []string{at, "status.observedGeneration is 2 (it is 0)"}},
		"a change that was not seen":                 {[]change{reported(3, 2, "llm-a", "llm-a")}, []string{at, "wait until status.observedGeneration is 3 (it is 2)"}},
		"a unit in update":                           {[]change{reported(3, 3, "llm-a", "llm-a"), updating("llm-3")}, []string{at, "units are in update, or held for a sick GPU (llm-3): wait until status.updating is empty"}},
		"units at another revision":                  {[]change{reported(3, 3, "llm-a", "llm-b")}, []string{at, "not all units are at llm-b yet", "(it is llm-a)", "partitions have to be 0"}},
		"units of the first revision are being made": {[]change{reported(1, 1, "llm-a", "llm-a")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			images := []change{method(v1alpha1.UpdateInPlace), image("vllm:2")}
			judge(t, serving(tt.old...), serving(images...), tt.want...)
			// The way back is open at any time.
			old := serving(append(tt.old, method(v1alpha1.UpdateInPlace))...)
			judge(t, old, serving(image("vllm:2"), pod(func(t *corev1.PodTemplateSpec) { t.Labels["a"] = "b" })))
		})
	}
}

func TestWarningsOfUpdatesInPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		change change
		want   string
	}{
		"a tag that is asked for each time": {image("vllm:latest"), "imagePullPolicy: is Always where the tag"},
		"a percentage":                      {groups("30%"), "maxUnavailable: 30% is 0 of fewer than 4 replicas: scaled below that, rollouts stand still (Blocked, BudgetZero)"},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := admission.Validate(nil, serving(method(v1alpha1.UpdateInPlace), tt.change))
			if len(errs) > 0 || len(got) != 1 || !strings.Contains(got[0], tt.want) || strings.Contains(got[0], "maxSurge") {
				t.Errorf("errors %v, warnings %q, want %q", errs, got, tt.want)
			}
		})
	}
}
