package agent

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

// A simPod is one Pod and all there is to it.
type simPod struct {
	name    string
	unit    bool // of a ServingGroup
	devices bool
	slow    time.Duration // how long its old engine takes to stop
	undead  bool          // a kill of its containers takes minutes
	mute    bool          // its engine publishes no requests
	memory  memoryPlan
	gpus    []*simGPU
	starved map[string]int // by container: how often it ran while memory of an ended one was held

	pod   *corev1.Pod             // in the API; nil once it is gone
	ipu   *v1alpha1.InPlaceUpdate // in the API; nil if there is none
	truth cri.Pod                 // in the runtime
	up    map[string]bool         // by container id: its engine is ready
	idle  time.Time               // when its last request ends

	asked    string // what the router was asked last
	pending  bool   // the router is about to answer
	answered bool   // it has answered that, with no request left

	working  bool // kubelet's worker of this Pod
	again    bool
	starts   map[string]int           // by container and image, for crashes
	backoff  map[string]time.Time     // by container and image
	ends     map[string]cri.Container // by container: the one that ended last
	stopping map[string]bool          // container ids
	onExit   map[string]func()        // what kubelet's worker does next, by container id

	rules rules
}

// addPod makes a Pod whose containers run v1 and serve.
func (w *world) addPod(p *simPod, containers int) {
	p.up, p.starts, p.starved, p.ends = map[string]bool{}, map[string]int{}, map[string]int{}, map[string]cri.Container{}
	p.backoff, p.stopping, p.onExit = map[string]time.Time{}, map[string]bool{}, map[string]func(){}
	p.rules.init()
	p.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.name, Namespace: "default", UID: types.UID(w.id("pod")), ResourceVersion: "1",
			Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			NodeName: "node", RestartPolicy: corev1.RestartPolicyAlways,
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}},
		},
	}
	if p.unit {
		p.pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupName + "/v1alpha1", Kind: "ServingGroup", Name: "sg", UID: "sg"}}
	}
	p.truth.Sandboxes = []cri.Sandbox{{ID: w.id("sandbox"), Ready: true, CreatedAt: w.now}}
	for i := range containers {
		name := "c" + strconv.Itoa(i)
		p.pod.Spec.Containers = append(p.pod.Spec.Containers, corev1.Container{Name: name, Image: "v1", ImagePullPolicy: corev1.PullIfNotPresent})
		w.images["v1"] = true
		w.run(p, name, "v1", cri.Running)
		p.up[p.newest(name).ID] = true
	}
	w.equip(p)
	for _, spec := range p.pod.Spec.Containers {
		w.claim(p, p.newest(spec.Name))
	}
	p.pod.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.InService, Status: corev1.ConditionTrue, Reason: "NoHold"}}
	w.pods = append(w.pods, p)
	w.writeStatus(p)
}

func (p *simPod) newest(name string) *cri.Container {
	i := slices.IndexFunc(p.truth.Containers, func(c cri.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &p.truth.Containers[i]
}

func (p *simPod) find(id string) *cri.Container {
	i := slices.IndexFunc(p.truth.Containers, func(c cri.Container) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &p.truth.Containers[i]
}

// serves reports whether all that the spec says runs and is ready.
func (p *simPod) serves(w *world) bool {
	return !slices.ContainsFunc(p.pod.Spec.Containers, func(spec corev1.Container) bool {
		c := p.newest(spec.Name)
		return !p.up[c.ID] || c.Hash != w.hash(spec.Name, spec.Image)
	})
}

// gone reports whether the Pod takes no part any more.
func (p *simPod) gone() bool { return p.pod == nil || p.pod.DeletionTimestamp != nil }
