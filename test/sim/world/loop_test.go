package world

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEventsHappenInTheOrderOfTheirTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLoop(rapid.Uint64().Draw(t, "seed"))
		begin := l.Now()
		delays := rapid.SliceOf(rapid.IntRange(0, 50)).Draw(t, "delays")
		var last time.Time
		happened := 0
		for _, d := range delays {
			due := begin.Add(time.Duration(d) * time.Second)
			l.After(due.Sub(begin), func() {
				happened++
				if !l.Now().Equal(due) || due.Before(last) {
					t.Fatalf("due at %v, happens at %v after %v", due, l.Now(), last)
				}
				last = due
			})
		}
		l.RunUntil(begin.Add(25 * time.Second))
		l.RunUntil(begin.Add(50 * time.Second))
		if happened != len(delays) {
			t.Fatalf("%d of %d events happened", happened, len(delays))
		}
	})
}

func TestTimePassesInTheMiddleOfAnEvent(t *testing.T) {
	l := NewLoop(1)
	begin := l.Now()
	var order []string
	l.After(time.Second, func() {
		order = append(order, "begins")
		l.RunUntil(l.Now().Add(3 * time.Second))
		order = append(order, "ends")
	})
	l.After(2*time.Second, func() { order = append(order, "meanwhile") })
	l.After(5*time.Second, func() { order = append(order, "later") })
	l.RunUntil(begin.Add(2 * time.Second))
	if diff := cmp.Diff([]string{"begins", "meanwhile", "ends"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if got := l.Since(begin); got != 4*time.Second {
		t.Errorf("it is %s later, want 4s", got)
	}
}
