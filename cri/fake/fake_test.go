package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/cri"
	"pitstop.dev/cri/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ref = "registry.test/app:v1"

func start(t *testing.T, clk clock.WithTicker) (*fake.Runtime, *cri.Client) {
	t.Helper()
	r := fake.Start(t, clk)
	c, err := cri.Dial(r.Endpoint(), cri.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, c
}

// step moves the clock once something waits for it.
func step(t *testing.T, clk *clocktesting.FakeClock, d time.Duration) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !clk.HasWaiters() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("nothing waits for the clock")
		}
	}
	clk.Step(d)
}

func TestPullTakesItsTimeOnTheClock(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	r, c := start(t, clk)
	r.Publish(ref, fake.Image{PullTime: time.Hour})
	done := make(chan error, 1)
	go func() { done <- c.Pull(t.Context(), ref, nil) }()
	step(t, clk, 59*time.Minute)
	select {
	case err := <-done:
		t.Fatalf("the pull ended early: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	clk.Step(time.Minute)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStopWaitsOnTheClock(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	r, c := start(t, clk)
	r.Publish(ref, fake.Image{Stubborn: true})
	if err := r.EnsureImage(ref); err != nil {
		t.Fatal(err)
	}
	r.RunPod(fake.Pod{UID: "uid"})
	id, err := r.StartContainer(fake.Container{PodUID: "uid", Name: "app", Image: ref})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Stop(t.Context(), id, time.Hour) }()
	step(t, clk, time.Hour)
	if err := <-done; err != nil {
		t.Error(err)
	}
	p, err := c.Pod(t.Context(), "uid")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := p.Newest("app"); got.ExitCode != 137 || !got.FinishedAt.Equal(clk.Now()) {
		t.Errorf("%+v, want code 137 at %s", got, clk.Now())
	}
}

func TestATagMoves(t *testing.T) {
	r, c := start(t, clock.RealClock{})
	pull := func() cri.Image {
		t.Helper()
		if err := c.Pull(t.Context(), ref, nil); err != nil {
			t.Fatal(err)
		}
		i, err := c.Image(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	one := r.Publish(ref, fake.Image{})
	if got := pull(); got.ID != one.ID {
		t.Errorf("id %s, want %s", got.ID, one.ID)
	}
	two := r.Publish(ref, fake.Image{ID: "sha256:" + one.ID[8:] + "0"})
	if got := pull(); got.ID == one.ID || two.ID == one.ID {
		t.Errorf("id %s after the tag moved", got.ID)
	}
	if old, err := c.Image(t.Context(), one.ID); err != nil || len(old.RepoTags) != 0 {
		t.Errorf("the old image: %+v, %v, want it without a tag", old, err)
	}
}

func TestScript(t *testing.T) {
	r, c := start(t, clock.RealClock{})
	boom := errors.New("boom")
	r.FailNext("Version", boom, nil, boom)
	for n, want := range []bool{false, true, false, true} {
		if _, err := c.Version(t.Context()); (err == nil) != want {
			t.Errorf("call %d: %v, want success: %t", n, err, want)
		}
	}
	r.HangNext("Version")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Version(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hanging call: %v", err)
	}
	if n := r.Count("Version", ""); n != 5 {
		t.Errorf("%d calls logged, want 5", n)
	}
}

// Kubelet pulls with credentials that a plain pull does not have.
func TestPrivateImage(t *testing.T) {
	r, c := start(t, clock.RealClock{})
	r.Publish(ref, fake.Image{Private: true})
	if err := c.Pull(t.Context(), ref, nil); !errors.Is(err, cri.ErrUnauthorized) {
		t.Errorf("Pull() = %v", err)
	}
	if err := r.EnsureImage(ref); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Image(t.Context(), ref); err != nil {
		t.Error(err)
	}
	r.RegistryDown()
	if err := r.EnsureImage(ref); err == nil {
		t.Error("kubelet pulled from a registry that is down")
	}
}
