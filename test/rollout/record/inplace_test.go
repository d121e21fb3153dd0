package record_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/rollout/record"
)

// member is one of the two Pods of the group ms-1.
func member(index int32, change ...func(*corev1.Pod)) *corev1.Pod {
	p := pod(1, "a", corev1.ConditionTrue)
	p.Name = v1alpha1.PodName("ms-1", "engine", 0, index)
	p.UID = types.UID(p.Name)
	p.Annotations = map[string]string{}
	p.Spec.Containers = []corev1.Container{{Name: "engine", Image: "v1"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine"}}
	for _, c := range change {
		c(p)
	}
	return p
}

func out(p *corev1.Pod) {
	p.Annotations[v1alpha1.HoldInPlace] = "t"
	p.Status.Conditions[0].Status = corev1.ConditionFalse
}

func image(v string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = v }
}

func restarts(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = n }
}

func pulls(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}
}

func TestJudgeOfUpdatesInPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		act  []*corev1.Pod // frames of the two Pods, after they served
		want string        // a part of the only violation; empty: none
	}{
		"a unit is changed while all of it is out of traffic": {[]*corev1.Pod{
			member(0, out), member(1, out),
			member(0, out, image("v2")), member(1, out, image("v2")), member(0, out, image("v2"), restarts(1)),
			member(1, out, image("v2"), restarts(1)),
		}, ""},
		"a Pod is changed while another one serves": {[]*corev1.Pod{
			member(0, out), member(0, out, image("v2")),
		}, "while ms-1-engine-0-1 is Ready (true)"},
		"a Pod is changed that nobody holds": {[]*corev1.Pod{
			member(0, out), member(1, out), member(0, out, func(p *corev1.Pod) { p.Annotations = nil }, image("v2")),
		}, "ms-1-engine-0-0 is Ready (false) or is not held"},
		"a container ends by itself": {[]*corev1.Pod{member(0, restarts(1))}, "restarted 1 times for 0 new images"},
		"a container is restarted twice for one image": {[]*corev1.Pod{
			member(0, out), member(1, out), member(0, out, image("v2"), restarts(1)), member(0, out, image("v2"), restarts(2)),
		}, "restarted 2 times for 1 new images"},
		"a restart is the test's own": {[]*corev1.Pod{member(1, restarts(1))}, ""},
		"and one more is not":         {[]*corev1.Pod{member(1, restarts(2))}, "restarted 2 times for 0 new images"},
		"there and back are two": {[]*corev1.Pod{
			member(0, out), member(1, out),
			member(0, out, image("v2"), restarts(1)), member(0, out, image("v1"), restarts(2)),
		}, ""},
		"kubelet has to fetch what was proved": {[]*corev1.Pod{
			member(0, out), member(1, out), member(0, out, image("v2"), pulls),
		}, "has to fetch"},
		"kubelet fetches the first image": {[]*corev1.Pod{member(0, pulls)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := steady()
			f.show(watch.Deleted, pod(1, "a", corev1.ConditionTrue))
			f.show(watch.Modified, serving("ms-1"))
			for i := range int32(2) {
				f.show(watch.Added, member(i))
			}
			for _, p := range tt.act {
				f.show(watch.Modified, p)
			}
			j := record.Judge{Rules: record.Rules{
				Name: "ms", MaxUnavailable: 1, Workers: map[string]int32{"engine": 0}, Whole: true, Planned: true,
				Spare: map[string]int32{"ms-1-engine-0-1": 1},
			}}
			got := j.Run(f.frames)
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("violations %q, want one with %q", got, tt.want)
			}
		})
	}
}

// A Pod that was put in service may flap where kubelet is restarted, and only there.
func TestJudgeOfFlaps(t *testing.T) {
	for name, tt := range map[string]struct {
		flaps  bool
		change func(*corev1.Pod)
		want   string
	}{
		"kubelet was restarted":              {true, func(*corev1.Pod) {}, ""},
		"kubelet was not":                    {false, func(*corev1.Pod) {}, "0 groups available"},
		"somebody holds the Pod":             {true, out, "0 groups available"},
		"its container does not run":         {true, pulls, "0 groups available"},
		"nothing is known of its containers": {true, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, "0 groups available"},
	} {
		t.Run(name, func(t *testing.T) {
			f := steady()
			f.show(watch.Modified, serving("ms-0"))
			f.show(watch.Modified, pod(0, "a", corev1.ConditionFalse))
			p := pod(1, "a", corev1.ConditionFalse)
			p.Annotations = map[string]string{}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine"}}
			p.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
			tt.change(p)
			if w := p.Status.ContainerStatuses; len(w) > 0 && w[0].State.Waiting != nil {
				w[0].State.Running = nil
			}
			f.show(watch.Modified, p)
			j := record.Judge{Rules: record.Rules{Name: "ms", MaxUnavailable: 1, Workers: map[string]int32{"engine": 0}, Flaps: tt.flaps}}
			got := j.Run(f.frames)
			if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("violations %q, want one with %q", got, tt.want)
			}
		})
	}
}
