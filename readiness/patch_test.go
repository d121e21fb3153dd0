package readiness

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
)

func TestLowerIsOnePatch(t *testing.T) {
	data := must(t)(Lower(newPod(withGate(corev1.ConditionTrue, "")), testToken, t0()))
	const want = `{"metadata":{"uid":"7d3c8b1e-0c3e-4b8e-9f0e-2f6f5a1c9d11",` +
		`"annotations":{"pitstop.dev/hold.inplace":"` + testToken + `"}},` +
		`"status":{"conditions":[{"type":"pitstop.dev/InService","status":"False","reason":"Held",` +
		`"message":"held by inplace (token ` + testToken + `): lowered 2026-01-02T03:04:05.678Z",` +
		`"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`
	equal(t, "Lower()", want, string(data))
}

func TestLower(t *testing.T) {
	mine := "held by inplace (token " + testToken + "): lowered 2026-01-02T03:00:00.000Z, acknowledged 2026-01-02T03:00:00.020Z"
	before := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want Gate
		text string
	}{
		"a new Pod": {
			newPod(),
			Gate{Present: true, Token: testToken, LoweredAt: t0(), NeverServed: true},
			"held by inplace (token " + testToken + "): lowered 2026-01-02T03:04:05.678Z, never served",
		},
		"a Pod born with a hold": {
			newPod(withHold("unit", "u"), withGate(corev1.ConditionFalse, "held by unit: never served")),
			Gate{Present: true, Token: testToken, LoweredAt: t0(), NeverServed: true},
			"held by inplace, unit (token " + testToken + "): lowered 2026-01-02T03:04:05.678Z, never served",
		},
		"again for the same attempt": {
			newPod(withHold("inplace", testToken), withGate(corev1.ConditionFalse, mine)),
			Gate{Present: true, Token: testToken, LoweredAt: before, AcknowledgedAt: before.Add(20 * time.Millisecond)},
			mine,
		},
		"a later attempt on a held Pod": {
			newPod(withHold("inplace", "old/2"), withGate(corev1.ConditionFalse, "held by inplace (token old/2): lowered 2026-01-02T03:00:00.000Z, acknowledged 2026-01-02T03:00:00.020Z")),
			Gate{Present: true, Token: testToken, LoweredAt: t0()},
			"held by inplace (token " + testToken + "): lowered 2026-01-02T03:04:05.678Z",
		},
		"somebody opened the gate of a held Pod": {
			newPod(withHold("inplace", testToken), withGate(corev1.ConditionTrue, mine)),
			Gate{Present: true, Token: testToken, LoweredAt: t0()},
			"held by inplace (token " + testToken + "): lowered 2026-01-02T03:04:05.678Z",
		},
		"an operator holds too": {
			newPod(withHold("alice", ""), withGate(corev1.ConditionFalse, "held by alice")),
			Gate{Present: true, Token: testToken, LoweredAt: t0()},
			"held by alice, inplace (token " + testToken + "): lowered 2026-01-02T03:04:05.678Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := apply(t, tt.pod, must(t)(Lower(tt.pod, testToken, t0())))
			equal(t, "gate", tt.want, GateOf(pod))
			equal(t, "message", tt.text, condition(pod, v1alpha1.InService).Message)
			equal(t, "hold", testToken, pod.Annotations[v1alpha1.HoldInPlace])
		})
	}
}

func TestPatchesKeepLastTransitionTime(t *testing.T) {
	old := metav1.NewTime(t0().Add(-time.Hour).Truncate(time.Second).UTC())
	closed := newPod(withHold("alice", ""), withGate(corev1.ConditionFalse, "held by alice"))
	closed.Status.Conditions[0].LastTransitionTime = old
	changed := func(pod *corev1.Pod, data []byte) bool {
		return !condition(apply(t, pod, data), v1alpha1.InService).LastTransitionTime.Equal(&old)
	}
	if changed(closed, must(t)(Lower(closed, testToken, t0()))) {
		t.Error("False to False moved it")
	}
	closed.Annotations = nil
	if !changed(closed, must(t)(Raise(closed, Opening{}, t0()))) {
		t.Error("False to True left it")
	}
}

func TestPatchesOnAbsenceCarryTheResourceVersion(t *testing.T) {
	sync := func(pod *corev1.Pod) []byte {
		data, needed := Sync(pod, t0())
		if !needed {
			t.Fatal("Sync is not needed")
		}
		return data
	}
	open, born := newPod(withGate(corev1.ConditionTrue, "")), newPod(withHold("inplace", testToken), withGate(corev1.ConditionFalse, "held by inplace (token "+testToken+"): never served"))
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"lower, absent":              {must(t)(Lower(newPod(), testToken, t0())), "41"},
		"lower, open":                {must(t)(Lower(open, testToken, t0())), ""},
		"lower, never served":        {must(t)(Lower(born, testToken, t0())), "41"},
		"acknowledge, never served":  {must(t)(Acknowledge(born, testToken, t0())), "41"},
		"raise, absent":              {must(t)(Raise(newPod(), Opening{}, t0())), "41"},
		"raise, never served":        {must(t)(Raise(born, Opening{}, t0())), ""},
		"sync, absent":               {sync(newPod()), "41"},
		"sync, absent with a hold":   {sync(newPod(withHold("unit", ""))), "41"},
		"sync, open with a new hold": {sync(newPod(withHold("alice", ""), withGate(corev1.ConditionTrue, ""))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var p patch
			if err := json.Unmarshal(tt.data, &p); err != nil {
				t.Fatal(err)
			}
			equal(t, "resourceVersion", tt.want, p.Metadata.ResourceVersion)
			equal(t, "uid", testUID, p.Metadata.UID)
		})
	}
}

func TestAcknowledge(t *testing.T) {
	pod := newPod(withGate(corev1.ConditionTrue, ""))
	pod = apply(t, pod, must(t)(Lower(pod, testToken, t0())))
	for _, at := range []time.Time{t0().Add(23_456_789), t0().Add(5 * time.Second)} {
		pod = apply(t, pod, must(t)(Acknowledge(pod, testToken, at)))
		equal(t, "gate", Gate{Present: true, Token: testToken, LoweredAt: t0(), AcknowledgedAt: at.Truncate(time.Millisecond)}, GateOf(pod))
	}
	for name, bad := range map[string]struct {
		pod   *corev1.Pod
		token string
	}{
		"another attempt":    {pod, "other/4"},
		"no attempt":         {newPod(withGate(corev1.ConditionFalse, "held by alice"), withHold("alice", "")), ""},
		"an open gate":       {newPod(withHold("inplace", testToken), withGate(corev1.ConditionTrue, "")), testToken},
		"an absent gate":     {newPod(withHold("inplace", testToken)), testToken},
		"the hold is gone":   {newPod(withGate(corev1.ConditionFalse, condition(pod, v1alpha1.InService).Message)), testToken},
		"a hold of a rival":  {newPod(withHold("inplace", "other/4"), withGate(corev1.ConditionFalse, condition(pod, v1alpha1.InService).Message)), testToken},
		"a foreign message":  {newPod(withHold("inplace", testToken), withGate(corev1.ConditionFalse, "lunch")), testToken},
		"no token, no times": {newPod(withHold("inplace", testToken), withGate(corev1.ConditionFalse, "held by inplace")), testToken},
	} {
		if data, err := Acknowledge(bad.pod, bad.token, t0()); !errors.Is(err, ErrNotHeld) {
			t.Errorf("%s: %s, %v", name, data, err)
		}
	}
}

func TestRaise(t *testing.T) {
	held := func(more ...podOption) *corev1.Pod {
		return newPod(append(more, withHold("inplace", testToken), withAnnotation("pitstop.dev/drained", testToken),
			func(p *corev1.Pod) {
				p.Labels = map[string]string{"app": "engine", v1alpha1.LabelRevision: "a", "pitstop.dev/canary": "true"}
			},
			withGate(corev1.ConditionFalse, "held by inplace (token "+testToken+"): lowered 2026-01-02T03:00:00.000Z"))...)
	}
	opening := Opening{
		Labels: map[string]string{v1alpha1.LabelRevision: "b", "pitstop.dev/canary": ""},
		Remove: []string{"pitstop.dev/drained", "pitstop.dev/absent"},
	}
	labels := map[string]string{"app": "engine", v1alpha1.LabelRevision: "b"}

	t.Run("opens, relabels and removes the marks in one patch", func(t *testing.T) {
		pod := held(withAnnotation("example.com/mine", "x"))
		pod = apply(t, pod, must(t)(Raise(pod, opening, t0())))
		equal(t, "labels", labels, pod.Labels)
		equal(t, "annotations", map[string]string{"example.com/mine": "x"}, pod.Annotations)
		want := corev1.PodCondition{Type: v1alpha1.InService, Status: corev1.ConditionTrue, Reason: ReasonNoHold, LastTransitionTime: condition(pod, v1alpha1.InService).LastTransitionTime}
		equal(t, "condition", want, *condition(pod, v1alpha1.InService))
	})
	t.Run("stays closed while others hold, and names them", func(t *testing.T) {
		pod := held(withHold("gpu-health", "x"), withHold("alice", "y"))
		pod = apply(t, pod, must(t)(Raise(pod, opening, t0())))
		equal(t, "labels", labels, pod.Labels)
		equal(t, "holds", []Hold{{"alice", "y"}, {"gpu-health", "x"}}, Holds(pod))
		equal(t, "gate", Gate{Present: true}, GateOf(pod))
		equal(t, "message", "held by alice, gpu-health", condition(pod, v1alpha1.InService).Message)
	})
	t.Run("a hold that it removes does not count", func(t *testing.T) {
		pod := held(withHold("device", "x"))
		pod = apply(t, pod, must(t)(Raise(pod, Opening{Remove: []string{v1alpha1.HoldDevice}}, t0())))
		equal(t, "gate", Gate{Present: true, Open: true}, GateOf(pod))
	})
	t.Run("twice is once", func(t *testing.T) {
		once := held()
		once = apply(t, once, must(t)(Raise(once, opening, t0())))
		twice := apply(t, once, must(t)(Raise(once, opening, t0().Add(time.Hour))))
		equal(t, "Pod", once, twice)
	})
	t.Run("never served is not forgotten", func(t *testing.T) {
		pod := newPod(withHold("unit", ""), withHold("inplace", testToken), withGate(corev1.ConditionFalse, "held by inplace, unit (token "+testToken+"): never served"))
		pod = apply(t, pod, must(t)(Raise(pod, Opening{}, t0())))
		equal(t, "message", "held by unit: never served", condition(pod, v1alpha1.InService).Message)
	})
	t.Run("a Pod without the gate is only relabelled", func(t *testing.T) {
		pod := held(withoutGate)
		pod.Status.Conditions = nil
		pod = apply(t, pod, must(t)(Raise(pod, opening, t0())))
		equal(t, "labels", labels, pod.Labels)
		equal(t, "conditions", 0, len(pod.Status.Conditions))
	})
}

func TestSync(t *testing.T) {
	mine := "held by inplace (token " + testToken + "): lowered 2026-01-02T03:00:00.000Z, acknowledged 2026-01-02T03:00:00.020Z"
	for name, tt := range map[string]struct {
		pod    *corev1.Pod
		status corev1.ConditionStatus // empty: nothing is needed
		text   string
	}{
		"opens a new Pod":                      {newPod(), corev1.ConditionTrue, ""},
		"closes a Pod born with a hold":        {newPod(withHold("unit", "")), corev1.ConditionFalse, "held by unit: never served"},
		"leaves an open Pod alone":             {newPod(withGate(corev1.ConditionTrue, "")), "", ""},
		"closes for an operator":               {newPod(withHold("alice", "x"), withGate(corev1.ConditionTrue, "")), corev1.ConditionFalse, "held by alice"},
		"leaves a held Pod alone":              {newPod(withHold("inplace", testToken), withGate(corev1.ConditionFalse, mine)), "", ""},
		"opens when the last hold went":        {newPod(withGate(corev1.ConditionFalse, mine)), corev1.ConditionTrue, ""},
		"names a second holder, keeps times":   {newPod(withHold("unit", ""), withHold("inplace", testToken), withGate(corev1.ConditionFalse, mine)), corev1.ConditionFalse, "held by inplace, unit (token " + testToken + "): lowered 2026-01-02T03:00:00.000Z, acknowledged 2026-01-02T03:00:00.020Z"},
		"forgets times of a hold that went":    {newPod(withHold("alice", ""), withGate(corev1.ConditionFalse, mine)), corev1.ConditionFalse, "held by alice"},
		"starts anew where the text was lost":  {newPod(withHold("inplace", testToken), withGate(corev1.ConditionFalse, "lunch")), corev1.ConditionFalse, "held by inplace (token " + testToken + "): lowered 2026-01-02T03:04:05.678Z"},
		"closes what somebody opened":          {newPod(withHold("inplace", testToken), withGate(corev1.ConditionTrue, "")), corev1.ConditionFalse, "held by inplace (token " + testToken + "): lowered 2026-01-02T03:04:05.678Z"},
		"takes a hold with a foreign value":    {newPod(withHold("inplace", "x): y"), withGate(corev1.ConditionTrue, "")), corev1.ConditionFalse, "held by inplace"},
		"settles with a foreign value":         {newPod(withHold("inplace", "x): y"), withGate(corev1.ConditionFalse, "held by inplace")), "", ""},
		"opens an unknown gate":                {newPod(withGate(corev1.ConditionUnknown, "")), corev1.ConditionTrue, ""},
		"has no business without the gate":     {newPod(withoutGate, withHold("alice", "")), "", ""},
		"leaves a Pod that is being deleted":   {newPod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: t0()} }), "", ""},
		"leaves a Pod that was never stored":   {newPod(func(p *corev1.Pod) { p.UID = "" }), "", ""},
		"corrects a reason and keeps the text": {newPod(withHold("alice", ""), withCondition(v1alpha1.InService, corev1.ConditionFalse, "Lunch", "held by alice")), corev1.ConditionFalse, "held by alice"},
	} {
		t.Run(name, func(t *testing.T) {
			data, needed := Sync(tt.pod, t0())
			if needed != (tt.status != "") {
				t.Fatalf("needed = %t, patch %s", needed, data)
			}
			if !needed {
				return
			}
			pod := apply(t, tt.pod, data)
			got := condition(pod, v1alpha1.InService)
			equal(t, "status", tt.status, got.Status)
			equal(t, "message", tt.text, got.Message)
			equal(t, "annotations", tt.pod.Annotations, pod.Annotations)
			if again, needed := Sync(pod, t0().Add(time.Minute)); needed {
				t.Errorf("is needed again: %s", again)
			}
		})
	}
}

func TestOperatorsHolds(t *testing.T) {
	pod := newPod(withHold("unit", "u"))
	put := must(t)(Put(pod, "alice", `reads "logs"`))
	equal(t, "Put()", `{"metadata":{"uid":"`+string(testUID)+`","annotations":{"pitstop.dev/hold.alice":"reads \"logs\""}}}`, string(put))
	pod = apply(t, pod, put)
	equal(t, "holds", []Hold{{"alice", `reads "logs"`}, {"unit", "u"}}, Holds(pod))
	pod = apply(t, pod, must(t)(Release(pod, "alice")))
	equal(t, "holds", []Hold{{"unit", "u"}}, Holds(pod))
	equal(t, "released twice", pod, apply(t, pod, must(t)(Release(pod, "alice"))))
	for holder, want := range map[string]error{
		"inplace": ErrReserved, "unit": ErrReserved, "device": ErrReserved, "gpu-health": ErrReserved,
		"": ErrHolder, "a b": ErrHolder, "a/b": ErrHolder, "ends-": ErrHolder,
		"longer-than-the-sixty-three-characters-of-an-annotations-name-part": ErrHolder,
	} {
		_, errPut := Put(pod, holder, "x")
		_, errRelease := Release(pod, holder)
		if !errors.Is(errPut, want) || !errors.Is(errRelease, want) {
			t.Errorf("%q: %v, %v", holder, errPut, errRelease)
		}
	}
}

func TestPatchesAreRefused(t *testing.T) {
	for _, token := range []string{"", "a b", "a(b", "a,b", "a: b", "a\nb", "ä"} {
		if _, err := Lower(newPod(), token, t0()); !errors.Is(err, ErrToken) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if _, err := Lower(newPod(withoutGate), testToken, t0()); !errors.Is(err, ErrNoGate) {
		t.Errorf("without gate: %v", err)
	}
	unborn := newPod(withHold("inplace", testToken), withGate(corev1.ConditionFalse, "held by inplace (token "+testToken+")"))
	unborn.UID = ""
	_, errLower := Lower(unborn, testToken, t0())
	_, errAck := Acknowledge(unborn, testToken, t0())
	_, errRaise := Raise(unborn, Opening{}, t0())
	_, errPut := Put(unborn, "alice", "")
	for _, err := range []error{errLower, errAck, errRaise, errPut} {
		if !errors.Is(err, ErrNoUID) {
			t.Errorf("without UID: %v", err)
		}
	}
}

// TestAnyOrderOfWrites lets an agent and operators write in any order. After each of the
// agent's writes the gate agrees with the holds, what was there of others is untouched, and
// what the gate remembers is true.
func TestAnyOrderOfWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := t0()
		pod := newPod(withCondition(corev1.PodScheduled, corev1.ConditionTrue, "", ""), withAnnotation("example.com/mine", "x"))
		served := false
		write := func(data []byte, err error) {
			if err != nil {
				t.Fatal(err)
			}
			pod = apply(t, pod, data)
		}
		agrees := func() {
			if open := GateOf(pod).Open; open != (len(Holds(pod)) == 0) {
				t.Fatalf("open = %t with holds %v", open, Holds(pod))
			}
			if data, needed := Sync(pod, now.Add(time.Minute)); needed {
				t.Fatalf("the agent's own write needs another: %s", data)
			}
		}
		token := func() string { return rapid.SampledFrom([]string{"a/1", "a/2", "b/1"}).Draw(t, "token") }
		holder := func() string { return rapid.SampledFrom([]string{"alice", "bob", "z.1"}).Draw(t, "holder") }
		t.Repeat(map[string]func(*rapid.T){
			"put":     func(*rapid.T) { write(Put(pod, holder(), "x")) },
			"release": func(*rapid.T) { write(Release(pod, holder())) },
			"lower": func(*rapid.T) {
				tok, before := token(), GateOf(pod)
				write(Lower(pod, tok, now))
				g := GateOf(pod)
				if g.Open || g.Token != tok || before.Token == tok && !before.Open && g.LoweredAt != before.LoweredAt || before.Token != tok && !g.LoweredAt.Equal(now) {
					t.Fatalf("lowered to %+v from %+v", g, before)
				}
				agrees()
			},
			"acknowledge": func(*rapid.T) {
				tok := token()
				data, err := Acknowledge(pod, tok, now)
				if held := pod.Annotations[v1alpha1.HoldInPlace] == tok && !GateOf(pod).Open; held != (err == nil) {
					t.Fatalf("held = %t, %v", held, err)
				}
				if err == nil {
					write(data, nil)
					if g := GateOf(pod); !g.AcknowledgedAt.Equal(now) || g.LoweredAt.After(now) {
						t.Fatalf("acknowledged: %+v", g)
					}
				}
			},
			"raise": func(*rapid.T) {
				write(Raise(pod, Opening{Labels: map[string]string{"pitstop.dev/revision": "b"}}, now))
				agrees()
			},
			"sync": func(*rapid.T) {
				if data, needed := Sync(pod, now); needed {
					write(data, nil)
				}
				agrees()
			},
			"": func(*rapid.T) {
				now = now.Add(137 * time.Millisecond)
				g := GateOf(pod)
				served = served || g.Open
				if g.NeverServed == served {
					t.Fatalf("served = %t, gate %+v", served, g)
				}
				if pod.Annotations["example.com/mine"] != "x" || !is(pod, corev1.PodScheduled, corev1.ConditionTrue) {
					t.Fatal("a patch took what is not ours")
				}
			},
		})
	})
}

func TestMarkTouchesLabelsAndAnnotationsOnly(t *testing.T) {
	pod := newPod()
	pod.UID, pod.ResourceVersion = "u", "7"
	data, err := Mark(pod, Opening{Labels: map[string]string{"pitstop.dev/leader": "true", "pitstop.dev/stable": ""}, Remove: []string{v1alpha1.HoldUnit}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"metadata":{"uid":"u","resourceVersion":"7","labels":{"pitstop.dev/leader":"true","pitstop.dev/stable":null},"annotations":{"pitstop.dev/hold.unit":null}}}`
	if string(data) != want {
		t.Errorf("Mark() = %s, want %s", data, want)
	}
	if _, err := Mark(&corev1.Pod{}, Opening{}); !errors.Is(err, ErrNoUID) {
		t.Errorf("Mark() of a Pod that was never stored: %v", err)
	}
}
