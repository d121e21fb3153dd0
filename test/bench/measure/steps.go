package measure

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/readiness"
)

// A step is something that all Pods of a unit go through while they are updated in place.
type step struct {
	name string
	is   func(*corev1.Pod) bool
}

// steps are those from the drain on, where the image of all Pods changes.
func steps(image string) []step {
	return []step{
		{"patched", func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == image }},
		{"restarted", func(p *corev1.Pod) bool { return engineOf(p).Image == image && readiness.ContainersReady(p) }},
		{"opened", func(p *corev1.Pod) bool { return readiness.GateOf(p).Open }},
		{"ready", readiness.Ready},
	}
}

// stepsOf says when the last Pod was through each step, in ms after the begin of the outage for the first, and
// after the step before for the others: it tells what an outage consists of.
func stepsOf(frames []frame, out outage, image string) string {
	var said []string
	before := out.from
	for _, s := range steps(image) {
		last, through := out.from, map[string]bool{}
		for _, f := range frames {
			pod, ok := f.object.(*corev1.Pod)
			if !ok || f.at.Before(out.from) {
				continue
			}
			is := !f.gone && s.is(pod)
			if is && !through[pod.Name] {
				last = f.at
			}
			through[pod.Name] = is
		}
		said = append(said, fmt.Sprintf("%s +%.0f", s.name, ms(last.Sub(before))))
		before = last
	}
	return strings.Join(said, ", ")
}
