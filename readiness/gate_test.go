package readiness

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func TestGateOf(t *testing.T) {
	lowered, acknowledged := t0(), t0().Add(41*time.Millisecond)
	const held = "held by alice, inplace (token " + testToken + "): lowered 2026-01-02T03:04:05.678Z"
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want Gate
	}{
		"open":   {newPod(withGate(corev1.ConditionTrue, held)), Gate{Present: true, Open: true}},
		"absent": {newPod(), Gate{NeverServed: true}},
		"a Pod without the gate serves without the condition": {newPod(withoutGate), Gate{}},
		"lowered": {
			newPod(withGate(corev1.ConditionFalse, held)),
			Gate{Present: true, Token: testToken, LoweredAt: lowered},
		},
		"acknowledged": {
			newPod(withGate(corev1.ConditionFalse, held+", acknowledged 2026-01-02T03:04:05.719Z, never served")),
			Gate{Present: true, Token: testToken, LoweredAt: lowered, AcknowledgedAt: acknowledged, NeverServed: true},
		},
		"held by an operator": {newPod(withGate(corev1.ConditionFalse, "held by alice")), Gate{Present: true}},
		"born with a hold": {
			newPod(withGate(corev1.ConditionFalse, "held by unit: never served")), Gate{Present: true, NeverServed: true},
		},
		"text of somebody else":    {newPod(withGate(corev1.ConditionFalse, "out for lunch: never served")), Gate{Present: true}},
		"no text":                  {newPod(withGate(corev1.ConditionFalse, "")), Gate{Present: true}},
		"a time cut to seconds":    {newPod(withGate(corev1.ConditionFalse, "held by inplace (token a/1): lowered 2026-01-02T03:04:05Z")), Gate{Present: true}},
		"a date that is none":      {newPod(withGate(corev1.ConditionFalse, "held by inplace (token a/1): lowered 2026-02-30T03:04:05.678Z")), Gate{Present: true}},
		"one of two times damaged": {newPod(withGate(corev1.ConditionFalse, held+", acknowledged 2026-01-")), Gate{Present: true}},
		"something after it":       {newPod(withGate(corev1.ConditionFalse, held+", and more")), Gate{Present: true}},
		"unknown is not open":      {newPod(withGate(corev1.ConditionUnknown, held)), Gate{Present: true}},
	} {
		t.Run(name, func(t *testing.T) { equal(t, "GateOf()", tt.want, GateOf(tt.pod)) })
	}
}

func TestMessageComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func(label string) time.Time {
			if rapid.Bool().Draw(t, label+" is zero") {
				return time.Time{}
			}
			return time.UnixMilli(rapid.Int64Range(1, 4e12).Draw(t, label)).UTC()
		}
		g := Gate{
			Present:        true,
			Token:          rapid.StringMatching(`([a-z0-9-]{1,36}/[0-9]{1,19})?`).Draw(t, "token"),
			LoweredAt:      at("lowered"),
			AcknowledgedAt: at("acknowledged"),
			NeverServed:    rapid.Bool().Draw(t, "never served"),
		}
		holders := rapid.SliceOfN(rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?`), 1, 4).Draw(t, "holders")
		if got := GateOf(newPod(withGate(corev1.ConditionFalse, g.message(holders)))); got != g {
			t.Fatalf("%q gives %+v, want %+v", g.message(holders), got, g)
		}
	})
}

func FuzzParseMessage(f *testing.F) {
	f.Add("held by alice, inplace (token a/1): lowered 2026-01-02T03:04:05.678Z, acknowledged 2026-01-02T03:04:05.719Z, never served")
	f.Add("held by unit: never served")
	f.Add("held by  (token ): , , ")
	f.Fuzz(func(t *testing.T, text string) {
		holders, g := parseMessage(text)
		if holders == nil {
			if g != (Gate{}) {
				t.Errorf("%q is half understood: %+v", text, g)
			}
		} else if back := g.message(holders); back != text {
			t.Errorf("%q comes back as %q", text, back)
		}
	})
}
