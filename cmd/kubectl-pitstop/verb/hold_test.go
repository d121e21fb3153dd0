package verb_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHoldAndRelease(t *testing.T) {
	b := newBench(t)
	b.want(t, b.run(t.Context(), "hold", "engine-0", "--reason", "slow answers", "--holder", "alice"), 0)
	read := func() map[string]string {
		p, err := b.core.CoreV1().Pods("ns").Get(t.Context(), "engine-0", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Annotations
	}
	if diff := cmp.Diff(map[string]string{"pitstop.dev/hold.alice": "slow answers"}, read()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	b.want(t, b.run(t.Context(), "hold", "engine-0", "--reason", "other", "--holder", "alice"), 3, "slow answers")
	b.want(t, b.run(t.Context(), "release", "engine-0"), 1, "held by: alice")
	b.want(t, b.run(t.Context(), "hold", "engine-0", "--reason", "mine", "-o", "json"), 0)
	want := `{
  "namespace": "ns",
  "pod": "engine-0",
  "holds": [
    {
      "holder": "alice",
      "value": "slow answers"
    },
    {
      "holder": "operator",
      "value": "mine"
    }
  ]
}
`
	b.printed(t, want)
	b.want(t, b.run(t.Context(), "release", "engine-0", "--holder", "alice"), 0)
	if got := b.out.String(); got != "pod ns/engine-0 released; still held by operator: mine\n" {
		t.Errorf("output %q", got)
	}
	b.want(t, b.run(t.Context(), "release", "engine-0"), 0)
	if got := b.out.String(); got != "pod ns/engine-0 released; nobody holds it now\n" || len(read()) != 0 {
		t.Errorf("output %q, annotations %v", got, read())
	}
}
