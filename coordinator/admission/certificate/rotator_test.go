package certificate_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/coordinator/admission/certificate"
)

const host = "pitstop-coordinator.pitstop-system.svc"

var errCrash = errors.New("crash")

// fataler is what testing.T and rapid.T have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// A world has replicas, an API server's store of two objects, and API servers that learn late of
// what was written.
type world struct {
	client.Client // not there: a call of anything but Get and Update is a mistake
	t             fataler
	clock         clock.WithTicker
	replicas      []*certificate.Rotator

	mu            sync.Mutex
	secret        *corev1.Secret
	configuration *admissionregistrationv1.ValidatingWebhookConfiguration
	history       []version // of the configuration
	writes        int
	verified      map[string]bool
	// before is called before every read and write; an error of it is that of the call. after is
	// called after a write that succeeded.
	before, after func() error
}

// A version is a bundle of the configuration and when it was written.
type version struct {
	at     time.Time
	bundle []byte
}

func newWorld(t fataler, replicas int, c clock.WithTicker) *world {
	t.Helper()
	w := &world{
		t: t, clock: c, verified: map[string]bool{},
		secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "pitstop-system", Name: "webhook", ResourceVersion: "1"}},
		configuration: &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "webhook", ResourceVersion: "1"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "a"}},
		},
		before: func() error { return nil }, after: func() error { return nil },
	}
	for range replicas {
		w.replicas = append(w.replicas, w.replica())
	}
	return w
}

func newFakeClock() *testingclock.FakeClock { return testingclock.NewFakeClock(time.Unix(1e9, 0)) }

// replica is a process that has just started.
func (w *world) replica() *certificate.Rotator {
	r, err := certificate.New(certificate.Config{
		Reader: w, Writer: w, Clock: w.clock, Metrics: prometheus.NewRegistry(),
		Namespace: "pitstop-system", Secret: "webhook", Configuration: "webhook", DNSNames: []string{host},
	})
	if err != nil {
		w.t.Fatalf("New: %v", err)
	}
	return r
}

func (w *world) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if err := w.before(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if o, ok := o.(*corev1.Secret); ok && w.secret != nil && key == client.ObjectKeyFromObject(w.secret) {
		w.secret.DeepCopyInto(o)
		return nil
	}
	if o, ok := o.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok && w.configuration != nil && key == client.ObjectKeyFromObject(w.configuration) {
		w.configuration.DeepCopyInto(o)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (w *world) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	if err := w.before(); err != nil {
		return err
	}
	if err := w.store(o); err != nil {
		return err
	}
	return w.after()
}

func (w *world) store(o client.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	stored := client.Object(w.secret)
	if _, ok := o.(*corev1.Secret); !ok {
		stored = w.configuration
	}
	if o.GetResourceVersion() != stored.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("changed"))
	}
	w.writes++
	o.SetResourceVersion(strconv.Itoa(w.writes + 1))
	switch o := o.(type) {
	case *corev1.Secret:
		w.secret = o.DeepCopy()
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		w.configuration = o.DeepCopy()
		w.history = append(w.history, version{w.clock.Now(), o.Webhooks[0].ClientConfig.CABundle})
	}
	return nil
}

// settle passes until the replica waits.
func (w *world) settle(ctx context.Context, i int) {
	w.t.Helper()
	for range 20 {
		wait, err := w.replicas[i].Pass(ctx)
		switch {
		case errors.Is(err, errCrash):
			w.replicas[i] = w.replica()
		case apierrors.IsConflict(err):
		case err != nil:
			w.t.Fatalf("Pass: %v", err)
		case wait > 0:
			return
		}
	}
	w.t.Fatalf("replica %d finds no end", i)
}

// trusted fails unless every API server, however late it is by at most lag, accepts what every
// ready replica serves.
func (w *world) trusted(lag time.Duration) {
	w.t.Helper()
	now := w.clock.Now()
	for i, r := range w.replicas {
		if r.Ready(nil) != nil {
			continue
		}
		cert, err := r.GetCertificate(nil)
		if err != nil {
			w.t.Fatalf("replica %d is ready: %v", i, err)
		}
		for n, v := range w.history {
			if n+1 < len(w.history) && w.history[n+1].at.Add(lag).Before(now) {
				continue // all have seen a later one
			}
			if err := w.verify(cert.Leaf, n, v.bundle); err != nil || now.Before(cert.Leaf.NotBefore) || now.After(cert.Leaf.NotAfter) {
				w.t.Fatalf("at %s an API server with version %d of %d refuses replica %d, whose certificate ends at %s: %v",
					now, n, len(w.history), i, cert.Leaf.NotAfter, err)
			}
		}
	}
}

// verify is an API server's, dates apart. It is slow, so that what was proved once is remembered.
func (w *world) verify(leaf *x509.Certificate, version int, bundle []byte) error {
	key := fmt.Sprint(leaf.SerialNumber, version)
	if w.verified[key] {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: leaf.NotBefore})
	w.verified[key] = err == nil
	return err
}

func TestAReplicaServesOnceItsCertificateIsTrusted(t *testing.T) {
	c := newFakeClock()
	w := newWorld(t, 2, c)
	ctx := t.Context()
	if err := w.replicas[0].Ready(nil); err == nil {
		t.Error("ready without a certificate")
	}
	if _, err := w.replicas[0].GetCertificate(nil); err == nil {
		t.Error("a certificate from nowhere")
	}
	w.before = func() error {
		if w.replicas[0].Ready(nil) == nil && len(w.history) == 0 {
			t.Error("ready before its authority is known")
		}
		return nil
	}
	w.settle(ctx, 0)
	w.settle(ctx, 1)
	if w.writes != 2 {
		t.Errorf("%d writes, want that of the Secret and that of the configuration", w.writes)
	}
	w.trusted(0)
	for i, r := range w.replicas {
		if err := r.Ready(nil); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	}
	c.Step(91 * 24 * time.Hour)
	if err := w.replicas[0].Ready(nil); err == nil {
		t.Error("ready with a certificate that has ended")
	}
	w.settle(ctx, 0)
	if err := w.replicas[0].Ready(nil); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

func TestARunDiesAtEveryCall(t *testing.T) {
	// One life: a certificate from nothing, and one renewal.
	live := func(w *world) {
		ctx, c := t.Context(), w.clock.(*testingclock.FakeClock)
		w.settle(ctx, 0)
		w.trusted(0)
		c.Step(61 * 24 * time.Hour)
		for range 8 { // a new process waits anew for API servers
			w.settle(ctx, 0)
			w.trusted(0)
			c.Step(2 * time.Minute)
		}
	}
	calls := 0
	plain := newWorld(t, 1, newFakeClock())
	plain.before = func() error { calls++; return nil }
	live(plain)
	want := 5 // Replace, Publish, Prepare, Publish, Promote
	if plain.writes != want {
		t.Fatalf("%d writes, want %d", plain.writes, want)
	}
	for cut := range calls {
		w, n := newWorld(t, 1, newFakeClock()), 0
		w.before = func() error {
			if n++; n == cut+1 {
				return errCrash
			}
			return nil
		}
		live(w)
		if w.writes != want {
			t.Errorf("cut before call %d: %d writes, want %d", cut, w.writes, want)
		}
	}
	for cut := range want {
		w, n := newWorld(t, 1, newFakeClock()), 0
		w.after = func() error {
			if n++; n == cut+1 {
				return errCrash
			}
			return nil
		}
		live(w)
		if w.writes != want {
			t.Errorf("cut after write %d: %d writes, want %d", cut, w.writes, want)
		}
	}
}

// TestNoAPIServerEverRefuses plays some hundred days: two replicas that die, run into each other
// between any two calls, and lose their clients' answers; API servers that are late.
func TestNoAPIServerEverRefuses(t *testing.T) {
	const lag = 4 * time.Minute
	rapid.Check(t, func(t *rapid.T) {
		c := newFakeClock()
		w := newWorld(t, 2, c)
		ctx := context.Background()
		nested := false
		w.before = func() error {
			if nested {
				return nil
			}
			switch rapid.IntRange(0, 19).Draw(t, "event") {
			case 0:
				return errCrash
			case 1, 2, 3: // the other one comes in between, and this one is slow
				nested = true
				defer func() { nested = false }()
				for range 3 {
					if _, err := w.replicas[1].Pass(ctx); err != nil && !apierrors.IsConflict(err) {
						t.Fatalf("Pass: %v", err)
					}
				}
				c.Step(rapid.SampledFrom([]time.Duration{0, 6 * time.Minute}).Draw(t, "slow"))
			}
			return nil
		}
		w.after = func() error {
			w.trusted(lag)
			if !nested && rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
				return errCrash
			}
			return nil
		}
		renewed := 0
		for range 12 {
			c.Step(rapid.SampledFrom([]time.Duration{20 * time.Second, time.Minute, 25 * 24 * time.Hour}).Draw(t, "time"))
			seen := len(w.history)
			for _, i := range rapid.Permutation([]int{0, 1}).Draw(t, "order") {
				w.settle(ctx, i)
			}
			w.trusted(lag)
			renewed += len(w.history) - seen
			for i, r := range w.replicas {
				if err := r.Ready(nil); err != nil {
					t.Fatalf("replica %d: %v", i, err)
				}
			}
		}
		if days := c.Since(time.Unix(1e9, 0)).Hours() / 24; days > 130 && renewed < 2 {
			t.Fatalf("%d bundles in %.0f days", renewed, days)
		}
	})
}

func TestMissingObjectsAreNamed(t *testing.T) {
	for name, remove := range map[string]func(*world){
		"certificate":   func(w *world) { w.secret = nil },
		"configuration": func(w *world) { w.configuration = nil },
	} {
		w := newWorld(t, 1, newFakeClock())
		remove(w)
		if _, err := w.replicas[0].Pass(t.Context()); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("without the %s: %v", name, err)
		}
	}
}

// TestStart runs the loop, in a bubble with a clock of its own.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, clock.RealClock{})
		failures := 3
		w.before = func() error {
			if failures--; failures >= 0 {
				return errors.New("the API server is away")
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.replicas[0].Start(ctx) }()
		synctest.Wait()
		if err := w.replicas[0].Ready(nil); err == nil || !strings.Contains(err.Error(), "the API server is away") {
			t.Errorf("readiness says %v, and not why", err)
		}
		time.Sleep(7 * time.Second)
		if err := w.replicas[0].Ready(nil); err != nil {
			t.Errorf("not ready after the API server came back: %v", err)
		}
		w.mu.Lock()
		w.configuration.Webhooks[0].ClientConfig.CABundle = nil // by an operator who applies a manifest anew
		w.mu.Unlock()
		time.Sleep(time.Minute)
		w.mu.Lock()
		bundle := w.configuration.Webhooks[0].ClientConfig.CABundle
		w.mu.Unlock()
		if len(bundle) == 0 {
			t.Error("the bundle is not put back")
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
}
