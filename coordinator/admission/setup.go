package admission

import (
	"crypto/tls"
	"errors"
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"pitstop.dev/coordinator/admission/certificate"
)

// The objects of deploy/base that the webhook needs: they are there before the coordinator, which
// may not create any.
const (
	configurationName = "pitstop-modelservings"
	secretName        = "pitstop-webhook"
	serviceName       = "pitstop-coordinator"
)

// A Config says where the webhook is served.
type Config struct {
	// Namespace is Pitstop's own.
	Namespace string
	// Port is that of the webhook's server; 0 is 9443.
	Port int
}

// Setup adds the webhook's server and the rotation of its certificate to mgr. Both run on every
// replica, leader or not, and /readyz fails until the certificate is served.
func Setup(mgr ctrl.Manager, c Config) error {
	rotator, err := certificate.New(certificate.Config{
		Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Clock: clock.RealClock{}, Metrics: metrics.Registry,
		Namespace: c.Namespace, Secret: secretName, Configuration: configurationName,
		DNSNames: []string{fmt.Sprintf("%s.%s.svc", serviceName, c.Namespace)},
	})
	if err != nil {
		return err
	}
	server := Server(c.Port, rotator)
	server.Register(Path, Handler(mgr.GetScheme()))
	if err := errors.Join(mgr.Add(server), mgr.Add(rotator)); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	if err := errors.Join(
		mgr.AddReadyzCheck("webhook-certificate", rotator.Ready),
		mgr.AddReadyzCheck("webhook", server.StartedChecker()),
	); err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}

// Server serves webhooks with the certificate that r has at the moment.
func Server(port int, r *certificate.Rotator) webhook.Server {
	return webhook.NewServer(webhook.Options{
		Port: port,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS12
			c.GetCertificate = r.GetCertificate
		}},
	})
}
