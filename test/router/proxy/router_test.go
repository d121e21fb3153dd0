package proxy

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
)

func TestStreamsPassAsTheyCome(t *testing.T) {
	w := newWorld(t)
	w.add("a")
	s := w.start(Config{}).open() // the first part is here, and the stream has not ended
	if s.engine != "a" {
		t.Errorf("engine %q", s.engine)
	}
	s.finish()
}

func TestADrainingPodGetsNothingAndIsAnsweredForAfterItsLastStream(t *testing.T) {
	w := newWorld(t)
	w.add("a")
	w.add("b")
	r := w.start(Config{})
	first, other := r.open(), r.open()
	second, fourth := r.open(), r.open()
	if got := []string{first.engine, other.engine, second.engine, fourth.engine}; !cmp.Equal(got, []string{"a", "b", "a", "b"}) {
		t.Fatalf("engines %v", got)
	}
	w.write("a", ask("ipu/1"))
	for range 3 { // the other Pod has more requests, and is chosen
		s := r.open()
		if s.engine != "b" {
			t.Errorf("a draining Pod is chosen: %s", s.engine)
		}
		s.finish()
	}
	first.finish()
	w.silent(r.Router)
	second.finish()
	if got := w.next(w.marks); got != "ipu/1" || !readiness.Answered(w.pod("a"), "ipu/1") {
		t.Errorf("answer %q, annotations %v", got, w.pod("a").Annotations)
	}
	w.silent(r.Router)
	if got := w.pod("b").Annotations; len(got) > 0 {
		t.Errorf("the other Pod has %v", got)
	}
	w.write("a", open)
	if s := r.open(); s.engine != "a" {
		t.Errorf("a Pod that is back is not chosen: %s", s.engine)
	}
	other.finish()
}

func TestARouterThatRestartsInTheMiddleAnswersAgain(t *testing.T) {
	w := newWorld(t)
	a := w.add("a")
	w.add("b")
	r := w.start(Config{Grace: time.Nanosecond}) // it dies with its streams
	cut := r.open()
	w.write("a", ask("ipu/1"))
	w.silent(r.Router)
	w.mu.Lock()
	w.fails = 1 << 20 // its last word is lost: nobody knows of its streams any more
	w.routers = nil
	w.mu.Unlock()
	r.stop()
	w.mu.Lock()
	w.fails = 0
	w.mu.Unlock()
	if got := cut.read(); got == "done" {
		t.Errorf("the stream outlives its router: %q", got)
	}
	next := w.start(Config{})
	if got := w.next(w.marks); got != "ipu/1" {
		t.Errorf("answer %q", got)
	}
	if s := next.open(); s.engine != "b" {
		t.Errorf("the restarted router chooses the draining Pod: %s", s.engine)
	}
	close(a.cut)
}

func TestARouterThatIsToldToEndAnswersForItsLastStream(t *testing.T) {
	w := newWorld(t)
	r, s := w.add("a").draining()
	r.term()
	s.finish()
	r.stop()
	if !readiness.Answered(w.pod("a"), "ipu/1") {
		t.Errorf("annotations %v", w.pod("a").Annotations)
	}
}

func TestALaterAttemptIsAnsweredByItsOwnToken(t *testing.T) {
	w := newWorld(t)
	_, s := w.add("a").draining()
	w.write("a", ask("ipu/2"))
	s.finish()
	if got := w.next(w.marks); got != "ipu/2" {
		t.Errorf("answer %q", got)
	}
	w.write("a", func(p *corev1.Pod) { p.Annotations[v1alpha1.Draining] = "ipu/3" }) // the old answer is left
	if got := w.next(w.marks); got != "ipu/3" {
		t.Errorf("answer %q", got)
	}
}

func TestACancelledDrainIsNotAnswered(t *testing.T) {
	w := newWorld(t)
	r, s := w.add("a").draining()
	w.write("a", open)
	s.finish()
	if s := r.open(); s.engine != "a" {
		t.Errorf("engine %q", s.engine)
	}
	w.silent(r.Router)
	if _, ok := w.pod("a").Annotations[v1alpha1.Drained]; ok {
		t.Error("an answer that nobody asked for")
	}
}

// TestAnAnswerOnItsWayMeetsAnotherDrain: the Pod was back in service in between, and is drained for the
// same attempt again.
func TestAnAnswerOnItsWayMeetsAnotherDrain(t *testing.T) {
	w := newWorld(t)
	w.add("a")
	held := make(chan struct{})
	w.held = held
	r := w.start(Config{})
	w.write("a", ask("ipu/1"))
	w.next(w.tried) // the answer is on its way
	w.write("a", open)
	s := r.open()
	w.write("a", ask("ipu/1"))
	w.mu.Lock()
	w.held = nil
	w.mu.Unlock()
	close(held)
	w.silent(r.Router)
	s.finish()
	if got := w.next(w.marks); got != "ipu/1" || len(w.marks) > 0 {
		t.Errorf("answer %q", got)
	}
	if len(w.tried) != 1 {
		t.Errorf("%d answers were tried after the first", len(w.tried))
	}
}

func TestAnAnswerThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	w := newWorld(t)
	w.add("a")
	w.fails = 2
	w.start(Config{Retry: time.Millisecond})
	w.write("a", ask("ipu/1"))
	if got := w.next(w.marks); got != "ipu/1" {
		t.Errorf("answer %q", got)
	}
}

func TestAnAnswerThatIsRemovedIsGivenAgain(t *testing.T) {
	w := newWorld(t)
	w.add("a")
	w.start(Config{})
	for range 2 {
		w.write("a", ask("ipu/1"))
		if got := w.next(w.marks); got != "ipu/1" {
			t.Errorf("answer %q", got)
		}
	}
}

func TestAStreamThatBreaksOffIsNotCounted(t *testing.T) {
	for name, breakOff := range map[string]func(*stream, *engine){
		"the client goes":  func(s *stream, _ *engine) { _ = s.body.Close() },
		"the engine fails": func(_ *stream, e *engine) { close(e.cut) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.add("a")
			r, s := a.draining()
			w.silent(r.Router)
			breakOff(s, a)
			if got := w.next(w.marks); got != "ipu/1" {
				t.Errorf("answer %q", got)
			}
			if n := r.InFlight("uid-a"); n != 0 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestWithoutAReadyPodTheRouterSaysSo(t *testing.T) {
	w := newWorld(t)
	r := w.start(Config{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is not read
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("status %s, headers %v", resp.Status, resp.Header)
	}
}
