package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

// A world is one node in memory: its Pods and orders as the API server has them, kubelet, the
// container runtime, a registry and a clock that jumps from event to event. It takes the patches
// that the agent really writes. Nothing in it knows the state machine.
type world struct {
	clock  *clocktesting.FakeClock
	now    time.Time
	rng    *rand.Rand // every delay that nobody chooses
	events []event
	pods   []*simPod
	images map[string]bool // on the node
	hashes map[string]string
	serial int

	runtimeUp, kubeletUp, journalUp, registryUp, routerUp bool
	kubeletEpoch                                          int
	kubeletStarted                                        time.Time

	agent *simAgent
	err   error // the first rule that was broken
	log   []string
}

type event struct {
	at time.Time
	do func()
}

// A simPod is one Pod and all there is to it.
type simPod struct {
	name    string
	unit    bool // of a ServingGroup
	devices bool
	slow    time.Duration // how long its old engine takes to stop
	undead  bool          // a kill of its containers takes minutes
	mute    bool          // its engine publishes no requests

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
	starts   map[string]int       // by container and image, for crashes
	backoff  map[string]time.Time // by container and image
	stopping map[string]bool      // container ids
	onExit   map[string]func()    // what kubelet's worker does next, by container id

	rules rules
}

// An imageKind is what becomes of an image.
type imageKind struct {
	id       string
	err      error         // what a pull of it ends with
	foreign  bool          // for another platform
	crashes  int           // its first starts crash; negative: all of them
	load     time.Duration // until it is ready
	pullTime time.Duration
}

// registry is what the world's registry has.
func registry(image string) imageKind {
	switch image {
	case "v1":
		return imageKind{id: "sha-1", load: time.Second, pullTime: time.Second}
	case "v2":
		return imageKind{id: "sha-2", load: 3 * time.Second, pullTime: 10 * time.Second}
	case "v3":
		return imageKind{id: "sha-3", load: 20 * time.Second, pullTime: time.Second}
	case "v2alias":
		return imageKind{id: "sha-2", load: 3 * time.Second, pullTime: time.Second}
	case "crash1":
		return imageKind{id: "sha-c1", crashes: 1, load: time.Second, pullTime: time.Second}
	case "crash2":
		return imageKind{id: "sha-c2", crashes: 2, load: time.Second, pullTime: time.Second}
	case "crashes":
		return imageKind{id: "sha-cc", crashes: -1, pullTime: time.Second}
	case "arm":
		return imageKind{id: "sha-arm", foreign: true, pullTime: time.Second}
	case "secret":
		return imageKind{err: cri.ErrUnauthorized}
	}
	return imageKind{err: cri.ErrImageNotFound}
}

func newWorld(seed uint64, next brain) *world {
	w := &world{
		clock: clocktesting.NewFakeClock(begin()), now: begin(), rng: rand.New(rand.NewPCG(seed, 0)),
		images: map[string]bool{}, hashes: map[string]string{},
		runtimeUp: true, kubeletUp: true, journalUp: true, registryUp: true, routerUp: true, kubeletStarted: begin().Add(-time.Hour),
	}
	w.agent = newSimAgent(w, next)
	return w
}

// jitter is a random duration of up to d.
func (w *world) jitter(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d))) + time.Millisecond
}

func (w *world) after(d time.Duration, do func()) {
	w.events = append(w.events, event{w.now.Add(d), do})
}

// advance goes to the next event or timer of the agent, and reports false if there is none.
func (w *world) advance() bool {
	next := time.Time{}
	for _, e := range w.events {
		next = earliest(next, e.at)
	}
	for _, p := range w.pods {
		next = earliest(next, w.agent.wakes[p.name])
	}
	if next.IsZero() {
		return false
	}
	if next.After(w.now) {
		w.now = next
		w.clock.SetTime(next)
	}
	due := slices.Clone(w.events)
	w.events = slices.DeleteFunc(w.events, func(e event) bool { return !e.at.After(w.now) })
	for _, e := range due {
		if !e.at.After(w.now) {
			e.do()
		}
	}
	for _, p := range w.pods {
		if at := w.agent.wakes[p.name]; !at.IsZero() && !at.After(w.now) {
			w.agent.wake(p)
		}
	}
	return true
}

func (w *world) note(p *simPod, format string, args ...any) {
	name := ""
	if p != nil {
		name = p.name
	}
	w.log = append(w.log, fmt.Sprintf("%8.3f %-3s ", w.now.Sub(begin()).Seconds(), name)+fmt.Sprintf(format, args...))
}

// begin is when every world begins.
func begin() time.Time { return time.Unix(1_700_000_000, 0).UTC() }

// broken notes the first rule that does not hold.
func (w *world) broken(p *simPod, format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%s: %s", p.name, fmt.Sprintf(format, args...))
		w.note(p, "BROKEN "+format, args...)
	}
}

func (w *world) id(prefix string) string {
	w.serial++
	return prefix + "-" + strconv.Itoa(w.serial)
}

func (w *world) hash(name, image string) string {
	key := name + " " + image
	if w.hashes[key] == "" {
		w.hashes[key] = cri.KubeletHash(name, image)
	}
	return w.hashes[key]
}

// addPod makes a Pod whose containers run v1 and serve.
func (w *world) addPod(p *simPod, containers int) {
	p.up, p.starts = map[string]bool{}, map[string]int{}
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

// kick has kubelet's worker look at the Pod: at once if it can, after the look under way if not.
func (w *world) kick(p *simPod) {
	switch {
	case p.gone() || !w.kubeletUp || !w.runtimeUp:
	case p.working:
		p.again = true
	default:
		p.working = true
		w.afterKubelet(w.jitter(time.Second), func() { w.sync(p) })
	}
}

// afterKubelet is after, for what dies with kubelet.
func (w *world) afterKubelet(d time.Duration, do func()) {
	epoch := w.kubeletEpoch
	w.after(d, func() {
		if epoch == w.kubeletEpoch {
			do()
		}
	})
}

// sync is one look of kubelet at one Pod: status first, from what it sees, then kills, one after
// the other, then starts. It acts on the images that it read at its beginning.
func (w *world) sync(p *simPod) {
	if p.gone() {
		p.working = false
		return
	}
	w.writeStatus(p)
	images := map[string]string{}
	for _, c := range p.pod.Spec.Containers {
		images[c.Name] = c.Image
	}
	w.killOld(p, images)
}

func (w *world) killOld(p *simPod, images map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(images)) {
		c := p.newest(name)
		if c == nil || c.State != cri.Running || c.Hash == w.hash(name, images[name]) {
			continue
		}
		id := c.ID
		w.stop(p, id, p.slow)
		epoch := w.kubeletEpoch
		p.onExit[id] = func() {
			if epoch == w.kubeletEpoch {
				w.killOld(p, images)
			}
		}
		return
	}
	w.startMissing(p, images)
}

func (w *world) startMissing(p *simPod, images map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(images)) {
		image := images[name]
		key := name + " " + image
		c := p.newest(name)
		switch {
		case c != nil && c.State == cri.Running:
			continue
		case w.now.Before(p.backoff[key]):
			w.afterKubelet(p.backoff[key].Sub(w.now)+time.Millisecond, func() { w.kick(p) })
			continue
		case !w.images[image]:
			w.kubeletPulls(p, key, image)
			continue
		}
		w.run(p, name, image, cri.Created)
		id := p.newest(name).ID
		w.afterKubelet(w.jitter(300*time.Millisecond), func() {
			w.begin(p, id, image)
			w.startMissing(p, images)
		})
		return
	}
	p.working = false
	if p.again {
		p.again = false
		w.kick(p)
	}
}

// kubeletPulls gets the image, or tries again later.
func (w *world) kubeletPulls(p *simPod, key, image string) {
	kind := registry(image)
	wait := 10 * time.Second
	if w.registryUp && kind.err == nil {
		wait = kind.pullTime
		w.after(wait, func() { w.images[image] = true })
	}
	p.backoff[key] = w.now.Add(wait)
	w.kick(p)
}

// run adds a container to the runtime.
func (w *world) run(p *simPod, name, image string, state cri.State) {
	restarts := 0
	if c := p.newest(name); c != nil {
		restarts = c.RestartCount + 1
	}
	c := cri.Container{
		ID: w.id("c"), Name: name, State: state, Hash: w.hash(name, image), RestartCount: restarts,
		ImageID: registry(image).id, CreatedAt: w.now,
	}
	if state == cri.Running {
		c.StartedAt = w.now
	}
	p.truth.Containers = append([]cri.Container{c}, p.truth.Containers...)
	w.agent.wake(p)
}

// begin starts a container that was made, with what its image will do.
func (w *world) begin(p *simPod, id, image string) {
	c := p.find(id)
	if c == nil || c.State != cri.Created {
		return
	}
	c.State, c.StartedAt = cri.Running, w.now
	key := c.Name + " " + image
	p.starts[key]++
	w.agent.wake(p)
	w.kick(p)
	switch kind := registry(image); {
	case kind.foreign, kind.crashes < 0, p.starts[key] <= kind.crashes:
		w.after(w.jitter(3*time.Second), func() { w.exit(p, id) })
		p.backoff[key] = w.now.Add(min(5*time.Minute, 10*time.Second<<min(p.starts[key], 5)))
	default:
		w.after(kind.load+w.jitter(time.Second), func() {
			if c := p.find(id); c != nil && c.State == cri.Running {
				p.up[id] = true
				w.kick(p)
			}
		})
	}
}

// stop has a container end within d, sooner if a shorter stop comes later.
func (w *world) stop(p *simPod, id string, d time.Duration) {
	p.stopping[id] = true
	if p.undead {
		d = max(d, 3*time.Minute)
	}
	w.after(d, func() { w.exit(p, id) })
}

func (w *world) exit(p *simPod, id string) {
	c := p.find(id)
	if c == nil || c.State != cri.Running {
		return
	}
	c.State, c.FinishedAt = cri.Exited, w.now
	delete(p.up, id)
	p.idle = w.now
	p.rules.exited(w, p, *c)
	w.agent.wake(p)
	if then := p.onExit[id]; then != nil {
		delete(p.onExit, id)
		then()
	}
	w.kick(p)
}

// writeStatus is kubelet's status of a Pod.
func (w *world) writeStatus(p *simPod) {
	pod := p.pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = nil
	all := true
	for _, spec := range pod.Spec.Containers {
		c := p.newest(spec.Name)
		s := corev1.ContainerStatus{Name: spec.Name, ContainerID: "containerd://" + c.ID, RestartCount: int32(c.RestartCount)} //nolint:gosec // small
		s.Ready = c.State == cri.Running && p.up[c.ID]
		if c.State == cri.Running {
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.StartedAt)}
		} else {
			s.State.Terminated = &corev1.ContainerStateTerminated{}
		}
		all = all && s.Ready
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, s)
	}
	gate := conditionOf(pod, v1alpha1.InService)
	isReady := all && gate != nil && gate.Status == corev1.ConditionTrue
	why := ""
	if all && !isReady {
		why = "ReadinessGatesNotReady"
	}
	w.setCondition(pod, corev1.ContainersReady, statusOf(all), "")
	if was := conditionOf(p.pod, corev1.PodReady); was != nil && was.Status == corev1.ConditionTrue && !isReady && p.idle.Before(w.now) {
		p.idle = w.now.Add(w.jitter(20 * time.Second)) // its last requests
	}
	w.setCondition(pod, corev1.PodReady, statusOf(isReady), why)
	if !equality.Semantic.DeepEqual(pod.Status, p.pod.Status) {
		w.store(p, pod)
	}
}

func conditionOf(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func statusOf(is bool) corev1.ConditionStatus { //nolint:revive // a conversion, not a switch
	if is {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func (w *world) setCondition(pod *corev1.Pod, t corev1.PodConditionType, status corev1.ConditionStatus, reason string) {
	c := conditionOf(pod, t)
	if c == nil {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: t})
		c = &pod.Status.Conditions[len(pod.Status.Conditions)-1]
	}
	if c.Status != status {
		c.LastTransitionTime = metav1.NewTime(w.now)
	}
	c.Status, c.Reason = status, reason
}

// store is a write of the Pod to the API.
func (w *world) store(p *simPod, pod *corev1.Pod) {
	n, _ := strconv.Atoi(p.pod.ResourceVersion)
	pod.ResourceVersion = strconv.Itoa(n + 1)
	p.pod = pod
	w.agent.wake(p)
	w.route(p)
}

// patchStatus applies one of readiness's strategic-merge patches.
func (w *world) patchStatus(p *simPod, data []byte) {
	var patch struct {
		Metadata struct {
			UID             types.UID          `json:"uid"`
			ResourceVersion string             `json:"resourceVersion"`
			Labels          map[string]*string `json:"labels"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
		Status struct {
			Conditions []corev1.PodCondition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &patch); err != nil || p.pod == nil || patch.Metadata.UID != p.pod.UID {
		w.broken(p, "bad patch %s: %v", data, err)
		return
	}
	pod := p.pod.DeepCopy()
	merge(pod.Labels, patch.Metadata.Labels)
	merge(pod.Annotations, patch.Metadata.Annotations)
	for _, c := range patch.Status.Conditions {
		if old := conditionOf(pod, c.Type); old != nil {
			*old = c
		}
	}
	w.store(p, pod)
	w.kick(p)
}

func merge(to map[string]string, from map[string]*string) {
	for k, v := range from {
		if v == nil {
			delete(to, k)
		} else {
			to[k] = *v
		}
	}
}

// patchImages applies the agent's JSON patch. It reports false if a test in it does not hold.
func (w *world) patchImages(p *simPod, ops []jsonOp) bool {
	pod := p.pod.DeepCopy()
	for _, op := range ops {
		value, _ := op.Value.(string)
		at := strings.Split(strings.TrimPrefix(op.Path, "/"), "/")
		var field *string
		switch {
		case op.Path == "/metadata/uid":
			uid := string(pod.UID)
			field = &uid
		case at[0] == "metadata":
			pod.Annotations[strings.ReplaceAll(at[2], "~1", "/")] = value
			continue
		case at[3] == "name":
			i, _ := strconv.Atoi(at[2])
			field = &pod.Spec.Containers[i].Name
		default:
			i, _ := strconv.Atoi(at[2])
			field = &pod.Spec.Containers[i].Image
		}
		if op.Op == "test" && *field != value {
			return false
		}
		*field = value
	}
	w.store(p, pod)
	w.kick(p)
	return true
}

// The faults of the surroundings. Each ends by itself.

func (w *world) runtimeFails(d time.Duration) {
	w.runtimeUp = false
	w.unseen()
	w.after(d, func() {
		w.runtimeUp = true
		w.unseen()
		w.kickAll()
	})
}

func (w *world) kubeletRestarts(d time.Duration) {
	w.kubeletUp = false
	w.kubeletEpoch++
	w.unseen()
	for _, p := range w.pods {
		p.working, p.again = false, false
	}
	w.after(d, func() {
		w.kubeletUp, w.kubeletStarted = true, w.now
		w.unseen()
		w.kickAll()
	})
}

func (w *world) journalFails(d time.Duration) {
	w.journalUp = false
	w.unseen()
	w.after(d, func() {
		w.journalUp = true
		w.unseen()
	})
}

func (w *world) registryFails(d time.Duration) {
	w.registryUp = false
	w.after(d, func() { w.registryUp = true })
}

func (w *world) kickAll() {
	for _, p := range w.pods {
		w.kick(p)
	}
}

// unseen has the agent look again at its open attempts after what no watch tells of: it relists
// once a second.
func (w *world) unseen() {
	w.after(w.jitter(time.Second), func() {
		for _, p := range w.pods {
			if w.agent.tracked(p) {
				w.agent.wake(p)
			}
		}
	})
}

// collect removes an image that no container runs, as kubelet's collector may.
func (w *world) collect(image string) {
	for _, p := range w.pods {
		for _, c := range p.truth.Containers {
			if c.State != cri.Exited && c.ImageID == registry(image).id {
				return
			}
		}
	}
	delete(w.images, image)
	w.note(nil, "image %s is collected", image)
}

func (w *world) deletePod(p *simPod) {
	if p.gone() {
		return
	}
	pod := p.pod.DeepCopy()
	at := metav1.NewTime(w.now)
	pod.DeletionTimestamp = &at
	w.store(p, pod)
	w.note(p, "Pod is deleted")
	w.after(w.jitter(10*time.Second), func() {
		p.pod = nil
		p.truth.Containers = nil
		w.agent.wake(p)
	})
}
