package order

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pitstop.dev/api/v1alpha1"
)

// NoServing says that there is no ModelServing of a name in a namespace, and what there is instead:
// one of that name elsewhere, one of a similar name here, or all those here.
func NoServing(namespace, name string, there []*v1alpha1.ModelServing) *RefusalError {
	r := &RefusalError{
		Object: fmt.Sprintf("modelserving %s/%s", namespace, name),
		Why:    "does not exist",
		Way:    "list those there are with `kubectl pitstop get -A`",
	}
	var here, elsewhere []string
	for _, ms := range there {
		switch {
		case ms.Namespace == namespace:
			here = append(here, ms.Name)
		case ms.Name == name:
			elsewhere = append(elsewhere, ms.Namespace)
		}
	}
	slices.Sort(here)
	slices.Sort(elsewhere)
	switch similar := closest(name, here); {
	case len(elsewhere) > 0:
		r.Way = "one of that name is in " + strings.Join(elsewhere, ", ") + ": name the namespace with -n"
	case similar != "":
		r.Way = fmt.Sprintf("did you mean %q?", similar)
	case len(here) > 0:
		r.Way = "there are: " + strings.Join(here[:min(len(here), 8)], ", ")
		if len(here) > 8 {
			r.Way += fmt.Sprintf(" and %d more", len(here)-8)
		}
	}
	return r
}

// closest returns the name that differs least, if it is close enough to be meant; empty if none is.
func closest(name string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	far := func(candidate string) int {
		if strings.HasPrefix(candidate, name) {
			return 0
		}
		return distance(name, candidate)
	}
	best := slices.MinFunc(names, func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	if far(best) <= max(1, len(name)/3) {
		return best
	}
	return ""
}

// distance is how many letters have to be put in, left out or exchanged to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
