package health

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

// What is written costs the API server something, and a driver that hangs has other words in each round.
func TestOtherWordsAreWrittenOnceAMinute(t *testing.T) {
	written := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	said := health.Summary{Status: corev1.ConditionUnknown, Reason: v1alpha1.GPUUnknownUnread, Message: "no answer: it starts"}
	words := said
	words.Message = "no answer: it reads"
	for name, tt := range map[string]struct {
		now    health.Summary
		lost   []string
		after  time.Duration
		pod    bool
		node   bool
		silent bool // an agent before this one has noted no time of its writes
	}{
		"the same":                          {now: said, after: time.Hour - time.Minute},
		"the same, and no sign of life":     {now: said, after: time.Hour, node: true},
		"other words at once":               {now: words, after: 5 * time.Second},
		"other words in the same minute":    {now: words, after: 59 * time.Second},
		"other words after a minute":        {now: words, after: time.Minute, pod: true, node: true},
		"other words, and a clock set back": {now: words, after: -time.Hour, pod: true, node: true},
		"other words with a hold":           {now: words, lost: []string{"GPU-0"}, after: time.Second, pod: true},
		"other words, written by who knows": {now: words, after: time.Second, silent: true, pod: true, node: true},
		"another status": {
			now: health.Summary{Status: corev1.ConditionTrue, Reason: v1alpha1.GPUTrueHealthy}, after: time.Second, pod: true, node: true,
		},
		"another reason": {
			now:   health.Summary{Status: corev1.ConditionUnknown, Reason: v1alpha1.GPUUnknownReleased, Message: said.Message},
			after: time.Second, pod: true, node: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			stamp := metav1.NewTime(written)
			if tt.silent {
				stamp = metav1.Time{}
			}
			p, n := pod("engine"), &corev1.Node{}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: v1alpha1.GPUHealthy, Status: said.Status, Reason: string(said.Reason), Message: said.Message, LastProbeTime: stamp,
			})
			n.Status.Conditions = []corev1.NodeCondition{{
				Type: v1alpha1.GPUHealthy, Status: said.Status, Reason: string(said.Reason), Message: said.Message, LastHeartbeatTime: stamp,
			}}
			now := written.Add(tt.after)
			tt.now.Lost = tt.lost
			if _, needed := podPatch(p, judgement{Summary: tt.now}, now); needed != tt.pod {
				t.Errorf("of the Pod: %t", needed)
			}
			if _, needed := nodePatch(n, tt.now, now, time.Hour); needed != tt.node {
				t.Errorf("of the Node: %t", needed)
			}
		})
	}
}

func TestADriverThatHangsIsNoStormOfWrites(t *testing.T) {
	w := newWorld(t)
	w.judged()
	for i := range 120 { // ten minutes
		w.reading = gpu.Reading{State: gpu.Unknown, Message: []string{"it starts", "it reads", "it is ended"}[i%3]}
		w.rounds(1)
	}
	count := map[string]int{}
	for _, name := range w.writes {
		count[name]++
	}
	for _, name := range []string{"engine", "other", "node"} {
		if n := count[name]; n < 5 || n > 11 {
			t.Errorf("%s was written %d times in ten minutes", name, n)
		}
	}
	if got := w.ofPod(0); got.Status != "Unknown" || got.Reason != "NotReadable" {
		t.Errorf("the Pod says %+v", got)
	}
}
