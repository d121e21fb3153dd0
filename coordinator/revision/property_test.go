package revision

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
)

func TestPropertyOfTheProjection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		d := mustProject(t, s)
		data := mustEncode(t, d)

		stored, err := Decode(holding(data))
		if err != nil {
			t.Fatalf("what was stored is unreadable: %v", err)
		}
		if diff := cmp.Diff(d, stored); diff != "" {
			t.Fatalf("projected, and as stored (-want +got):\n%s", diff)
		}
		if got := mustEncode(t, stored); string(got) != string(data) {
			t.Fatalf("%s, stored as %s", got, data)
		}

		other := drawSpec(t)
		replicas := replicasOf(other)
		d.Apply(other)
		if diff := cmp.Diff(d, mustProject(t, other)); diff != "" {
			t.Fatalf("applied and projected again (-want +got):\n%s", diff)
		}
		for name, now := range replicasOf(other) {
			if before, ok := replicas[name]; ok && before != now {
				t.Fatalf("role %s had %d replicas and has %d", name, before, now)
			}
		}

		shuffle(t, s)
		if diff := cmp.Diff(string(data), string(mustEncode(t, mustProject(t, s)))); diff != "" {
			t.Fatalf("in another order (-want +got):\n%s", diff)
		}
	})
}

func TestPropertyOfCompare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := mustProject(t, drawSpec(t)), mustProject(t, drawSpec(t))
		a, b := holding(mustEncode(t, x)), holding(mustEncode(t, y))
		if got := Compare(a, a.DeepCopy()); got != Same {
			t.Fatalf("with itself: %s", got)
		}
		want := Different
		if reflect.DeepEqual(x, y) {
			want = Same
		}
		if got, back := Compare(a, b), Compare(b, a); got != want || back != want {
			t.Fatalf("%s and %s, want %s", got, back, want)
		}
	})
}

// TestPropertyOfDamagedData damages stored bytes anywhere. What is then readable is data like any other,
// and all else is said to be unreadable.
func TestPropertyOfDamagedData(t *testing.T) {
	files := glob(t, "testdata/v1/*.json")
	rapid.Check(t, func(rt *rapid.T) {
		data := read(t, rapid.SampledFrom(files).Draw(rt, "file"))
		for range rapid.IntRange(1, 3).Draw(rt, "damages") {
			at := rapid.IntRange(0, len(data)).Draw(rt, "at")
			lost := rapid.IntRange(0, min(4, len(data)-at)).Draw(rt, "lost")
			instead := rapid.SampledFrom([]string{"", "\"", "{}", "[null]", "9", "-1e400", ",", "x", "\x00"}).Draw(rt, "instead")
			data = slices.Concat(data[:at], []byte(instead), data[at+lost:])
		}
		d, err := Decode(holding(data))
		if errors.Is(err, ErrUnreadable) {
			return
		}
		if err != nil {
			rt.Fatalf("of another kind: %v", err)
		}
		again, err := Decode(holding(mustEncode(rt, d)))
		if diff := cmp.Diff(d, again); err != nil || diff != "" {
			rt.Fatalf("stored again: %v (-want +got):\n%s", err, diff)
		}
	})
}

// TestPropertyOfTheHistory plays a life of declarations, limits and references, each turn cut short at
// any write, and checks what is stored after each.
func TestPropertyOfTheHistory(t *testing.T) {
	letters := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	rapid.Check(t, func(rt *rapid.T) {
		s := &shelf{stored: map[string]*appsv1.ControllerRevision{}}
		for _, cr := range []*appsv1.ControllerRevision{
			revision(t, "a", 50, foreign, named(freshName(t, "a", 0))),
			revision(t, "b", 2, named(freshName(t, "c", 0))),
			revision(t, "d", 3, holdingText(`{"version":"v2"}`)),
		} {
			s.stored[cr.Name] = cr
		}
		for range rapid.IntRange(1, 12).Draw(rt, "turns") {
			h := History{
				Owner: serving(), Stored: s.list(), Data: saying(t, letters.Draw(rt, "declared")),
				References:     sets.New[string](),
				Limit:          rapid.Int32Range(0, 3).Draw(rt, "limit"),
				CollisionCount: s.collisions,
			}
			for _, cr := range h.Stored {
				if rapid.Bool().Draw(rt, "referenced") {
					h.References.Insert(cr.Name)
				}
			}
			d, err := Decide(h)
			if err != nil {
				rt.Fatal(err)
			}
			ended := s.follow(t, d, rapid.IntRange(0, 12).Draw(rt, "writes"))
			s.nothingNeededIsGone(rt, h)
			if ended {
				s.isAsDecided(rt, h, d)
			}
		}
	})
}

// nothingNeededIsGone verifies what must hold after every write.
func (s *shelf) nothingNeededIsGone(t *rapid.T, h History) {
	t.Helper()
	for _, cr := range h.Stored {
		kept := !metav1.IsControlledBy(cr, h.Owner) || h.References.Has(cr.Name)
		if kept && s.stored[cr.Name] == nil {
			t.Fatalf("%s is gone", cr.Name)
		}
	}
}

// isAsDecided verifies what must hold after all of a decision's writes.
func (s *shelf) isAsDecided(t *rapid.T, h History, d Decision) {
	t.Helper()
	if d.CollisionCount < h.CollisionCount {
		t.Fatalf("the collision count fell to %d", d.CollisionCount)
	}
	target := s.stored[d.Target]
	if target == nil || !metav1.IsControlledBy(target, h.Owner) {
		t.Fatalf("the target %s is not there", d.Target)
	}
	if got, err := Decode(target); err != nil || cmp.Diff(h.Data, got) != "" {
		t.Fatalf("the target says %+v, %v", got, err)
	}
	spare := 0
	for _, cr := range s.stored {
		if cr.Name == d.Target || !metav1.IsControlledBy(cr, h.Owner) {
			continue
		}
		if cr.Revision >= target.Revision {
			t.Fatalf("%s has the number %d, the target %d", cr.Name, cr.Revision, target.Revision)
		}
		if !h.References.Has(cr.Name) {
			spare++
		}
	}
	if spare > int(h.Limit) {
		t.Fatalf("%d are kept, the limit is %d", spare, h.Limit)
	}
	h.Stored, h.CollisionCount = s.list(), s.collisions
	again, err := Decide(h)
	want := outline{Target: d.Target, CollisionCount: s.collisions}
	got := outlineOf(again)
	got.Unreadable = ""
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("decided again: %v (-want +got):\n%s", err, diff)
	}
}

func mustProject(t *rapid.T, s *v1alpha1.ModelServingSpec) Data {
	t.Helper()
	before := s.DeepCopy()
	d, err := Project(s)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, s) {
		t.Fatal("Project changed the spec")
	}
	return d
}

func mustEncode(t *rapid.T, d Data) []byte {
	t.Helper()
	data, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func replicasOf(s *v1alpha1.ModelServingSpec) map[string]int32 {
	replicas := map[string]int32{}
	for _, r := range s.Template.Roles {
		if r.Replicas != nil {
			replicas[r.Name] = *r.Replicas
		}
	}
	return replicas
}

// drawSpec fills a spec at random, often with what is a default somewhere.
func drawSpec(t *rapid.T) *v1alpha1.ModelServingSpec {
	var s v1alpha1.ModelServingSpec
	s.SchedulerName = rapid.SampledFrom([]string{"", "volcano", "default-scheduler"}).Draw(t, "scheduler")
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID[string]).Draw(t, "roles") {
		var r v1alpha1.Role
		fill(t, reflect.ValueOf(&r).Elem())
		r.Name = name
		if r.WorkerTemplate == nil || r.WorkerReplicas < 0 {
			r.WorkerReplicas = 0
		}
		s.Template.Roles = append(s.Template.Roles, r)
	}
	return &s
}

func fill(t *rapid.T, v reflect.Value) {
	switch v.Interface().(type) {
	case metav1.Time, metav1.FieldsV1:
		return
	case resource.Quantity:
		q := rapid.SampledFrom([]string{"0", "1", "0.2", "200m", "1Gi", "1024Mi", "1073741824", "1e3", "1k"}).Draw(t, "quantity")
		v.Set(reflect.ValueOf(resource.MustParse(q)))
		return
	case intstr.IntOrString:
		v.Set(reflect.ValueOf(intstr.Parse(rapid.SampledFrom([]string{"0", "80", "http", "10%"}).Draw(t, "int or string"))))
		return
	}
	switch {
	case v.Kind() == reflect.String:
		v.SetString(rapid.SampledFrom([]string{
			"a", "b", "", "e:1", "e:latest", "TCP", "HTTP", "Always", "IfNotPresent", "ClusterFirst", "File", "/", "v1",
			"default-scheduler", "volcano", "Filesystem", v1alpha1.EnvGroupSize, string(v1alpha1.InService),
		}).Draw(t, "string"))
	case v.Kind() == reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case v.Kind() == reflect.Int32 || v.Kind() == reflect.Int64:
		v.SetInt(rapid.SampledFrom([]int64{0, 1, 2, 3, 10, 30, 420, 3600, -1}).Draw(t, "int"))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case v.Kind() == reflect.Slice:
		n := rapid.IntRange(0, 2).Draw(t, "length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i))
		}
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 2).Draw(t, "size") {
			key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key)
			fill(t, element)
			v.SetMapIndex(key, element)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			// Most are absent, but not those that hold the others.
			field := v.Type().Field(i)
			if slices.Contains([]string{"EntryTemplate", "Spec", "Containers", "Name"}, field.Name) || rapid.IntRange(0, 9).Draw(t, field.Name) == 0 {
				fill(t, v.Field(i))
			}
		}
	}
}

// shuffle changes the order of what has none.
func shuffle(t *rapid.T, s *v1alpha1.ModelServingSpec) {
	s.Template.Roles = rapid.Permutation(s.Template.Roles).Draw(t, "roles")
	for i := range s.Template.Roles {
		p := &s.Template.Roles[i].EntryTemplate.Spec
		p.Volumes = rapid.Permutation(p.Volumes).Draw(t, "volumes")
		p.Tolerations = rapid.Permutation(p.Tolerations).Draw(t, "tolerations")
		p.ImagePullSecrets = rapid.Permutation(p.ImagePullSecrets).Draw(t, "secrets")
		for c := range containers(p) {
			c.Ports = rapid.Permutation(c.Ports).Draw(t, "ports")
			c.VolumeMounts = rapid.Permutation(c.VolumeMounts).Draw(t, "mounts")
		}
	}
}
