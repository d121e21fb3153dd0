package proxy

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

func TestChoose(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a ready Pod":                     {func(*corev1.Pod) {}, true},
		"an entry Pod":                    {func(p *corev1.Pod) { p.Labels[v1alpha1.LabelIndex] = "0" }, true},
		"a Pod with an answer left on it": {func(p *corev1.Pod) { p.Annotations[v1alpha1.Drained] = "ipu/1" }, true},
		"a worker":                        {func(p *corev1.Pod) { p.Labels[v1alpha1.LabelIndex] = "1" }, false},
		"a Pod that drains, Ready or not": {ask("ipu/1"), false},
		"a Pod that is not Ready":         {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		"a Pod without conditions":        {func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
		"a Pod without an address":        {func(p *corev1.Pod) { p.Status.PodIP = "" }, false},
		"a Pod that is being deleted":     {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			table, pod := newTable(), readyPod("a")
			tt.change(pod)
			table.set(pod)
			if got := table.choose() != nil; got != tt.want {
				t.Errorf("chosen = %t", got)
			}
		})
	}
}

func TestAPodThatIsGoneIsForgottenWithItsLastRequest(t *testing.T) {
	table := newTable()
	table.set(readyPod("a"))
	pod := table.choose()
	table.remove(pod.UID)
	if table.choose() != nil {
		t.Error("it is chosen")
	}
	if n := table.inFlight(pod.UID); n != 1 {
		t.Errorf("%d requests", n)
	}
	if !table.done(pod.UID) || len(table.backends) != 0 {
		t.Errorf("it is kept: %v", table.backends)
	}
	table.remove("never seen")
}

// TestAReadingIsAnsweredOnce: the watch may take its time to show the router its own answer.
func TestAReadingIsAnsweredOnce(t *testing.T) {
	table, pod := newTable(), readyPod("a")
	ask("ipu/1")(pod)
	table.set(pod)
	owed := table.due()
	if len(owed) != 1 {
		t.Fatalf("owes %v", owed)
	}
	table.said(owed[0])
	if owed := table.due(); len(owed) > 0 {
		t.Errorf("owes %v again", owed)
	}
	next := pod.DeepCopy()
	next.ResourceVersion = "2"
	table.set(next)
	if owed := table.due(); len(owed) != 1 {
		t.Errorf("owes %v for a reading without the answer", owed)
	}
}

// TestTable lets requests, drains and readings come in any order. The truth is kept beside: no request
// goes to a Pod that the table knows to drain, and no answer is owed while one runs.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newTable()
		pods, running, version := map[types.UID]*corev1.Pod{}, map[types.UID]int{}, 0
		draw := func() *corev1.Pod {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "pod")
			if pods["uid-"+types.UID(name)] == nil {
				return readyPod(name)
			}
			return pods["uid-"+types.UID(name)].DeepCopy()
		}
		set := func(pod *corev1.Pod) {
			version++
			pod.ResourceVersion = fmt.Sprint(version)
			pods[pod.UID] = pod
			table.set(pod)
		}
		t.Repeat(map[string]func(*rapid.T){
			"a drain": func(t *rapid.T) {
				p := draw()
				ask(rapid.SampledFrom([]string{"i/1", "i/2"}).Draw(t, "token"))(p)
				set(p)
			},
			"its end":  func(*rapid.T) { p := draw(); open(p); set(p) },
			"a change": func(*rapid.T) { set(draw()) },
			"ready": func(t *rapid.T) {
				p := draw()
				p.Status.Conditions[0].Status = rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}).Draw(t, "status")
				set(p)
			},
			"the Pod goes": func(*rapid.T) { p := draw(); delete(pods, p.UID); table.remove(p.UID) },
			"a request": func(*rapid.T) {
				p := table.choose()
				if p == nil {
					return
				}
				if readiness.Announced(pods[p.UID]) != "" || !readiness.Ready(pods[p.UID]) {
					t.Fatalf("%s is chosen", p.Name)
				}
				running[p.UID]++
			},
			"its answer": func(*rapid.T) {
				if p := draw(); running[p.UID] > 0 {
					running[p.UID]--
					if last := table.done(p.UID); last != (running[p.UID] == 0) {
						t.Fatalf("last = %t with %d left", last, running[p.UID])
					}
				}
			},
			"an answer to a drain": func(*rapid.T) {
				for _, a := range table.due() {
					table.said(a)
					p := a.pod.DeepCopy()
					p.Annotations[v1alpha1.Drained] = a.token
					set(p)
				}
			},
			"": func(*rapid.T) {
				owed := map[types.UID]string{}
				for _, a := range table.due() {
					owed[a.pod.UID] = a.token
				}
				for uid, p := range pods {
					token := readiness.Announced(p)
					want := token
					if running[uid] > 0 || readiness.Answered(p, token) {
						want = ""
					}
					if owed[uid] != want {
						t.Fatalf("%s: owes %q, want %q with %d running", p.Name, owed[uid], want, running[uid])
					}
				}
			},
		})
	})
}
