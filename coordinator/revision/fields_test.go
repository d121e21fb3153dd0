package revision

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestEveryFieldIsVersionedOrNot changes every field of the API, one at a time. A new one fails here
// until somebody has decided.
func TestEveryFieldIsVersionedOrNot(t *testing.T) {
	const versioned, not = true, false
	want := map[string]bool{
		"schedulerName":                                             versioned,
		"template.roles[].name":                                     versioned,
		"template.roles[].workerReplicas":                           versioned,
		"template.roles[].entryTemplate":                            versioned,
		"template.roles[].workerTemplate":                           versioned,
		"replicas":                                                  not,
		"paused":                                                    not,
		"revisionHistoryLimit":                                      not,
		"recoveryPolicy":                                            not,
		"progressDeadlineSeconds":                                   not,
		"rolloutStrategy.type":                                      not,
		"rolloutStrategy.updateMethod":                              not,
		"rolloutStrategy.minReadySeconds":                           not,
		"rolloutStrategy.maxUnavailableGroups":                      not,
		"rolloutStrategy.drain.mode":                                not,
		"rolloutStrategy.drain.timeoutSeconds":                      not,
		"rolloutStrategy.rollingUpdateConfiguration.partition":      not,
		"rolloutStrategy.rollingUpdateConfiguration.maxSurge":       not,
		"rolloutStrategy.rollingUpdateConfiguration.maxUnavailable": not,
		"rolloutStrategy.inPlace.propagationSeconds":                not,
		"rolloutStrategy.inPlace.stopTimeoutSeconds":                not,
		"rolloutStrategy.inPlace.onFailure":                         not,
		"template.roles[].front":                                    not,
		"template.restartGracePeriodSeconds":                        not,
		"template.roles[].replicas":                                 not,
		"template.roles[].maxUnavailable":                           not,
		"template.roles[].maxSurge":                                 not,
		"template.roles[].partition":                                not,
	}
	s := spec(t, `{template: {roles: [{name: a, workerReplicas: 1, workerTemplate: {}}]}}`)
	seen := map[string]bool{}
	eachField(t, reflect.ValueOf(s).Elem(), "", func(path string, change func(int)) {
		seen[path] = true
		decided, known := want[path]
		if !known {
			t.Errorf("%s: is it versioned?", path)
		}
		change(1)
		before := encode(t, project(t, s))
		change(2)
		if changed := !bytes.Equal(before, encode(t, project(t, s))); changed != decided {
			t.Errorf("%s: a change makes a new revision: %t", path, changed)
		}
	})
	for path := range want {
		if !seen[path] {
			t.Errorf("%s: there is no such field", path)
		}
	}
}

// TestEveryFieldOfATemplateIsVersioned does the same for every field that Kubernetes has in a Pod's
// template. Each also survives being stored.
func TestEveryFieldOfATemplateIsVersioned(t *testing.T) {
	ignored := func(path string) bool {
		field, metadata := strings.CutPrefix(path, "metadata.")
		return metadata && !strings.HasPrefix(field, "labels") && !strings.HasPrefix(field, "annotations")
	}
	fields := 0
	d := Data{Roles: []Role{{Name: "a", EntryTemplate: &corev1.PodTemplateSpec{}}}}
	check := func(path string, change func(int)) {
		fields++
		change(1)
		before := encode(t, d)
		change(2)
		after := encode(t, d)
		if changed := !bytes.Equal(before, after); changed == ignored(path) {
			t.Errorf("%s: a change makes a new revision: %t", path, changed)
		}
		again, err := Decode(holding(after))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if !bytes.Equal(after, encode(t, again)) {
			t.Errorf("%s: is lost when stored", path)
		}
	}
	template := reflect.ValueOf(d.Roles[0].EntryTemplate).Elem()
	eachField(t, template.FieldByName("ObjectMeta"), "metadata", check)
	eachField(t, template.FieldByName("Spec"), "spec", check)
	if fields < 800 {
		t.Errorf("%d fields", fields)
	}
}

// eachField visits every field below v that is no struct, list or map. For each it makes all that is
// around it, calls visit with a function that sets the field to its first or second value, and undoes all.
func eachField(t *testing.T, v reflect.Value, path string, visit func(path string, change func(n int))) {
	t.Helper()
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	defer v.Set(old)
	if values, ok := valuesOf(v); ok {
		visit(path, func(n int) { v.Set(reflect.ValueOf(values[n-1]).Convert(v.Type())) })
		return
	}
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		eachField(t, v.Elem(), path, visit)
	case v.Kind() == reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		eachField(t, v.Index(0), path+"[]", visit)
	case v.Kind() == reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		eachField(t, element, path+"{}", func(path string, change func(int)) {
			visit(path, func(n int) {
				change(n)
				v.Set(reflect.MakeMap(v.Type()))
				v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), element)
			})
		})
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			eachField(t, v.Field(i), strings.TrimPrefix(join(path, name), "."), visit)
		}
	default:
		t.Fatalf("%s: a %s", path, v.Type())
	}
}

func join(path, name string) string {
	if name == "" { // inline
		return path
	}
	return path + "." + name
}

// valuesOf are two values that are no default, if v is to be taken as one field.
func valuesOf(v reflect.Value) ([2]any, bool) {
	switch v.Interface().(type) {
	case corev1.PodTemplateSpec:
		template := func(image string) corev1.PodTemplateSpec {
			return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
		}
		return [2]any{template("a"), template("b")}, true
	case resource.Quantity:
		return [2]any{resource.MustParse("3"), resource.MustParse("4")}, true
	case intstr.IntOrString:
		return [2]any{intstr.FromInt32(7), intstr.FromInt32(8)}, true
	case metav1.Time:
		return [2]any{metav1.NewTime(time.Unix(7, 0)), metav1.NewTime(time.Unix(8, 0))}, true
	case metav1.FieldsV1:
		return [2]any{*metav1.NewFieldsV1(`{"a":1}`), *metav1.NewFieldsV1(`{"b":1}`)}, true
	}
	switch {
	case v.Kind() == reflect.String:
		return [2]any{"x", "y"}, true
	case v.Kind() == reflect.Bool:
		return [2]any{true, false}, true
	case v.Kind() == reflect.Int32 || v.Kind() == reflect.Int64:
		return [2]any{7, 8}, true
	}
	return [2]any{}, false
}
