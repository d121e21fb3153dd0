package verb_test

import (
	"encoding/json"
	"testing"
)

func TestHistory(t *testing.T) {
	b := newServingBench(t)
	b.want(t, b.run(t.Context(), "history", "llm"), 0)
	b.printed(t, `NUMBER  REVISION  AGE   USED BY
1       llm-1     60m   current, 1 group, 1 open update
        decode.entry.containers[engine].image: r/engine:v1
2       llm-2     60m   declared now, target, 1 open update
        decode.entry.containers[engine].image: r/engine:v1 -> r/engine:v2
`)
	b.want(t, b.run(t.Context(), "history", "modelserving/llm", "-o", "json"), 0)
	var printed struct{ Revisions []struct{ Number int } }
	if err := json.Unmarshal(b.out.Bytes(), &printed); err != nil || len(printed.Revisions) != 2 || printed.Revisions[1].Number != 2 {
		t.Errorf("printed %s, %v", b.out, err)
	}
}
