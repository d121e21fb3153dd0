// Package figure holds measured quantities: samples, their median, and the bound that they are
// judged by.
package figure

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// A Bound is a limit that the median of a figure is judged by.
type Bound struct {
	AtMost  *float64 `json:"at_most,omitempty"`
	AtLeast *float64 `json:"at_least,omitempty"`
}

// AtMost returns an upper bound.
func AtMost(v float64) *Bound { return &Bound{AtMost: &v} }

// AtLeast returns a lower bound.
func AtLeast(v float64) *Bound { return &Bound{AtLeast: &v} }

// Excess returns by how much v misses the bound, 0 if it is met.
func (b Bound) Excess(v float64) float64 {
	switch {
	case b.AtMost != nil && v > *b.AtMost:
		return v - *b.AtMost
	case b.AtLeast != nil && v < *b.AtLeast:
		return *b.AtLeast - v
	}
	return 0
}

// String is the bound for a table.
func (b Bound) String() string {
	switch {
	case b.AtMost != nil:
		return "<= " + Text(*b.AtMost)
	case b.AtLeast != nil:
		return ">= " + Text(*b.AtLeast)
	}
	return ""
}

// A Definition says what a figure is.
type Definition struct {
	Name  string
	Unit  string
	What  string // in words, for the reader of the file
	Bound *Bound // nil: none
}

// A Figure is what was measured of one quantity. It has at least one sample.
type Figure struct {
	Median  float64   `json:"median"`
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	N       int       `json:"n"`
	Unit    string    `json:"unit"`
	Bound   *Bound    `json:"bound,omitempty"`
	Met     *bool     `json:"met,omitempty"`
	What    string    `json:"what"`
	Samples []float64 `json:"samples"` // in the order in which they were taken
}

// A Sheet gathers the samples of the figures that it was made for.
type Sheet struct {
	definitions []Definition
	samples     map[string][]float64
}

// NewSheet returns an empty sheet.
func NewSheet(definitions ...Definition) *Sheet {
	return &Sheet{definitions: definitions, samples: map[string][]float64{}}
}

// Add adds a sample to the figure of that name. It returns an error for a name that the sheet
// was not made for.
func (s *Sheet) Add(name string, sample float64) error {
	if !slices.ContainsFunc(s.definitions, func(d Definition) bool { return d.Name == name }) {
		return fmt.Errorf("no figure is called %q", name)
	}
	s.samples[name] = append(s.samples[name], sample)
	return nil
}

// Figures returns all figures with samples, by name.
func (s *Sheet) Figures() map[string]Figure {
	out := map[string]Figure{}
	for _, d := range s.definitions {
		if samples := s.samples[d.Name]; len(samples) > 0 {
			out[d.Name] = d.figure(samples)
		}
	}
	return out
}

func (d Definition) figure(samples []float64) Figure {
	f := Figure{
		Median: Median(samples), Min: slices.Min(samples), Max: slices.Max(samples),
		N: len(samples), Unit: d.Unit, Bound: d.Bound, What: d.What, Samples: slices.Clone(samples),
	}
	if d.Bound != nil {
		met := d.Bound.Excess(f.Median) == 0
		f.Met = &met
	}
	return f
}

// Missed says, a line for each, which bounds are missed and by how much.
func (s *Sheet) Missed() []string {
	var lines []string
	figures := s.Figures()
	for _, d := range s.definitions {
		f, ok := figures[d.Name]
		if !ok || d.Bound == nil || *f.Met {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s is %s %s, want %s: missed by %s",
			d.Name, Text(f.Median), d.Unit, d.Bound, Text(d.Bound.Excess(f.Median))))
	}
	return lines
}

// Table writes the figures as a table for people.
func (s *Sheet) Table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "figure\tmedian\tmin\tmax\tn\tunit\tbound\tmet")
	figures := s.Figures()
	for _, d := range s.definitions {
		f, ok := figures[d.Name]
		if !ok {
			continue
		}
		bound, met := "", ""
		if f.Bound != nil {
			bound, met = f.Bound.String(), map[bool]string{true: "yes", false: "NO"}[*f.Met]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n",
			d.Name, Text(f.Median), Text(f.Min), Text(f.Max), f.N, f.Unit, bound, met)
	}
	return w.Flush()
}

// Median returns the middle of the samples, or the mean of the two in the middle; there must be
// at least one.
func Median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Text is a value as people read it: two digits after the point for small ones, none for others.
func Text(v float64) string {
	if v == float64(int64(v)) || v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	if v >= 100 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
