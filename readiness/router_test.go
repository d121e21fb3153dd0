package readiness

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
)

const oldToken = "0b6f6e5a-50f1-4d3c-8a35-8d0b8a8f0a77/2"

func withMarks(draining, drained string) podOption {
	return func(pod *corev1.Pod) {
		for key, value := range map[string]string{v1alpha1.Draining: draining, v1alpha1.Drained: drained} {
			if value != "" {
				withAnnotation(key, value)(pod)
			}
		}
	}
}

func TestAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		draining, drained string
		want              bool
	}{
		"by the token of this attempt":          {testToken, testToken, true},
		"not by that of an earlier attempt":     {testToken, oldToken, false},
		"not by an answer that nobody asked of": {"", testToken, false},
		"not where another attempt asks":        {oldToken, testToken, false},
		"not yet":                               {testToken, "", false},
		"not on a Pod without marks":            {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, "Answered()", tt.want, Answered(newPod(withMarks(tt.draining, tt.drained)), testToken))
		})
	}
	if Answered(newPod(), "") {
		t.Error("an empty token is answered")
	}
}

// TestMarksFollowTheHold has every write of the agent meet every state of the marks.
func TestMarksFollowTheHold(t *testing.T) {
	open, closed := withGate(corev1.ConditionTrue, ""), withGate(corev1.ConditionFalse, "held by inplace")
	held, heldBefore := withHold("inplace", testToken), withHold("inplace", oldToken)
	announce := func(p *corev1.Pod) ([]byte, error) { return LowerAndAnnounce(p, testToken, t0()) }
	lower := func(p *corev1.Pod) ([]byte, error) { return Lower(p, testToken, t0()) }
	again := func(p *corev1.Pod) ([]byte, error) { return Announce(p, testToken) }
	takeBack := func(p *corev1.Pod) ([]byte, error) { return Announce(p, "") }
	raise := func(p *corev1.Pod) ([]byte, error) { return Raise(p, Opening{}, t0()) }
	sync := func(p *corev1.Pod) ([]byte, error) {
		data, needed := Sync(p, t0())
		if !needed {
			return nil, errors.New("not needed")
		}
		return data, nil
	}
	for name, tt := range map[string]struct {
		pod               *corev1.Pod
		write             func(*corev1.Pod) ([]byte, error)
		draining, drained string
	}{
		"the router is asked with the hold":                 {newPod(open), announce, testToken, ""},
		"an old answer is removed with it":                  {newPod(open, withMarks("", oldToken)), announce, testToken, ""},
		"an answer from before the hold does not count":     {newPod(open, withMarks(testToken, testToken)), announce, testToken, ""},
		"an answer under the same hold is kept":             {newPod(closed, held, withMarks(testToken, testToken)), announce, testToken, testToken},
		"a later attempt asks anew":                         {newPod(closed, heldBefore, withMarks(oldToken, oldToken)), again, testToken, ""},
		"an answer to the same question is kept":            {newPod(closed, heldBefore, withMarks(testToken, testToken)), again, testToken, testToken},
		"a later attempt that drains otherwise asks nobody": {newPod(closed, heldBefore, withMarks(oldToken, oldToken)), takeBack, "", ""},
		"a hold without a drain asks nobody":                {newPod(open), lower, "", ""},
		"a hold without a drain removes what is left":       {newPod(open, withMarks(oldToken, oldToken)), lower, "", ""},
		"lowered again, the question of the attempt stands": {newPod(closed, held, withMarks(testToken, testToken)), lower, testToken, testToken},
		"opening removes them":                              {newPod(closed, held, withMarks(testToken, testToken)), raise, "", ""},
		"a late answer is removed":                          {newPod(open, withMarks("", testToken)), sync, "", ""},
		"a question without its hold is removed":            {newPod(open, withMarks(testToken, "")), sync, "", ""},
		"so it is where another hold stands":                {newPod(withGate(corev1.ConditionFalse, "held by alice"), withHold("alice", ""), withMarks(testToken, testToken)), sync, "", ""},
		"so it is with a hold that was taken by hand":       {newPod(closed, withMarks(testToken, testToken)), sync, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := apply(t, tt.pod, must(t)(tt.write(tt.pod)))
			got := map[string]string{v1alpha1.Draining: pod.Annotations[v1alpha1.Draining], v1alpha1.Drained: pod.Annotations[v1alpha1.Drained]}
			equal(t, "marks", map[string]string{v1alpha1.Draining: tt.draining, v1alpha1.Drained: tt.drained}, got)
			if data, needed := Sync(pod, t0()); needed && condition(tt.pod, v1alpha1.InService).Message != "held by inplace" {
				t.Errorf("the write needs another: %s", data)
			}
		})
	}
	answered := newPod(closed, held, withMarks(testToken, testToken))
	if data, needed := Sync(answered, t0()); needed && !Answered(apply(t, answered, data), testToken) {
		t.Error("Sync removes the answer to a drain under way")
	}
}

// TestAnswersToOthersNeverCount lets attempts and a router with a long memory write in any order: an
// attempt is answered by what the router wrote while it was asked, under the same hold.
func TestAnswersToOthersNeverCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := newPod(withGate(corev1.ConditionTrue, ""))
		said := map[string]bool{} // answered since the Pod was last asked
		write := func(data []byte, err error) {
			if err != nil {
				t.Fatal(err)
			}
			before := Announced(pod)
			pod = apply(t, pod, data)
			if Announced(pod) != before {
				clear(said)
			}
		}
		token := func() string { return rapid.SampledFrom([]string{"a/1", "a/2", "b/1"}).Draw(t, "token") }
		t.Repeat(map[string]func(*rapid.T){
			"hold": func(*rapid.T) {
				tok := token()
				if pod.Annotations[v1alpha1.HoldInPlace] == "" {
					write(LowerAndAnnounce(pod, tok, t0()))
					clear(said)
				}
			},
			"supersede": func(*rapid.T) {
				if tok := token(); pod.Annotations[v1alpha1.HoldInPlace] != "" {
					write(Announce(pod, tok))
				}
			},
			"open": func(*rapid.T) { write(Raise(pod, Opening{}, t0())) },
			"an answer": func(*rapid.T) {
				tok := token()
				pod = pod.DeepCopy()
				withAnnotation(v1alpha1.Drained, tok)(pod)
				said[tok] = Announced(pod) == tok
			},
			"the hold is taken by hand": func(*rapid.T) { pod = pod.DeepCopy(); delete(pod.Annotations, v1alpha1.HoldInPlace) },
			"sync": func(*rapid.T) {
				if data, needed := Sync(pod, t0()); needed {
					write(data, nil)
				}
			},
			"": func(*rapid.T) {
				for _, tok := range []string{"a/1", "a/2", "b/1"} {
					if Answered(pod, tok) && !said[tok] {
						t.Fatalf("%s is answered by what was said before: %v", tok, pod.Annotations)
					}
				}
			},
		})
	})
}

func TestAnnounceIsRefused(t *testing.T) {
	if _, err := Announce(newPod(), "a b"); !errors.Is(err, ErrToken) {
		t.Errorf("a bad token: %v", err)
	}
	if _, err := Announce(&corev1.Pod{}, testToken); !errors.Is(err, ErrNoUID) {
		t.Errorf("without UID: %v", err)
	}
	if _, err := LowerAndAnnounce(newPod(withoutGate), testToken, t0()); !errors.Is(err, ErrNoGate) {
		t.Errorf("without gate: %v", err)
	}
}

func TestLowerAndAnnounceIsOnePatch(t *testing.T) {
	data := must(t)(LowerAndAnnounce(newPod(withGate(corev1.ConditionTrue, "")), testToken, t0()))
	const want = `{"metadata":{"uid":"7d3c8b1e-0c3e-4b8e-9f0e-2f6f5a1c9d11","annotations":{` +
		`"pitstop.dev/drained":null,"pitstop.dev/draining":"` + testToken + `","pitstop.dev/hold.inplace":"` + testToken + `"}},` +
		`"status":{"conditions":[{"type":"pitstop.dev/InService","status":"False","reason":"Held",` +
		`"message":"held by inplace (token ` + testToken + `): lowered 2026-01-02T03:04:05.678Z",` +
		`"lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`
	equal(t, "LowerAndAnnounce()", want, string(data))
}
