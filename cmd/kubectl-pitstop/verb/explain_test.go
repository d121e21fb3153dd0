package verb_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pitstop.dev/api/v1alpha1"
)

func TestExplain(t *testing.T) {
	b := newBench(t, because(ordered(1, v1alpha1.StageRefused), v1alpha1.RefusedNotFound, "r/engine:v2: not found"))
	b.want(t, b.run(t.Context(), "explain", "engine-0"), 0)
	for _, word := range []string{"ImageNotFound", "r/engine:v2: not found", "alive, seen 5s ago"} {
		if !strings.Contains(b.out.String(), word) {
			t.Errorf("output lacks %q:\n%s", word, b.out)
		}
	}
	b.want(t, b.run(t.Context(), "explain", "engine-0", "-o", "json"), 0)
	var printed struct{ Reason, Stage, Gate string }
	if err := json.Unmarshal(b.out.Bytes(), &printed); err != nil || printed.Reason != "ImageNotFound" || printed.Stage != "Refused" || printed.Gate != "open" {
		t.Errorf("printed %s, %v", b.out, err)
	}
}

func TestExplainServing(t *testing.T) {
	b := newServingBench(t)
	for _, arg := range []string{"modelserving/llm", "ms/llm", "ModelServings/llm"} {
		b.want(t, b.run(t.Context(), "explain", arg), 0)
		b.printed(t, `ModelServing: ns/llm
Now:          0 of 1 groups are available; 0 of 1 are at the target llm-2 and in no update
Coordinator:  alive, seen 1s ago

Unit:         llm-0: attempt 3 brings it to llm-2
Stage:        Draining for 60s (since 2026-01-02T14:59:00Z), permit Drain
Reason:       Draining: requests are still running in a Pod of the unit, or their number is unknown
It says:      running 3
Way on:       the last request ends, or the drain timeout of the ModelServing comes and cuts what is left
`)
	}
	b.want(t, b.run(t.Context(), "explain", "ms/llm", "-o", "json"), 0)
	var printed struct {
		Waits []struct{ Unit, Stage, Reason string }
	}
	if err := json.Unmarshal(b.out.Bytes(), &printed); err != nil || len(printed.Waits) != 1 || printed.Waits[0].Unit != "llm-0" || printed.Waits[0].Stage != "Draining" {
		t.Errorf("printed %s, %v", b.out, err)
	}
	b.want(t, b.run(t.Context(), "explain", "pod/llm-0-decode-0-0"), 0)
	if !strings.Contains(b.out.String(), `ServingGroup "llm-0"`) {
		t.Errorf("output: %s", b.out)
	}
}
