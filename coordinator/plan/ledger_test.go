package plan

import (
	"fmt"
	"testing"

	"pitstop.dev/api/v1alpha1"
)

// wide is a ModelServing that may take more instances at a time than the ledger can hold: 30 groups of
// 1000 instances.
func wide(replicas int32, booked int) Snapshot {
	s := serving(30, 0, 0, 0)
	s.Serving.Type, s.Serving.Roles = v1alpha1.RoleRollingUpdate, []Role{{Name: "a", Replicas: replicas, MaxUnavailable: 1000}}
	for o := range 30 {
		g := parseGroup(fmt.Sprintf("%d old ready", o))
		for i := range 999 {
			addInstance(&g, "a", fmt.Sprintf("%d old ready", i+1))
		}
		s.Groups = append(s.Groups, g)
	}
	for i := range booked {
		s.Ledger = append(s.Ledger, fmt.Sprintf("ms-29/a-%d", 999-i))
	}
	return s
}

func TestNoMoreIsBookedThanTheLedgerHolds(t *testing.T) {
	for name, tt := range map[string]struct {
		in   Snapshot
		want int
	}{
		"updates":                        {wide(1000, 0), 20000},
		"updates beside what is booked":  {wide(1000, 900), 20000},
		"removals":                       {wide(1, 0), 20000},
		"removals beside what is booked": {wide(1, 900), 20000},
	} {
		t.Run(name, func(t *testing.T) {
			ledger, writes := map[string]bool{}, 0
			for _, e := range tt.in.Ledger {
				ledger[e] = true
			}
			for _, a := range Decide(tt.in).Actions {
				if a.Kind == Book {
					for _, e := range a.Entries {
						ledger[e] = true
					}
				}
				for _, u := range a.Spec.Updates {
					writes += int(one(ledger[v1alpha1.LedgerEntry(a.Group, u.Unit)]))
				}
			}
			if len(ledger) != tt.want || writes != tt.want {
				t.Errorf("%d units are in the ledger and %d of them in update, want %d", len(ledger), writes, tt.want)
			}
		})
	}
}
