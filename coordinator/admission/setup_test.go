package admission_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/admission"
)

// twoObjects is an API server that has the objects of deploy/base/webhook.yaml and no other path:
// what else the coordinator asks for fails.
type twoObjects struct {
	mu            sync.Mutex
	secret        corev1.Secret
	configuration admissionregistrationv1.ValidatingWebhookConfiguration
}

func (a *twoObjects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var object any
	switch r.URL.Path {
	case "/api/v1/namespaces/pitstop-system/secrets/pitstop-webhook":
		object = &a.secret
	case "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/pitstop-modelservings":
		object = &a.configuration
	default:
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (a *twoObjects) bundle() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.configuration.Webhooks[0].ClientConfig.CABundle
}

// TestSetup starts a manager that is not the leader, and calls its webhook as an API server does:
// by the bundle and the name of the Service.
func TestSetup(t *testing.T) {
	api := &twoObjects{
		secret: corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "pitstop-system", Name: "pitstop-webhook"},
		},
		configuration: admissionregistrationv1.ValidatingWebhookConfiguration{
			TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration"},
			ObjectMeta: metav1.ObjectMeta{Name: "pitstop-modelservings"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "a"}},
		},
	}
	stub := httptest.NewServer(api)
	t.Cleanup(stub.Close)
	health, port := freePort(t), freePort(t)
	mgr := manager(t, stub.URL, health)
	if err := admission.Setup(mgr, admission.Config{Namespace: "pitstop-system", Port: port}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	ready(t, fmt.Sprintf("http://127.0.0.1:%d/readyz", health))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(api.bundle())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "pitstop-coordinator.pitstop-system.svc"}}
	t.Cleanup(transport.CloseIdleConnections)
	answer := sendTo(t, &http.Client{Transport: transport}, fmt.Sprintf("https://127.0.0.1:%d%s", port, admission.Path), creation(t, serving(image(""))))
	if answer.Allowed || !strings.Contains(answer.Result.Message, "needs an image") {
		t.Errorf("answer %+v", answer)
	}
}

func manager(t *testing.T, url string, health int) ctrl.Manager {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), meta.RESTScopeRoot)
	mgr, err := ctrl.NewManager(&rest.Config{Host: url, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, ctrl.Options{
		Scheme:         scheme,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:        server.Options{BindAddress: "0"}, HealthProbeBindAddress: fmt.Sprintf("127.0.0.1:%d", health),
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// freePort is one that nobody listens on at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // nothing was written
	return listener.Addr().(*net.TCPAddr).Port
}

// ready asks until the answer is 200.
func ready(t *testing.T, url string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport}
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-deadline.C:
			t.Fatal("never ready")
		case <-tick.C:
		}
		response, err := client.Get(url)
		if err != nil {
			continue // not listening yet
		}
		code := response.StatusCode
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if code == http.StatusOK {
			return
		}
	}
}
