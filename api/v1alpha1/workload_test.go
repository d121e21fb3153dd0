package v1alpha1_test

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

func TestParseUnit(t *testing.T) {
	for unit, want := range map[string]struct {
		role     string
		instance int32
		ok       bool
	}{
		"prefill-3":    {"prefill", 3, true},
		"a-b-10":       {"a-b", 10, true},
		"":             {},
		"prefill":      {},
		"prefill-":     {},
		"-1":           {},
		"prefill-03":   {},
		"prefill--1":   {role: "prefill-", instance: 1, ok: true}, // no role has such a name
		"prefill-x":    {},
		"r-2147483648": {},
	} {
		role, instance, ok := v1alpha1.ParseUnit(unit)
		if role != want.role || instance != want.instance || ok != want.ok {
			t.Errorf("ParseUnit(%q) = %q, %d, %t", unit, role, instance, ok)
		}
		if ok && v1alpha1.UnitName(role, instance) != unit {
			t.Errorf("UnitName(%q, %d) != %q", role, instance, unit)
		}
	}
}
