package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Change is one field that differs.
type Change struct {
	// Path is that of the field, with the names of roles, containers and the like in brackets:
	// `roles[prefill].entryTemplate.spec.containers[engine].image`.
	Path string `json:"path"`
	// Before and After are its values; absent where the field is absent.
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

// changes lists what differs between two contents, by path.
func changes(before, after []byte) []Change {
	all := []Change{}
	compare("", tree(before), tree(after), &all)
	return all
}

// tree has the numbers as they are written: a float64 does not hold every int64.
func tree(content []byte) any {
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return string(content) // Encode returns nothing that is not JSON
	}
	return v
}

func compare(path string, a, b any, all *[]Change) {
	am, aok := a.(map[string]any)
	bm, bok := b.(map[string]any)
	if aok && bok {
		compareMaps(path, am, bm, all)
		return
	}
	al, aok := a.([]any)
	bl, bok := b.([]any)
	if aok && bok && compareLists(path, al, bl, all) {
		return
	}
	if text(a) != text(b) {
		*all = append(*all, Change{path, a, b})
	}
}

func compareMaps(path string, a, b map[string]any, all *[]Change) {
	keys := slices.Sorted(maps.Keys(a))
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		compare(field(path, k), a[k], b[k], all)
	}
}

// compareLists compares by name where the elements have names, and else one by one if there are as
// many. It is false where neither will do; then the list as a whole is the change.
func compareLists(path string, a, b []any, all *[]Change) bool {
	an, bn := named(a), named(b)
	if an != nil && bn != nil {
		keys := slices.Sorted(maps.Keys(an))
		for k := range bn {
			if _, both := an[k]; !both {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			compare(path+"["+k+"]", an[k], bn[k], all)
		}
		if x, y := sequence(a, bn), sequence(b, an); !slices.Equal(x, y) {
			*all = append(*all, Change{path + " (order)", x, y})
		}
		return true
	}
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		compare(fmt.Sprintf("%s[%d]", path, i), a[i], b[i], all)
	}
	return true
}

// named returns a list by the names of its elements, or nil if they are not all named, and
// differently.
func named(list []any) map[string]any {
	byName := map[string]any{}
	for _, v := range list {
		m, _ := v.(map[string]any)
		name, _ := m["name"].(string)
		if name == "" {
			return nil
		}
		byName[name] = v
	}
	if len(byName) != len(list) {
		return nil
	}
	return byName
}

// sequence are the names of the elements that are also in the other list.
func sequence(list []any, other map[string]any) []string {
	var names []string
	for _, v := range list {
		name, _ := v.(map[string]any)["name"].(string)
		if _, both := other[name]; both {
			names = append(names, name)
		}
	}
	return names
}

func field(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// text is a value as JSON without quotes around a single word.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
