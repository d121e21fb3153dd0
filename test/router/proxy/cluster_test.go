package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"pitstop.dev/api/v1alpha1"
)

// clusterAt is the Cluster of an API server.
func clusterAt(t *testing.T, handler http.HandlerFunc) Cluster {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := typedcorev1.NewForConfig(&rest.Config{Host: s.URL, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return Cluster{Client: client, Namespace: "default", Selector: labels.SelectorFromSet(labels.Set{"app": "llm"})}
}

func reply(w http.ResponseWriter, status int, obj any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(obj) // a client that has gone needs no answer
}

func TestTheAnswerIsBoundToItsReading(t *testing.T) {
	var got []string
	c := clusterAt(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = []string{r.Method, r.URL.Path, r.Header.Get("Content-Type"), string(body)}
		reply(w, http.StatusOK, &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}})
	})
	pod := readyPod("a")
	pod.ResourceVersion = "7"
	if err := c.Drained(t.Context(), pod, "ipu/1"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		http.MethodPatch, "/api/v1/namespaces/default/pods/a/status", "application/merge-patch+json",
		`{"metadata":{"annotations":{"pitstop.dev/drained":"ipu/1"},"resourceVersion":"7","uid":"uid-a"}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestAConflictIsToldAsOne(t *testing.T) {
	c := clusterAt(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusConflict, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Code: http.StatusConflict})
	})
	if err := c.Drained(t.Context(), readyPod("a"), "ipu/1"); !apierrors.IsConflict(err) {
		t.Errorf("error %v", err)
	}
}

// listed is a server that has one Pod, and tells of the events.
func listed(t *testing.T, events chan metav1.WatchEvent) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if got := q.Get("labelSelector"); got != "app=llm" {
			t.Errorf("selector %q", got)
		}
		list := &corev1.PodList{
			TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
			Items: []corev1.Pod{*readyPod("a")},
		}
		switch {
		case q.Get("sendInitialEvents") != "": // a server that lists the old way
			reply(w, http.StatusUnprocessableEntity, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
			return
		case q.Get("watch") == "":
			reply(w, http.StatusOK, list)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case e := <-events:
				_ = json.NewEncoder(w).Encode(e)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

// event is one of the watch, of the Pod a after a change.
func event(t *testing.T, kind string, change func(*corev1.Pod)) metav1.WatchEvent {
	t.Helper()
	pod := readyPod("a")
	pod.TypeMeta, pod.ResourceVersion = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, "2"
	change(pod)
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	e := metav1.WatchEvent{Type: kind}
	e.Object.Raw = data
	return e
}

func TestWatch(t *testing.T) {
	events := make(chan metav1.WatchEvent, 10)
	c := clusterAt(t, listed(t, events))
	r := New(Config{}, newWorld(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- c.Watch(ctx, r) }()
	told := func() {
		t.Helper()
		select {
		case <-r.news:
		case <-time.After(wait):
			t.Fatal("the router is not told")
		}
	}
	told() // the list
	if owed := r.table.due(); len(owed) > 0 {
		t.Errorf("owes %v", owed)
	}
	events <- event(t, "MODIFIED", ask("ipu/1"))
	told()
	if owed := r.table.due(); len(owed) != 1 || owed[0].token != "ipu/1" || owed[0].pod.Annotations[v1alpha1.Draining] != "ipu/1" {
		t.Errorf("owes %v", owed)
	}
	events <- event(t, "DELETED", ask("ipu/1"))
	events <- event(t, "ADDED", func(p *corev1.Pod) { p.Name, p.UID = "b", "uid-b" })
	told()
	if pod := r.table.choose(); pod == nil || pod.Name != "b" || len(r.table.due()) > 0 {
		t.Errorf("%v is chosen, owes %v", pod, r.table.due())
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
