package revision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// canonical returns JSON with sorted keys, without null and empty values, and with lists in order
// where the order means nothing. It works on the JSON and not on Go types, so that the order of a Go
// struct's fields, or whether one of them is a pointer, does not show in the bytes.
func canonical(data []byte) ([]byte, error) {
	v, err := tidied(data)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// tidied is what the canonical form says, as values.
func tidied(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a float64 does not hold every int64
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return tidy(v), nil
}

func tidy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			value = tidy(value)
			if key == "resourceFieldRef" && member(value, "divisor") == "0" {
				delete(value.(map[string]any), "divisor") // a Go struct has no absent quantity
			}
			if absent(key, value) {
				delete(v, key)
				continue
			}
			if list, ok := value.([]any); ok {
				arrange(key, list)
			}
			v[key] = value
		}
	case []any: // an element is never dropped: an empty one still counts
		for i := range v {
			v[i] = tidy(v[i])
		}
	}
	return v
}

// absent says whether a field means nothing. An empty struct often means something: an empty
// labelSelector selects everything, and none selects nothing; so those that do not are listed.
func absent(key string, value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		if len(v) > 0 {
			return false
		}
		switch key {
		case "metadata", "labels", "annotations", "nodeSelector", "matchLabels", "spec",
			"resources", "limits", "requests", "overhead",
			"securityContext", "capabilities", "affinity", "nodeAffinity", "podAffinity", "podAntiAffinity",
			"lifecycle", "dnsConfig", "emptyDir":
			return true
		}
	}
	return false
}

// arrange sorts a list whose order has no effect.
func arrange(key string, list []any) {
	if field, free := sortField(key); free {
		sortBy(list, field)
		return
	}
	switch key {
	case "items": // files of a volume: of two with one path the last wins
		if distinct(list, "path") {
			sortBy(list, "path")
		}
	case "hostAliases": // lines of /etc/hosts: the first that has the name wins
		if distinct(list, "hostnames") {
			sortBy(list, "ip")
		}
	}
}

// sortField says whether the order of a list never has an effect, and by which field of its elements it
// is sorted first, if any.
//
// Not among them, because the order has one: containers (they start in it, and a postStart hook holds
// up the next), initContainers, command and args, env (a later variable may refer to an earlier one)
// and envFrom (the last wins), nameservers, searches and options of DNS, httpHeaders, projected sources
// (the last wins), restartPolicyRules (the first wins).
func sortField(key string) (field string, free bool) {
	switch key {
	case "volumes", "imagePullSecrets", "schedulingGates", "resourceClaims", "claims", "sysctls":
		return "name", true
	case "ports": // looked up by name or number
		return "containerPort", true
	case "volumeMounts": // runtimes mount in the order of the paths' depth
		return "mountPath", true
	case "volumeDevices":
		return "devicePath", true
	case "tolerations", "readinessGates", "topologySpreadConstraints", "resizePolicy",
		"nodeSelectorTerms", "matchExpressions", "matchFields", "values", "namespaces",
		"requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution",
		"matchLabelKeys", "mismatchLabelKeys", "supplementalGroups", "accessModes", "add", "drop":
		return "", true
	}
	return "", false
}

// sortBy sorts by a field, and elements that are equal in it by all that they say.
func sortBy(list []any, field string) {
	sortKey := func(v any) string {
		return text(member(v, field)) + "\x00" + text(v)
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(sortKey(a), sortKey(b)) })
}

// distinct says whether no value of the field, nor of the lists in it, occurs twice.
func distinct(list []any, field string) bool {
	seen := map[string]bool{}
	for _, element := range list {
		values, ok := member(element, field).([]any)
		if !ok {
			values = []any{member(element, field)}
		}
		for _, v := range values {
			if seen[text(v)] {
				return false
			}
			seen[text(v)] = true
		}
	}
	return true
}

func member(v any, field string) any {
	m, _ := v.(map[string]any)
	return m[field]
}

// text is the JSON of a value that was read from JSON.
func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
