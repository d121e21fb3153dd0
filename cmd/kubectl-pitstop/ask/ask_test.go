package ask_test

import (
	"testing"

	"pitstop.dev/cmd/kubectl-pitstop/ask"
)

func TestReadSubject(t *testing.T) {
	for arg, want := range map[string]ask.Subject{
		"engine-0":                      {Pod: "engine-0", Group: "engine-0"},
		"pod/engine-0":                  {Pod: "engine-0"},
		"po/engine-0":                   {Pod: "engine-0"},
		"sg/llm-0":                      {Group: "llm-0"},
		"ServingGroup/llm-0":            {Group: "llm-0"},
		"llm-0/decode-1":                {Group: "llm-0", Part: "decode-1"},
		"sg/llm-0/decode-1":             {Group: "llm-0", Part: "decode-1"},
		"servinggroups.pitstop.dev/a-1": {Group: "a-1"},
	} {
		if got, ok := ask.ReadSubject(arg); !ok || got != want {
			t.Errorf("%q: %+v, %t, want %+v", arg, got, ok, want)
		}
	}
	for _, arg := range []string{"", "/", "llm-0/", "/decode-0", "llm-0/decode", "llm-0/decode-01", "pod/a/b", "sg/a/b-0/c", "a/b-0/c"} {
		if got, ok := ask.ReadSubject(arg); ok {
			t.Errorf("%q: %+v", arg, got)
		}
	}
}

func TestUnitOfASubject(t *testing.T) {
	for want, s := range map[string]ask.Subject{"llm-0": {Group: "llm-0"}, "llm-0/decode-1": {Group: "llm-0", Part: "decode-1"}} {
		if got := s.Unit(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
