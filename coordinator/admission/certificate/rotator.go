// Package certificate makes the serving certificate of a webhook and renews it, without a gap and
// without anything else on the cluster.
//
// A Secret holds the certificate and, while it is being renewed, its successor; the webhook's
// configuration holds the authorities that API servers are to trust. All replicas do the same
// work: every write is bound to the resourceVersion that it follows from, so one of them wins and
// the others go on from there. A certificate is served once its authority is in the configuration,
// and the old authority stays there until long after the last replica has changed over.
package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// validity is that of a certificate. Its successor is made when a third of it is left.
	validity = 90 * 24 * time.Hour
	// propagation is how long API servers may take to learn of a configuration, which they watch.
	propagation = 5 * time.Minute
	// poll bounds how late a replica learns of what another one wrote.
	poll = time.Minute
	// retry is how soon a pass is repeated that failed, or that another replica was faster in.
	retry = 2 * time.Second
)

// A Config says what a Rotator works on and with. All fields are needed but Metrics.
type Config struct {
	// Reader reads live. It gets the Secret and the configuration and nothing else.
	Reader client.Reader
	// Writer updates them.
	Writer client.Writer
	Clock  clock.WithTicker
	// Metrics gets the gauge of the time at which the served certificate ends.
	Metrics prometheus.Registerer
	// Namespace and Secret name the Secret, which exists and may be empty.
	Namespace, Secret string
	// Configuration names the ValidatingWebhookConfiguration, which exists.
	Configuration string
	// DNSNames are those under which API servers call the webhook.
	DNSNames []string
}

// A Rotator keeps one certificate. Its methods may be called from several goroutines.
type Rotator struct {
	config Config
	rules  Rules
	ends   prometheus.Gauge

	mu      sync.Mutex
	served  *Pair
	err     error // of the last pass
	bundles [][]byte
	since   time.Time // since when bundles are what they are
}

// New returns a Rotator that serves nothing until Start or Pass has run. It returns an error if
// the gauge is registered already.
func New(c Config) (*Rotator, error) {
	r := &Rotator{
		config: c, rules: Rules{DNSNames: c.DNSNames, Propagation: propagation}, ends: newEnds(),
		err: errors.New("not read yet"),
	}
	if c.Metrics == nil {
		return r, nil
	}
	if err := c.Metrics.Register(r.ends); err != nil {
		return nil, fmt.Errorf("metric of the webhook's certificate: %w", err)
	}
	return r, nil
}

// NeedLeaderElection is false: every replica serves.
func (r *Rotator) NeedLeaderElection() bool { return false }

// Start keeps the certificate until ctx ends.
func (r *Rotator) Start(ctx context.Context) error {
	timer := r.config.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
			timer.Reset(r.turn(ctx))
		}
	}
}

// turn makes one pass, and returns when the next one is due. An error is logged when it comes up,
// not at each try.
func (r *Rotator) turn(ctx context.Context) time.Duration {
	wait, err := r.Pass(ctx)
	if apierrors.IsConflict(err) { // another replica was faster
		return retry
	}
	r.mu.Lock()
	known := r.err
	r.err = err
	r.mu.Unlock()
	if err == nil {
		return wait
	}
	if known == nil || known.Error() != err.Error() {
		logr.FromContextOrDiscard(ctx).Error(err, "the webhook's certificate cannot be kept")
	}
	return retry
}

// Pass makes at most one write. It returns when it is to be called again.
func (r *Rotator) Pass(ctx context.Context) (time.Duration, error) {
	// The order matters: a state that is older than the configuration could take from it an
	// authority that another replica has just published.
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := r.config.Reader.Get(ctx, types.NamespacedName{Name: r.config.Configuration}, &configuration); err != nil {
		return 0, fmt.Errorf("read the webhook's configuration: %w", err)
	}
	var secret corev1.Secret
	if err := r.config.Reader.Get(ctx, types.NamespacedName{Namespace: r.config.Namespace, Name: r.config.Secret}, &secret); err != nil {
		return 0, fmt.Errorf("read the webhook's certificate: %w", err)
	}
	now := r.config.Clock.Now()
	o := Observation{State: decodeState(secret.Data), Bundles: bundlesOf(&configuration)}
	o.Published = r.seen(o.Bundles, now)
	step := Next(o, r.rules, now)
	switch step.Action {
	case Wait:
		r.serve(o.State.Current)
		return min(max(step.Until.Sub(now), 0), poll), nil
	case Publish:
		for i := range configuration.Webhooks {
			configuration.Webhooks[i].ClientConfig.CABundle = o.State.bundle()
		}
		return 0, r.update(ctx, step.Action, &configuration)
	case Replace, Prepare, Promote:
		return 0, r.store(ctx, &secret, o.State, step.Action)
	}
	return 0, fmt.Errorf("unknown action %q", step.Action)
}

// store writes the state after a into the Secret.
func (r *Rotator) store(ctx context.Context, secret *corev1.Secret, s State, a Action) error {
	var fresh *Pair
	if a == Replace || a == Prepare {
		var err error
		if fresh, err = newPair(r.config.DNSNames, r.config.Clock.Now(), validity); err != nil {
			return err
		}
	}
	secret.Data = s.apply(a, fresh).encode()
	return r.update(ctx, a, secret)
}

// update is bound to the resourceVersion that was read.
func (r *Rotator) update(ctx context.Context, a Action, object client.Object) error {
	if err := r.config.Writer.Update(ctx, object); err != nil {
		return fmt.Errorf("renew the webhook's certificate: %s: %w", a, err)
	}
	logr.FromContextOrDiscard(ctx).Info("renewing the webhook's certificate", "action", a)
	return nil
}

func bundlesOf(c *admissionregistrationv1.ValidatingWebhookConfiguration) [][]byte {
	var out [][]byte
	for i := range c.Webhooks {
		out = append(out, c.Webhooks[i].ClientConfig.CABundle)
	}
	return out
}

// seen notes what the configuration holds, and returns since when it has.
func (r *Rotator) seen(bundles [][]byte, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since.IsZero() || !slices.EqualFunc(r.bundles, bundles, slices.Equal) {
		r.bundles, r.since = bundles, now
	}
	return r.since
}

func (r *Rotator) serve(p *Pair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.served = p
	r.ends.Set(float64(p.leaf.NotAfter.Unix()))
}

// GetCertificate is for a TLS configuration. It returns an error before the first certificate.
func (r *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.served == nil {
		return nil, errors.New("the webhook has no certificate yet")
	}
	return r.served.serving, nil
}

// Ready is a health check: it returns an error while no usable certificate is served.
func (r *Rotator) Ready(*http.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.served == nil:
		return errors.Join(errors.New("the webhook has no certificate yet"), r.err)
	case !r.served.usable(r.config.DNSNames, r.config.Clock.Now()):
		return errors.Join(errors.New("the webhook's certificate has ended"), r.err)
	}
	return nil
}
