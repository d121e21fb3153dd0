package verb_test

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	b := newServingBench(t)
	for _, args := range [][]string{{"get", "llm"}, {"get", "ms/llm"}, {"get"}, {"get", "-A"}} {
		b.want(t, b.run(t.Context(), args...), 0)
		b.printed(t, `ModelServing ns/llm  target 2  current 1
1 groups declared: 1 live, 0 ready, 0 available, 0 updated

  NAME                    REVISION  READY  NODE    STATE
~ llm-0                   1 old     0/1            to 2: Draining 60s
  │  running 3
~ └─ decode-0             1 old     0/1
     └─ llm-0-decode-0-0  1         yes    node-a

~ under way  ! not as it should be; what is waited for: kubectl pitstop explain modelserving/llm -n ns
`)
	}
	b.want(t, b.run(t.Context(), "get", "llm", "-o", "json"), 0)
	var one struct {
		ModelServing string
		Groups       []struct{ Name string }
	}
	if err := json.Unmarshal(b.out.Bytes(), &one); err != nil || one.ModelServing != "llm" || len(one.Groups) != 1 {
		t.Errorf("printed %s, %v", b.out, err)
	}
	b.want(t, b.run(t.Context(), "get", "-o", "json"), 0)
	var all struct {
		Items []struct{ ModelServing string }
	}
	if err := json.Unmarshal(b.out.Bytes(), &all); err != nil || len(all.Items) != 1 || all.Items[0].ModelServing != "llm" {
		t.Errorf("printed %s, %v", b.out, err)
	}
}

func TestGetOfNothing(t *testing.T) {
	b := newBench(t)
	b.want(t, b.run(t.Context(), "get"), 0, "no ModelServings found in namespace ns")
	b.want(t, b.run(t.Context(), "get", "-A"), 0, "no ModelServings found\n")
	b.want(t, b.run(t.Context(), "get", "-o", "json"), 0)
	b.printed(t, "{\n  \"items\": []\n}\n")
}

// Without the right to read revisions their names tell what is outdated.
func TestGetWithoutRevisions(t *testing.T) {
	b := newServingBench(t)
	b.forbid("list", "controllerrevisions")
	b.want(t, b.run(t.Context(), "get", "llm"), 0)
	if !strings.Contains(b.out.String(), "1 old") || b.err.Len() > 0 {
		t.Errorf("output %s, errors %s", b.out, b.err)
	}
	b.want(t, b.run(t.Context(), "explain", "ms/llm"), 0)
}
