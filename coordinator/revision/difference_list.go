package revision

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// listDifferences compares elements of one name where they have names, so that one more or less does not
// show as a change of all that follow, and by their places elsewhere.
func listDifferences(path string, a, b []any) []difference {
	list := path[strings.LastIndexByte(path, '.')+1:]
	field, free := sortField(list)
	if field == "" {
		field = nameField(list)
	}
	l := lists{path: path, field: field, a: elements(a), b: elements(b)}
	if haveNames(a, field) && haveNames(b, field) {
		return l.byName()
	}
	if len(a) == 0 || len(b) == 0 {
		return []difference{l.whole()}
	}
	if free {
		l.a, l.b = lacking(l.a, l.b), lacking(l.b, l.a)
	} else {
		l.a, l.b = trim(l.a, l.b)
	}
	return l.byPlace()
}

// nameField is what elements of a list whose order counts are known by.
func nameField(list string) string {
	switch list {
	case "items":
		return "path"
	case "hostAliases":
		return "ip"
	}
	return "name"
}

// haveNames says whether every element has a name, and another one than all others.
func haveNames(list []any, field string) bool {
	for _, v := range list {
		if member(v, field) == nil {
			return false
		}
	}
	return distinct(list, field)
}

// element is a value with its place in the list.
type element struct {
	at    int
	value any
}

func elements(list []any) []element {
	var out []element
	for i, v := range list {
		out = append(out, element{i, v})
	}
	return out
}

// lists are two lists of one path.
type lists struct {
	path, field string
	a, b        []element
}

func (l lists) at(e element) string { return fmt.Sprintf("%s[%d]", l.path, e.at) }

func (l lists) named(e element) string {
	name := member(e.value, l.field)
	if s, ok := name.(string); ok {
		return l.path + "[" + s + "]"
	}
	return l.path + "[" + text(name) + "]"
}

func (l lists) byName() []difference {
	var out []difference
	var removed []element
	var before, after []string
	added := slices.Clone(l.b)
	for _, e := range l.a {
		i := slices.IndexFunc(added, func(o element) bool { return l.named(o) == l.named(e) })
		if i < 0 {
			removed = append(removed, e)
			continue
		}
		before = append(before, l.named(e))
		out = append(out, differences(l.named(e), e.value, added[i].value)...)
		added = slices.Delete(added, i, i+1)
	}
	for _, e := range l.b {
		if slices.Contains(before, l.named(e)) {
			after = append(after, l.named(e))
		}
	}
	if !slices.Equal(before, after) {
		out = append(out, difference{"the order of " + l.path, l.names(before), l.names(after)})
	}
	return append(out, l.unmatched(removed, added)...)
}

// names takes the path from paths of elements.
func (l lists) names(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(p, l.path+"["), "]"))
	}
	return out
}

// unmatched has what is only on one side. Of two that are the same but for their names the name changed.
func (l lists) unmatched(removed, added []element) []difference {
	var out []difference
	for _, e := range removed {
		i := slices.IndexFunc(added, func(o element) bool { return l.unnamed(o) == l.unnamed(e) })
		if i < 0 {
			out = append(out, difference{l.named(e), e.value, nil})
			continue
		}
		out = append(out, difference{child(l.named(e), l.field), member(e.value, l.field), member(added[i].value, l.field)})
		added = slices.Delete(added, i, i+1)
	}
	for _, e := range added {
		out = append(out, difference{l.named(e), nil, e.value})
	}
	return out
}

// unnamed is the text of an element without its name.
func (l lists) unnamed(e element) string {
	fields, _ := e.value.(map[string]any)
	fields = maps.Clone(fields)
	delete(fields, l.field)
	return text(fields)
}

// byPlace compares what is left of two lists.
func (l lists) byPlace() []difference {
	var out []difference
	switch {
	case len(l.a) == len(l.b):
		for i, e := range l.a {
			out = append(out, differences(l.at(e), e.value, l.b[i].value)...)
		}
	case len(l.b) == 0:
		for _, e := range l.a {
			out = append(out, difference{l.at(e), e.value, nil})
		}
	case len(l.a) == 0:
		for _, e := range l.b {
			out = append(out, difference{l.at(e), nil, e.value})
		}
	default:
		out = append(out, l.whole())
	}
	return out
}

// whole takes all that is left for one difference.
func (l lists) whole() difference { return difference{l.path, values(l.a), values(l.b)} }

// values is nil if there are none.
func values(list []element) any {
	if len(list) == 0 {
		return nil
	}
	var out []any
	for _, e := range list {
		out = append(out, e.value)
	}
	return out
}

// lacking are the elements of a that b does not have, as often as a has them more often.
func lacking(a, b []element) []element {
	spare := map[string]int{}
	for _, e := range b {
		spare[text(e.value)]++
	}
	var out []element
	for _, e := range a {
		if s := text(e.value); spare[s] > 0 {
			spare[s]--
			continue
		}
		out = append(out, e)
	}
	return out
}

// trim takes away what both lists start with, and what both end with.
func trim(a, b []element) (x, y []element) {
	same := func(i, j int) bool { return text(a[i].value) == text(b[j].value) }
	for len(a) > 0 && len(b) > 0 && same(0, 0) {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && same(len(a)-1, len(b)-1) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}
