package certificate

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNext(t *testing.T) {
	born := time.Unix(1e9, 0)
	rules := Rules{DNSNames: []string{"a.b.svc"}, Propagation: time.Minute}
	pair := func(names ...string) *Pair {
		p, err := newPair(names, born, 90*24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first, second, other := pair("a.b.svc"), pair("a.b.svc"), pair("c.d.svc")
	due, end := first.due(), first.leaf.NotAfter
	published := func(s State) Observation { return Observation{State: s, Bundles: [][]byte{s.bundle()}} }
	since := func(o Observation, at time.Time) Observation { o.Published = at; return o }
	for name, tt := range map[string]struct {
		in   Observation
		now  time.Time
		want Step
	}{
		"an empty Secret gets a certificate":                   {published(State{}), born, Step{Action: Replace}},
		"one that has ended is replaced":                       {published(State{Current: first}), end.Add(time.Second), Step{Action: Replace}},
		"one for other names is replaced":                      {published(State{Current: other}), born, Step{Action: Replace}},
		"one from the future is replaced":                      {published(State{Current: first}), born.Add(-2 * skew), Step{Action: Replace}},
		"one that has ended gives way to its successor":        {published(State{Current: other, Next: second}), born, Step{Action: Promote}},
		"its authority is published":                           {Observation{State: State{Current: first}, Bundles: [][]byte{nil}}, born, Step{Action: Publish}},
		"it is published to every webhook":                     {Observation{State: State{Current: first}, Bundles: [][]byte{first.Authority, nil}}, born, Step{Action: Publish}},
		"an authority of nobody is taken away":                 {Observation{State: State{Current: first}, Bundles: [][]byte{append(bytes.Clone(first.Authority), other.Authority...)}}, born, Step{Action: Publish}},
		"it is served until it is due":                         {published(State{Current: first}), born, Step{Action: Wait, Until: due}},
		"due, it gets a successor":                             {published(State{Current: first}), due, Step{Action: Prepare}},
		"a successor for other names is made anew":             {published(State{Current: first, Next: other}), due, Step{Action: Prepare}},
		"the successor's authority is published":               {Observation{State: State{Current: first, Next: second}, Bundles: [][]byte{first.Authority}}, due, Step{Action: Publish}},
		"the successor waits for API servers":                  {since(published(State{Current: first, Next: second}), due), due.Add(59 * time.Second), Step{Action: Wait, Until: due.Add(119 * time.Second)}},
		"the successor waits, as long as nothing was observed": {published(State{Current: first, Next: second}), due, Step{Action: Wait, Until: due.Add(time.Minute)}},
		"then it is served":                                    {since(published(State{Current: first, Next: second}), due), due.Add(time.Minute), Step{Action: Promote}},
		"the authority before it stays published":              {published(State{Current: second, Previous: first.Authority}), born, Step{Action: Wait, Until: due}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Next(tt.in, rules, tt.now)); diff != "" {
				t.Errorf("Next() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStateSurvivesItsSecret(t *testing.T) {
	one, err := newPair([]string{"a"}, time.Unix(1e9, 0), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	two, err := newPair([]string{"a"}, time.Unix(1e9, 0), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	full := State{Current: one, Next: two, Previous: two.Authority}
	for name, tt := range map[string]struct {
		damage func(map[string][]byte)
		want   State
	}{
		"whole":                         {func(map[string][]byte) {}, full},
		"without a key":                 {func(d map[string][]byte) { delete(d, keyKey) }, State{Next: two, Previous: two.Authority}},
		"with the key of another":       {func(d map[string][]byte) { d[keyKey] = d[keyNextKey] }, State{Next: two, Previous: two.Authority}},
		"with the authority of another": {func(d map[string][]byte) { d[keyNextAuthority] = d[keyAuthority] }, State{Current: one, Previous: two.Authority}},
		"with text for a successor":     {func(d map[string][]byte) { d[keyNextCert] = []byte("x") }, State{Current: one, Previous: two.Authority}},
		"with text for an authority":    {func(d map[string][]byte) { d[keyPrevious] = []byte("x") }, State{Current: one, Next: two}},
		"with text after an authority":  {func(d map[string][]byte) { d[keyAuthority] = append(bytes.Clone(d[keyAuthority]), "x"...) }, full},
		"empty":                         {func(d map[string][]byte) { clear(d) }, State{}},
	} {
		t.Run(name, func(t *testing.T) {
			data := full.encode()
			tt.damage(data)
			pem := cmp.Comparer(func(a, b *Pair) bool {
				return a == nil && b == nil || a != nil && b != nil && bytes.Equal(a.Cert, b.Cert) && bytes.Equal(a.Authority, b.Authority)
			})
			if diff := cmp.Diff(tt.want, decodeState(data), pem); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}
