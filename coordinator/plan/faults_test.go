package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// A fault makes a planner that breaks one rule: it is fed a lie, or what it says is twisted.
type fault func(decide func(Snapshot) Plan) func(Snapshot) Plan

// fed returns a fault that changes what the planner sees.
func fed(lie func(s *Snapshot)) fault {
	return func(decide func(Snapshot) Plan) func(Snapshot) Plan {
		return func(s Snapshot) Plan {
			lie(&s)
			return decide(s)
		}
	}
}

// twisted returns a fault that changes what the planner does.
func twisted(twist func(s Snapshot, a *Action) bool) fault {
	return func(decide func(Snapshot) Plan) func(Snapshot) Plan {
		return func(s Snapshot) Plan {
			p := decide(s)
			var kept []Action
			for _, a := range p.Actions {
				if twist(s, &a) {
					kept = append(kept, a)
				}
			}
			p.Actions = kept
			return p
		}
	}
}

// restage returns a fault that takes one stage of an update for another.
func restage(from, to v1alpha1.UnitStage) fault {
	return fed(func(s *Snapshot) {
		for i := range s.Groups {
			for j := range s.Groups[i].Status.Updates {
				if u := &s.Groups[i].Status.Updates[j]; u.Stage == from {
					u.Stage = to
				}
			}
		}
	})
}

func without(kind ActionKind) fault {
	return twisted(func(_ Snapshot, a *Action) bool { return a.Kind != kind })
}

func faults() map[string]fault {
	return map[string]fault{
		"the budget over groups is one too many":  fed(func(s *Snapshot) { s.Serving.MaxUnavailable++ }),
		"the surge over groups is one too many":   fed(func(s *Snapshot) { s.Serving.MaxSurge++ }),
		"the partition is ignored":                fed(func(s *Snapshot) { s.Serving.Partition = 0 }),
		"the pause is ignored":                    fed(func(s *Snapshot) { s.Serving.Paused = false }),
		"minReady is ignored":                     fed(func(s *Snapshot) { s.Serving.MinReady = 0 }),
		"the cap over groups is ignored":          fed(func(s *Snapshot) { s.Serving.MaxUnavailableGroups = 0 }),
		"the ledger is ignored":                   fed(func(s *Snapshot) { s.Ledger = nil }),
		"protected groups are made at the target": fed(func(s *Snapshot) { s.Current = s.Target }),
		"positions are taken for ordinals":        fed(byIndex),
		"the budget of roles is one too many": fed(func(s *Snapshot) {
			for i := range s.Serving.Roles {
				s.Serving.Roles[i].MaxUnavailable++
			}
		}),
		"the partition of roles is ignored": fed(func(s *Snapshot) {
			for i := range s.Serving.Roles {
				s.Serving.Roles[i].Partition = 0
			}
		}),
		"what blinks is taken for down":           fed(func(s *Snapshot) { setDown(s, &metav1.Time{}) }),
		"what is down is not seen as such":        fed(func(s *Snapshot) { setDown(s, nil) }),
		"a unit is swapped before it is drained":  restage(v1alpha1.UnitDraining, v1alpha1.UnitDrained),
		"a unit serves before it is verified":     restage(v1alpha1.UnitSwapping, v1alpha1.UnitVerified),
		"a unit is closed before it serves":       restage(v1alpha1.UnitVerified, v1alpha1.UnitInService),
		"a failure is not seen":                   restage(v1alpha1.UnitFailed, v1alpha1.UnitSwapping),
		"a stage of an older attempt is believed": fed(believe),
		"what cannot be read is taken for empty":  fed(emptyLayouts),
		"nothing is booked":                       without(Book),
		"nothing is struck":                       without(Strike),
		"a request is not recorded":               without(Record),
		"a request is done again": fed(func(s *Snapshot) {
			for i := range s.Groups {
				for j := range s.Groups[i].Spec.Updates {
					s.Groups[i].Spec.Updates[j].Request = nil
				}
			}
		}),
		"the pin is written with the drain":      twisted(pinEarly),
		"attempts are counted anew":              twisted(recount),
		"a deletion does not wait for the drain": twisted(deleteEarly),
		"writes are not bound to what was read": twisted(func(_ Snapshot, a *Action) bool {
			a.ResourceVersion = ""
			return true
		}),
	}
}

func setDown(s *Snapshot, since *metav1.Time) {
	for i := range s.Groups {
		for j := range s.Groups[i].Status.Instances {
			st := &s.Groups[i].Status.Instances[j]
			if st.DownSince != nil {
				st.DownSince = since
			}
			if since != nil && st.DownSince != nil {
				st.DownSince = &metav1.Time{Time: s.Now.Add(-time.Hour)}
			}
		}
	}
}

// byIndex has the partition count the groups that exist.
func byIndex(s *Snapshot) {
	if p := int(s.Serving.Partition); p > 0 && p <= len(s.Groups) {
		s.Serving.Partition = *s.Groups[p-1].Spec.Ordinal + 1
	}
}

// believe takes every report for one on the open attempt and on today's spec.
func believe(s *Snapshot) {
	for i := range s.Groups {
		g := &s.Groups[i]
		g.Status.ObservedGeneration = g.Generation
		for j := range g.Status.Updates {
			if u := find(&g.Spec, g.Status.Updates[j].Unit); u != nil {
				g.Status.Updates[j].Attempt = u.Attempt
			}
		}
	}
}

func emptyLayouts(s *Snapshot) {
	for i := range s.Groups {
		g := &s.Groups[i]
		for j := range g.Spec.Instances {
			inst := &g.Spec.Instances[j]
			if pin := pinOf(&g.Spec, inst); s.Layouts[pin] == nil {
				s.Layouts[pin] = Layout{}
			}
		}
		for _, pin := range g.Spec.Instances {
			if l := s.Layouts[pinOf(&g.Spec, &pin)]; !l.has(pin.Role) {
				l[pin.Role] = RoleLayout{Digest: "unknown"}
			}
		}
	}
}

func pinEarly(_ Snapshot, a *Action) bool {
	for _, u := range a.Spec.Updates {
		if u.Unit == "" && u.Method == v1alpha1.UnitRecreate && u.Permit == v1alpha1.PermitDrain {
			a.Spec.Revision = u.Target
		}
	}
	return true
}

func recount(s Snapshot, a *Action) bool {
	i := slices.IndexFunc(s.Groups, func(g Group) bool { return g.Name == a.Group })
	if a.Kind == Write && i >= 0 && a.Spec.LastAttempt > s.Groups[i].Spec.LastAttempt {
		for j := range a.Spec.Updates {
			a.Spec.Updates[j].Attempt = 1
		}
		a.Spec.LastAttempt = max(1, s.Groups[i].Spec.LastAttempt)
	}
	return true
}

func deleteEarly(_ Snapshot, a *Action) bool {
	for _, u := range a.Spec.Updates {
		if u.Unit == "" && u.Method == v1alpha1.UnitRemove {
			a.Kind = Delete
		}
	}
	return true
}

// The rules must be able to fail: each fault is found within a bounded number of histories.
func TestRulesFindEveryFault(t *testing.T) {
	const histories = 1500
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(histories) {
				if _, err := play(rand.New(rand.NewPCG(seed, 0)).IntN, f(Decide)); err != nil {
					t.Logf("history %d: %v", seed, err)
					return
				}
			}
			t.Errorf("%d histories do not find it", histories)
		})
	}
}
