package servinggroup_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

func names(pods []corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

func all() []string {
	return []string{"llm-0-decode-0-0", "llm-0-prefill-0-0", "llm-0-prefill-0-1"}
}

func TestMakesTheGroup(t *testing.T) {
	w := newWorld(t, declare(t, "r1")...)
	w.settle()
	if diff := cmp.Diff(all(), names(w.pods())); diff != "" {
		t.Fatalf("pods (-want +got):\n%s", diff)
	}
	sg := w.group()
	if sg.Status.Pods != 3 || sg.Status.ReadyPods != 3 || sg.Status.ObservedGeneration != sg.Generation {
		t.Errorf("status: %+v", sg.Status)
	}
	for _, i := range sg.Status.Instances {
		if i.Phase != v1alpha1.InstanceRunning || !i.Ready || i.ReadySince == nil || i.Revision != "r1" {
			t.Errorf("instance: %+v", i)
		}
	}
	worker := w.pod("llm-0-prefill-0-1")
	want := map[string]string{
		"app": "llm", "pitstop.dev/modelserving": "llm", "pitstop.dev/servinggroup": "llm-0", "pitstop.dev/role": "prefill",
		"pitstop.dev/instance": "0", "pitstop.dev/index": "1", "pitstop.dev/revision": "r1", "pitstop.dev/stable": "true",
	}
	if diff := cmp.Diff(want, worker.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if worker.Annotations["note"] != "kept" || len(worker.Annotations[v1alpha1.RoleDigest]) != 32 || len(worker.Annotations) != 2 {
		t.Errorf("annotations: %v", worker.Annotations)
	}
	env := []corev1.EnvVar{
		{Name: "GROUP_SIZE", Value: "2"},
		{Name: "ENTRY_ADDRESS", Value: "llm-0-prefill-0-0.llm-0-prefill-0-0.models"},
		{Name: "WORKER_INDEX", Value: "1"},
	}
	if diff := cmp.Diff(append(env, corev1.EnvVar{Name: "ADDRESS", Value: "$(ENTRY_ADDRESS):1"}), worker.Spec.Containers[0].Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(env, worker.Spec.InitContainers[0].Env); diff != "" {
		t.Errorf("env of the init container (-want +got):\n%s", diff)
	}
	if worker.Spec.Hostname != worker.Name || worker.Spec.Subdomain != "llm-0-prefill-0-0" || worker.Spec.SchedulerName != "volcano" {
		t.Errorf("spec: %+v", worker.Spec)
	}
	var services corev1.ServiceList
	w.must(w.api.List(t.Context(), &services))
	if len(services.Items) != 1 || services.Items[0].Name != "llm-0-prefill-0-0" || !services.Items[0].Spec.PublishNotReadyAddresses ||
		services.Items[0].Spec.ClusterIP != "None" || services.Items[0].Spec.Selector[v1alpha1.LabelInstance] != "0" {
		t.Errorf("services: %+v", services.Items)
	}
	var leaders int
	for _, p := range w.pods() {
		if p.Labels[v1alpha1.LabelLeader] == "true" {
			leaders++
		}
	}
	if leaders != 1 {
		t.Errorf("%d leaders", leaders)
	}
}

// swapGroup takes the whole group through an update to r2, as the ModelServing controller does.
func swapGroup(w *world) {
	w.t.Helper()
	u := v1alpha1.UnitUpdate{Attempt: 1, Method: v1alpha1.UnitRecreate, Target: "r2", Previous: "r1", Permit: v1alpha1.PermitDrain}
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.LastAttempt, s.Updates = 1, []v1alpha1.UnitUpdate{u} })
	w.reach("", v1alpha1.UnitDrained)
	if got := names(w.pods()); !slices.Equal(got, all()) {
		w.t.Fatalf("before Swap the Pods are %v", got)
	}
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.Revision, s.Updates[0].Permit = "r2", v1alpha1.PermitSwap })
	w.reach("", v1alpha1.UnitVerified)
	for _, p := range w.pods() {
		if _, held := p.Annotations[v1alpha1.HoldUnit]; !held || p.Labels[v1alpha1.LabelRevision] != "r2" {
			w.t.Errorf("%s is at %s, held: %t", p.Name, p.Labels[v1alpha1.LabelRevision], held)
		}
	}
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.Updates[0].Permit = v1alpha1.PermitServe })
	w.reach("", v1alpha1.UnitInService)
	w.order(func(s *v1alpha1.ServingGroupSpec) { s.Updates = nil })
	w.settle()
}

func (w *world) reach(unit string, stage v1alpha1.UnitStage) {
	w.t.Helper()
	w.settle()
	if got := w.stage(unit); got != stage {
		w.t.Fatalf("stage %q, want %q: %+v", got, stage, w.group().Status)
	}
}

func checkServes(w *world, revision string) {
	w.t.Helper()
	sg := w.group()
	if sg.Status.ReadyPods != 3 || len(sg.Status.Updates) != 0 {
		w.t.Errorf("status: %+v", sg.Status)
	}
	for _, i := range sg.Status.Instances {
		if i.Phase != v1alpha1.InstanceRunning || !i.Ready || i.Revision != revision {
			w.t.Errorf("instance: %+v", i)
		}
	}
	for _, p := range w.pods() {
		if _, held := p.Annotations[v1alpha1.HoldUnit]; held {
			w.t.Errorf("%s is still held", p.Name)
		}
	}
}

func TestRecreatesTheGroup(t *testing.T) {
	w := newWorld(t, declare(t, "r1", "r2")...)
	w.settle()
	swapGroup(w)
	checkServes(w, "r2")
}
