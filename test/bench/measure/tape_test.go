package measure

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

// seen is a frame of a Pod that is Ready or not.
func seen(second int, name string, ready corev1.ConditionStatus) frame {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return frame{at: at(second), object: pod}
}

func gone(second int, name string) frame {
	f := seen(second, name, corev1.ConditionTrue)
	f.gone = true
	return f
}

func deleted(second int, name string) frame {
	f := seen(second, name, corev1.ConditionTrue)
	f.object.SetDeletionTimestamp(new(metav1.NewTime(at(second))))
	return f
}

func TestOutageOf(t *testing.T) {
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	begin := []frame{seen(0, "a", yes), {at: at(0), object: &v1alpha1.ServingGroup{}}, seen(0, "b", yes)}
	for name, tt := range map[string]struct {
		frames []frame
		want   outage
		fails  bool
	}{
		"one after the other, to the last that is back": {
			frames: []frame{seen(1, "b", no), seen(2, "a", no), seen(3, "a", no), seen(5, "a", yes), seen(7, "b", yes), seen(9, "b", yes)},
			want:   outage{at(1), at(7), map[string]time.Time{"a": at(2), "b": at(1)}},
		},
		"replaced by others of their names": {
			frames: []frame{deleted(1, "a"), gone(2, "a"), seen(3, "a", no), seen(4, "a", yes)},
			want:   outage{at(1), at(4), map[string]time.Time{"a": at(1)}},
		},
		"gone without a word": {
			frames: []frame{gone(2, "a"), seen(4, "a", yes)},
			want:   outage{at(2), at(4), map[string]time.Time{"a": at(2)}},
		},
		"back, and once more out": {
			frames: []frame{seen(1, "a", no), seen(2, "a", yes), seen(3, "a", no), seen(4, "a", yes)},
			want:   outage{at(1), at(4), map[string]time.Time{"a": at(1)}},
		},
		"never out of service": {frames: []frame{seen(1, "a", yes)}, fails: true},
		"not yet back":         {frames: []frame{seen(1, "a", no), seen(2, "a", yes), seen(3, "b", no)}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := outageOf(append(begin, tt.frames...), 2)
			if (err != nil) != tt.fails {
				t.Fatalf("outageOf() = %+v, %v", got, err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(outage{})); !tt.fails && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDrainPermitted(t *testing.T) {
	group := func(second int, permits ...v1alpha1.Permit) frame {
		g := &v1alpha1.ServingGroup{}
		for _, p := range permits {
			g.Spec.Updates = append(g.Spec.Updates, v1alpha1.UnitUpdate{Permit: p})
		}
		return frame{at: at(second), object: g}
	}
	frames := []frame{group(1), group(2, v1alpha1.PermitPrepare), seen(3, "a", corev1.ConditionTrue)}
	if got, err := drainPermitted(frames); err == nil {
		t.Errorf("drainPermitted() = %v of units that only prepare", got)
	}
	frames = append(frames, group(4, v1alpha1.PermitPrepare, v1alpha1.PermitDrain), group(5, v1alpha1.PermitServe))
	if got, err := drainPermitted(frames); err != nil || !got.Equal(at(4)) {
		t.Errorf("drainPermitted() = %v, %v", got, err)
	}
}

func TestStepsOf(t *testing.T) {
	pod := func(second int, name, spec, runs string, gate, ready corev1.ConditionStatus) frame {
		f := seen(second, name, ready)
		p, ok := f.object.(*corev1.Pod)
		if !ok {
			t.Fatal("no Pod")
		}
		p.Spec.Containers = []corev1.Container{{Name: "engine", Image: spec}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine", Image: runs}}
		p.Status.Conditions = append(p.Status.Conditions,
			corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
			corev1.PodCondition{Type: v1alpha1.InService, Status: gate})
		return f
	}
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	frames := []frame{
		pod(0, "a", "old", "old", yes, yes), pod(0, "b", "old", "old", yes, yes),
		pod(1, "a", "old", "old", no, no), pod(2, "b", "old", "old", no, no),
		pod(3, "b", "new", "old", no, no), pod(4, "a", "new", "old", no, no),
		pod(6, "a", "new", "new", no, no), pod(7, "b", "new", "new", no, no),
		pod(10, "b", "new", "new", yes, no), pod(11, "a", "new", "new", yes, no),
		pod(15, "b", "new", "new", yes, yes), pod(16, "a", "new", "new", yes, yes),
	}
	out, err := outageOf(frames, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := stepsOf(frames, out, "new"), "patched +3000, restarted +3000, opened +4000, ready +5000"; got != want {
		t.Errorf("stepsOf() = %q, want %q", got, want)
	}
}
