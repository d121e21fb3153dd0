package agent

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
