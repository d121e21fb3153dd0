package figure

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sheet(t *testing.T, samples map[string][]float64) *Sheet {
	t.Helper()
	s := NewSheet(
		Definition{Name: "ratio", Unit: "1", What: "a ratio", Bound: AtMost(1.2)},
		Definition{Name: "requests", Unit: "requests", Bound: AtLeast(500)},
		Definition{Name: "time_ms", Unit: "ms"},
	)
	for name, values := range samples {
		for _, v := range values {
			if err := s.Add(name, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

func TestFigures(t *testing.T) {
	yes, no := true, false
	got := sheet(t, map[string][]float64{"ratio": {3, 1, 1.1}, "requests": {10, 20}}).Figures()
	want := map[string]Figure{
		"ratio": {Median: 1.1, Min: 1, Max: 3, N: 3, Unit: "1", Bound: AtMost(1.2), Met: &yes, What: "a ratio", Samples: []float64{3, 1, 1.1}},
		"requests": {
			Median: 15, Min: 10, Max: 20, N: 2, Unit: "requests", Bound: AtLeast(500), Met: &no, Samples: []float64{10, 20},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Figures() (-want +got):\n%s", diff)
	}
}

func TestMissed(t *testing.T) {
	for name, tt := range map[string]struct {
		samples map[string][]float64
		want    []string
	}{
		"nothing measured":             {nil, nil},
		"on the bound is met":          {map[string][]float64{"ratio": {1.2}, "requests": {500}}, nil},
		"no bound":                     {map[string][]float64{"time_ms": {1e9}}, nil},
		"the median counts":            {map[string][]float64{"ratio": {1, 1, 9}}, nil},
		"above an upper bound":         {map[string][]float64{"ratio": {1.5}}, []string{"ratio is 1.50 1, want <= 1.20: missed by 0.30"}},
		"below a lower bound":          {map[string][]float64{"requests": {499}}, []string{"requests is 499 requests, want >= 500: missed by 1"}},
		"in the order of definitions":  {map[string][]float64{"requests": {1}, "ratio": {2}}, []string{"ratio is 2 1, want <= 1.20: missed by 0.80", "requests is 1 requests, want >= 500: missed by 499"}},
		"zero samples are not a miss ": {map[string][]float64{"requests": nil}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, sheet(t, tt.samples).Missed()); diff != "" {
				t.Errorf("Missed() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddRefusesAnUnknownName(t *testing.T) {
	if err := NewSheet().Add("x", 1); err == nil {
		t.Error("a figure that is not defined was taken")
	}
}

func TestFileAndTable(t *testing.T) {
	s := sheet(t, map[string][]float64{"ratio": {1.5}, "time_ms": {1234.4}})
	data, err := json.Marshal(s.Figures()["ratio"])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"median":1.5,"min":1.5,"max":1.5,"n":1,"unit":"1","bound":{"at_most":1.2},"met":false,"what":"a ratio","samples":[1.5]}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	var b strings.Builder
	if err := s.Table(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[1], "NO") || !strings.Contains(lines[2], "1234 ") {
		t.Errorf("table:\n%s", b.String())
	}
}
