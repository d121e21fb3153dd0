//go:build lab

package deploy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/admission"
	"pitstop.dev/coordinator/admission/certificate"
	"pitstop.dev/test/lab"
	"pitstop.dev/test/lab/await"
)

const configuration = "pitstop-modelservings"

// A hook is the coordinator's webhook in this process, with a certificate that it made with the
// coordinator's own rights. There is no network of Services here, so it is called at an address.
type hook struct {
	server *http.Server
	cancel context.CancelFunc
	ended  chan error
}

func startWebhook(ctx context.Context) (*hook, error) {
	access, err := plane.ServiceAccount(ctx, lab.Account{Namespace: system, Name: "pitstop-coordinator"})
	if err != nil {
		return nil, err
	}
	if plane.coordinator, err = clientFor(access); err != nil {
		return nil, err
	}
	rotator, err := rotatorFor(access)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(admission.Path, admission.Handler(scheme))
	h := &hook{server: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, ended: make(chan error, 2)}
	ctx, h.cancel = context.WithCancel(ctx)
	go func() { h.ended <- rotator.Start(ctx) }()
	go func() {
		h.ended <- h.server.Serve(tls.NewListener(listener, &tls.Config{GetCertificate: rotator.GetCertificate, MinVersion: tls.VersionTLS12}))
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	plane.webhook = "https://localhost:" + port + admission.Path
	err = await.Until(ctx, "certificate", 30*time.Second, func(context.Context) error { return rotator.Ready(nil) })
	if err == nil {
		err = callAt(ctx, plane.webhook)
	}
	if err == nil {
		err = asked(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func rotatorFor(access *rest.Config) (*certificate.Rotator, error) {
	c, err := ctrlclient.New(access, ctrlclient.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, err
	}
	return certificate.New(certificate.Config{
		Reader: c, Writer: c, Clock: clock.RealClock{}, DNSNames: []string{"localhost"},
		Namespace: system, Secret: "pitstop-webhook", Configuration: configuration,
	})
}

func (h *hook) close() error {
	h.cancel()
	err := errors.Join(h.server.Close(), <-h.ended, <-h.ended)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// callAt makes the API server call the webhook at an address instead of a Service, in the name of
// whoever applied deploy/base: to apply it again is to take that back.
func callAt(ctx context.Context, url string) error {
	c, err := plane.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, configuration, metav1.GetOptions{})
	if err != nil {
		return err
	}
	hook := c.Webhooks[0]
	hook.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url}
	data, err := json.Marshal(&admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: c.Labels}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook},
	})
	if err != nil {
		return err
	}
	if out, err := kubectl(ctx, bytes.NewReader(data), "apply", "--server-side", "-f", "-"); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// asked waits until the API server calls the webhook: it learns of its configuration by a watch.
func asked(ctx context.Context) error {
	return await.Until(ctx, "webhook", 30*time.Second, func(ctx context.Context) error {
		_, err := plane.admin.serving(ctx, func(ms *v1alpha1.ModelServing) { ms.Spec.Template.Roles[0].EntryTemplate.Spec.Containers[0].Image = "" })
		if err == nil || !strings.Contains(err.Error(), "needs an image") {
			return errors.Join(errors.New("not asked"), err)
		}
		return nil
	})
}

func TestTheWebhookIsAskedAboutNewAndChangedSpecs(t *testing.T) {
	ctx := t.Context()
	ms := must(plane.admin.serving(ctx, nil))(t)
	change := func(change func(*v1alpha1.ModelServing)) error { return plane.admin.change(ctx, ms, "", change) }
	denied(t, change(func(ms *v1alpha1.ModelServing) { ms.Spec.Paused = true }), "")
	denied(t, change(func(ms *v1alpha1.ModelServing) {
		ms.Spec.Template.Roles[0].EntryTemplate.Spec.Containers[0].Image = "a b"
	}), `spec.template.roles[0].entryTemplate.spec.containers[0].image: Invalid value: "a b"`)

	ledger := func(s *v1alpha1.ModelServing) { s.Status.Updating = []string{ms.Name + "-0"} }
	denied(t, plane.coordinator.change(ctx, ms, "status", ledger), "")
	byRole := func(ms *v1alpha1.ModelServing) { ms.Spec.RolloutStrategy.Type = v1alpha1.RoleRollingUpdate }
	denied(t, change(byRole), "ServingGroupRollingUpdate cannot become RoleRollingUpdate while units are in update")
	denied(t, plane.coordinator.change(ctx, ms, "status", func(s *v1alpha1.ModelServing) { s.Status.Updating = nil }), "")
	denied(t, change(byRole), "")
}

// TestWithoutTheWebhook takes the webhook away: specs cannot change, everything else can.
func TestWithoutTheWebhook(t *testing.T) {
	ctx := t.Context()
	ms := must(plane.admin.serving(ctx, nil))(t)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if err := errors.Join(callAt(ctx, plane.webhook), asked(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err := callAt(ctx, "https://localhost:1/"); err != nil {
		t.Fatal(err)
	}
	pause := func(ms *v1alpha1.ModelServing) { ms.Spec.Paused = !ms.Spec.Paused }
	err := await.Until(ctx, "webhook away", 30*time.Second, func(ctx context.Context) error {
		if err := plane.admin.change(ctx, ms, "", pause); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return errors.Join(errors.New("the change of a spec passes"), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.admin.serving(ctx, nil); err == nil {
		t.Error("a new ModelServing passes")
	}
	for what, try := range map[string]func() error{
		"scale": func() error {
			return plane.admin.orders.Patch(types.MergePatchType).Namespace(apps).Resource("modelservings").Name(ms.Name).SubResource("scale").
				Body([]byte(`{"spec":{"replicas":7}}`)).Do(ctx).Error()
		},
		"another number of replicas": func() error {
			return plane.admin.change(ctx, ms, "", func(ms *v1alpha1.ModelServing) { ms.Spec.Replicas = new(int32(3)) })
		},
		"metadata": func() error {
			return plane.admin.change(ctx, ms, "", func(ms *v1alpha1.ModelServing) {
				ms.Finalizers, ms.Labels = []string{"example.com/f"}, map[string]string{"a": "b"}
			})
		},
		"a report": func() error {
			return plane.coordinator.change(ctx, ms, "status", func(ms *v1alpha1.ModelServing) { ms.Status.Replicas = 3 })
		},
	} {
		if err := try(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	remove := func() error {
		return plane.admin.orders.Delete().Namespace(apps).Resource("modelservings").Name(ms.Name).Do(ctx).Error()
	}
	if err := remove(); err != nil {
		t.Errorf("deletion: %v", err)
	}
	drop := func(ms *v1alpha1.ModelServing) { ms.Finalizers = nil }
	if err := plane.admin.change(ctx, ms, "", drop); err != nil {
		t.Errorf("the finalizer of a deleted one: %v", err)
	}
}

// TestApplyingAgainKeepsTheCertificate: an upgrade of Pitstop must not close the webhook's door.
func TestApplyingAgainKeepsTheCertificate(t *testing.T) {
	ctx := t.Context()
	state := func() (*admissionregistrationv1.ValidatingWebhookConfiguration, map[string][]byte) {
		c := must(plane.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, configuration, metav1.GetOptions{}))(t)
		return c, must(plane.admin.CoreV1().Secrets(system).Get(ctx, "pitstop-webhook", metav1.GetOptions{}))(t).Data
	}
	before, secret := state()
	if len(secret) == 0 || len(before.Webhooks[0].ClientConfig.CABundle) == 0 {
		t.Fatalf("no certificate: %v, %+v", secret, before.Webhooks[0].ClientConfig)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if err := errors.Join(callAt(ctx, plane.webhook), asked(ctx)); err != nil {
			t.Error(err)
		}
	})
	if out, err := kubectl(ctx, nil, "apply", "--server-side", "-k", "base"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after, again := state()
	if after.Webhooks[0].ClientConfig.Service == nil {
		t.Error("the Service is not put back")
	}
	if string(after.Webhooks[0].ClientConfig.CABundle) != string(before.Webhooks[0].ClientConfig.CABundle) {
		t.Error("the bundle is gone")
	}
	if fmt.Sprint(again) != fmt.Sprint(secret) {
		t.Error("the certificate is gone")
	}
}

// TestTheCoordinatorReadsNoOtherSecret, and cannot make any.
func TestTheCoordinatorReadsNoOtherSecret(t *testing.T) {
	ctx := t.Context()
	secrets := plane.coordinator.CoreV1().Secrets(system)
	_, err := secrets.List(ctx, metav1.ListOptions{})
	denied(t, err, "cannot list")
	_, err = secrets.Get(ctx, "other", metav1.GetOptions{})
	denied(t, err, "cannot get")
	_, err = plane.coordinator.CoreV1().Secrets(apps).Get(ctx, "pitstop-webhook", metav1.GetOptions{})
	denied(t, err, "cannot get")
	agent := must(agentOn(ctx, node1))(t)
	_, err = agent.CoreV1().Secrets(system).Get(ctx, "pitstop-webhook", metav1.GetOptions{})
	denied(t, err, "cannot get")
}
