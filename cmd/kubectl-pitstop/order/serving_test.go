package order

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

func TestNoServing(t *testing.T) {
	const start = "modelserving ns/llm does not exist; "
	for name, tt := range map[string]struct {
		there []string // namespace, name, namespace, name ...
		want  string
	}{
		"none is known":       {nil, "list those there are with `kubectl pitstop get -A`"},
		"others are here":     {[]string{"ns", "vision", "ns", "chat"}, "there are: chat, vision"},
		"one is similar":      {[]string{"ns", "chat", "ns", "lm"}, `did you mean "lm"?`},
		"one starts with it":  {[]string{"ns", "chat", "ns", "llm-large-instruct"}, `did you mean "llm-large-instruct"?`},
		"one is elsewhere":    {[]string{"ns", "lm", "prod", "llm", "dev", "llm"}, "one of that name is in dev, prod: name the namespace with -n"},
		"others are not here": {[]string{"prod", "lm"}, "list those there are with `kubectl pitstop get -A`"},
		"many are here": {
			[]string{"ns", "a1", "ns", "a2", "ns", "a3", "ns", "a4", "ns", "a5", "ns", "a6", "ns", "a7", "ns", "a8", "ns", "a9"},
			"there are: a1, a2, a3, a4, a5, a6, a7, a8 and 1 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var there []*v1alpha1.ModelServing
			for i := 0; i < len(tt.there); i += 2 {
				there = append(there, &v1alpha1.ModelServing{ObjectMeta: metav1.ObjectMeta{Namespace: tt.there[i], Name: tt.there[i+1]}})
			}
			if got := NoServing("ns", "llm", there).Error(); got != start+tt.want {
				t.Errorf("got  %s\nwant %s", got, start+tt.want)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"llm", "lllm", 1}, {"abc", "abc", 0}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
