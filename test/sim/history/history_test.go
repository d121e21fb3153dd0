package history

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/test/sim/cluster"
)

// inTests is how many histories the tests play; `make sim` plays more.
const inTests = 60

func TestHistoriesBreakNoRule(t *testing.T) {
	violations, err := PlayMany(t.Context(), t.Output(), Many{First: 1, Count: inTests, Workers: 2})
	if err != nil || violations > 0 {
		t.Errorf("%d violations in %d histories, %v", violations, inTests, err)
	}
}

// Seeds of which a history once broke a rule.
func TestHistoriesThatBrokeARuleDoNoMore(t *testing.T) {
	for _, seed := range []uint64{101099, 6383, 22566, 22851, 7485, 7539, 13298, 47761, 16215, 20937, 50706, 54133, 631} {
		violations, err := PlayMany(t.Context(), t.Output(), Many{First: seed, Count: 1, Workers: 1})
		if err != nil || violations > 0 {
			t.Errorf("seed %d: %d violations, %v", seed, violations, err)
		}
	}
}

func TestASeedIsOneHistory(t *testing.T) {
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(5) {
		var lines [2][]string
		for i := range lines {
			o := Options{Seed: seed, Build: Real, Scheme: scheme, Trace: func(line string) { lines[i] = append(lines[i], line) }}
			if _, err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(lines[0], lines[1]); diff != "" {
			t.Errorf("seed %d twice (-first +second):\n%s", seed, diff)
		}
	}
}

func TestHistoriesHaveAllKindsOfTrouble(t *testing.T) {
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for seed := range uint64(30) {
		o := Options{Seed: seed + 1, Build: Real, Scheme: scheme, Trace: func(line string) { all = append(all, line) }}
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"dies before it can", "dies after it could", "does not learn that", "wakes up and goes on to",
		"gives a new image", "gives a bad image", "scales m", "scales a role", "changes the roles", "changes the budgets",
		"pauses or resumes", "moves the partition", "wants one group less of", "goes down", "is back", "the agent on", "crashes", "is evicted", "-forged", "takes the labels from", "the quota is used up",
		"InPlace Prepare", "InPlace Drain", "InPlace Swap", "InPlace Serve", "Refused", "changes the method", "takes images back", "images are collected", "crashes after", "holds m-", "are sick", "held by gpu-health", "driver of",
		"{\"\" 1 Recreate Drain", "Recreate Swap", "Recreate Serve", "Remove Drain", "Recreating", "Failed", "at 1 Drained",
	} {
		if !slices.ContainsFunc(all, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("in 30 histories never: %s", want)
		}
	}
}
