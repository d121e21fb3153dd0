package health

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/gpu"
)

// A look ends when it is free to, or with its context.
type look struct {
	free  chan struct{}
	begun int
}

func (l *look) ends(ctx context.Context) (well bool) {
	l.begun++
	select {
	case <-l.free:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *look) check(ctx context.Context) (states.Status, string) {
	if !l.ends(ctx) {
		return states.Problem, "operation was canceled"
	}
	return states.OK, "there"
}

func (l *look) Residents(ctx context.Context, _ gpu.Reading) (by map[string][]states.Resident, known bool) {
	return nil, l.ends(ctx)
}

func TestWhoHangsUpDecidesNobodyElsesAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := &look{free: make(chan struct{})}, &look{free: make(chan struct{})}
		w := newWorld(t)
		w.start(Config{Reader: w, Assigner: w, Residency: r})
		w.rounds(3)
		checks := NewChecks(Check{"kubelet", l.check})
		first, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		var both sync.WaitGroup
		both.Go(func() { checks.Run(first) })
		both.Go(func() { w.monitor.GPUs(first) })
		synctest.Wait()
		both.Go(func() {
			if got := checks.Run(t.Context())[0]; got.Status != states.OK {
				t.Errorf("Run() = %+v", got)
			}
		})
		both.Go(func() {
			if !w.monitor.GPUs(t.Context()).ResidentsKnown {
				t.Error("residents are not known")
			}
		})
		synctest.Wait()
		hangUp()
		synctest.Wait()
		close(l.free)
		close(r.free)
		both.Wait()
		if l.begun != 1 || r.begun != 1 {
			t.Errorf("looked %d and %d times", l.begun, r.begun)
		}
	})
}

func TestALookThatNobodyWaitsForEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &look{free: make(chan struct{})}
		checks := NewChecks(Check{"kubelet", l.check})
		ctx, hangUp := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { checks.Run(ctx) })
		}
		synctest.Wait()
		began := time.Now()
		hangUp()
		all.Wait()
		synctest.Wait()
		close(l.free)
		if got := checks.Run(t.Context())[0]; got.Status != states.OK || l.begun != 2 || time.Since(began) > 0 {
			t.Errorf("who comes next has to wait, or is told %+v; looked %d times", got, l.begun)
		}
	})
}

func TestWhoComesWhileALookIsGivenUpHasOneOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, begun := make(chan struct{}), 0
		checks := NewChecks(Check{"kubelet", func(ctx context.Context) (states.Status, string) {
			if begun++; begun > 1 {
				return states.OK, "there"
			}
			<-ctx.Done()
			<-ended
			return states.Problem, "operation was canceled"
		}})
		ctx, hangUp := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { checks.Run(ctx) })
		synctest.Wait()
		hangUp()
		all.Wait()
		all.Go(func() {
			if got := checks.Run(t.Context())[0]; got.Status != states.OK {
				t.Errorf("Run() = %+v", got)
			}
		})
		synctest.Wait()
		if begun != 1 {
			t.Errorf("%d looks are under way", begun)
		}
		close(ended)
		all.Wait()
	})
}
