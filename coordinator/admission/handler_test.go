package admission_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/admission"
)

// TestHandler sends reviews over HTTP, as an API server does.
func TestHandler(t *testing.T) {
	deleting := func(ms *v1alpha1.ModelServing) { ms.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)} }
	server := serve(t)
	for name, tt := range map[string]struct {
		operation    admissionv1.Operation
		old, updated *v1alpha1.ModelServing
		want         []string // parts of the refusal
		warnings     int
	}{
		"a good one is created":        {admissionv1.Create, nil, serving(), nil, 0},
		"a bad one is not":             {admissionv1.Create, nil, serving(image("")), []string{`ModelServing.pitstop.dev "llm" is invalid`, "containers[0].image"}, 0},
		"all mistakes are named":       {admissionv1.Create, nil, serving(image(""), named("7b")), []string{"metadata.name", "containers[0].image"}, 0},
		"warnings come along":          {admissionv1.Create, nil, serving(groups("5")), nil, 1},
		"with a refusal too":           {admissionv1.Create, nil, serving(groups("5"), image("")), []string{"containers[0].image"}, 1},
		"the old object is looked at":  {admissionv1.Update, serving(updating("llm-0")), serving(byRole), []string{"spec.rolloutStrategy.type"}, 0},
		"one on its way out may go":    {admissionv1.Update, serving(), serving(deleting, image("")), nil, 0},
		"deletion is never in the way": {admissionv1.Delete, serving(image("")), nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := review(t, server, tt.operation, tt.old, tt.updated)
			message := ""
			if !got.Allowed {
				message = got.Result.Message
				if got.Result.Reason != metav1.StatusReasonInvalid || got.Result.Code != http.StatusUnprocessableEntity {
					t.Errorf("reason %s, code %d", got.Result.Reason, got.Result.Code)
				}
			}
			if got.Allowed != (tt.want == nil) {
				t.Errorf("allowed: %t (%s)", got.Allowed, message)
			}
			for _, w := range tt.want {
				if !strings.Contains(message, w) {
					t.Errorf("refused with %q; want %q", message, w)
				}
			}
			if len(got.Warnings) != tt.warnings {
				t.Errorf("warnings %q, want %d", got.Warnings, tt.warnings)
			}
		})
	}
}

func TestHandlerRefusesWhatItCannotRead(t *testing.T) {
	got := send(t, serve(t), &admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(`{"spec":{"replicas":"many"}}`)},
	})
	if got.Allowed || got.Result.Code != http.StatusBadRequest {
		t.Errorf("response %+v", got)
	}
}

func serve(t *testing.T) *httptest.Server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(admission.Handler(scheme))
	t.Cleanup(server.Close)
	return server
}

func review(t *testing.T, server *httptest.Server, op admissionv1.Operation, old, updated *v1alpha1.ModelServing) *admissionv1.AdmissionResponse {
	t.Helper()
	return send(t, server, &admissionv1.AdmissionRequest{UID: "1", Operation: op, OldObject: raw(t, old), Object: raw(t, updated)})
}

func raw(t *testing.T, ms *v1alpha1.ModelServing) runtime.RawExtension {
	t.Helper()
	if ms == nil {
		return runtime.RawExtension{}
	}
	ms.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ModelServing"))
	data, err := json.Marshal(ms)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: data}
}

func send(t *testing.T, server *httptest.Server, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	return sendTo(t, server.Client(), server.URL, request)
}

// creation is what an API server asks about a new object.
func creation(t *testing.T, ms *v1alpha1.ModelServing) *admissionv1.AdmissionRequest {
	t.Helper()
	return &admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Object: raw(t, ms)}
}

func sendTo(t *testing.T, client *http.Client, url string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end below
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Response == nil {
		t.Fatalf("answer of status %d: %v", response.StatusCode, err)
	}
	return answer.Response
}
