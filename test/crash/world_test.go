//go:build lab

package crash

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/cri/fake"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/crash/kubelet"
	"pitstop.dev/test/lab"
)

const namespace = "default"

// A world is what all cases share: an API server, a runtime, a kubelet and an idle engine.
type world struct {
	dir     string
	plane   *lab.ControlPlane
	core    kubernetes.Interface
	updates rest.Interface
	fake    *fake.Runtime
	runtime *cri.Client
	orders  cache.SharedIndexInformer
	engine  string // port of /metrics

	mu     sync.Mutex
	serial int
	seen   map[types.UID][]sighting
}

// A sighting is what one version of a Pod says of its update.
type sighting struct {
	Version    string
	Generation int64
	Images     string
	PatchedAt  string
	Hold       string
	Gate       corev1.ConditionStatus
	Ready      corev1.ConditionStatus
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "crash") // short: sockets are in it
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	w := &world{dir: dir, seen: map[types.UID][]sighting{}}
	must(t, os.MkdirAll(filepath.Join(w.kubeletDir(), "pod-resources"), 0o755))
	w.startPlane(t)
	w.startEngine(t)
	w.fake = fake.Start(t, clock.RealClock{})
	w.runtime, err = cri.Dial(w.fake.Endpoint(), cri.Config{})
	must(t, err)
	t.Cleanup(func() { must(t, w.runtime.Close()) })
	w.startKubelet(t)
	return w
}

func (w *world) kubeletDir() string { return filepath.Join(w.dir, "kubelet") }

func (w *world) startPlane(t *testing.T) {
	t.Helper()
	var err error
	w.plane, err = lab.StartControlPlane(t.Context(), lab.Config{StateDir: filepath.Join(w.dir, "plane"), Log: os.Stderr})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		must(t, w.plane.Close(ctx))
	})
	w.core, err = kubernetes.NewForConfig(w.plane.RESTConfig())
	must(t, err)
	w.updates, err = cluster.UpdatesClient(w.plane.RESTConfig())
	must(t, err)
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", "../../deploy/crd"},
		{"wait", "--for=condition=Established", "--timeout=30s", "crd/inplaceupdates.pitstop.dev"},
	} {
		cmd := exec.CommandContext(t.Context(), w.plane.Binary("kubectl"), append([]string{"--kubeconfig", w.plane.KubeconfigPath()}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
	}
}

// startEngine serves the metrics of an engine without requests, for all Pods.
func (w *world) startEngine(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n")
	}))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	must(t, err)
	w.engine = address.Port()
}

// startKubelet runs kubelet and notes every version of every Pod.
func (w *world) startKubelet(t *testing.T) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(w.core, 0)
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.note, UpdateFunc: func(_, obj any) { w.note(obj) },
	})
	must(t, err)
	k, err := kubelet.New(kubelet.Config{
		Client: w.core, Fake: w.fake, Runtime: w.runtime, Dir: w.kubeletDir(), Clock: clock.RealClock{},
	}, pods)
	must(t, err)
	w.orders = cache.NewSharedIndexInformer(
		cache.NewListWatchFromClient(w.updates, "inplaceupdates", namespace, fields.Everything()),
		&v1alpha1.InPlaceUpdate{}, 0, cache.Indexers{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() { pods.RunWithContext(ctx) })
	wg.Go(func() { w.orders.RunWithContext(ctx) })
	wg.Go(func() {
		if err := k.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	if !cache.WaitForCacheSync(t.Context().Done(), pods.HasSynced, w.orders.HasSynced) {
		t.Fatal("caches did not fill")
	}
}

func (w *world) note(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	s := sighting{
		Version: pod.ResourceVersion, Generation: pod.Generation,
		PatchedAt: pod.Annotations[v1alpha1.PatchedAt], Hold: pod.Annotations[v1alpha1.HoldInPlace],
	}
	for _, c := range pod.Spec.Containers {
		s.Images += c.Image + " "
	}
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case v1alpha1.InService:
			s.Gate = c.Status
		case corev1.PodReady:
			s.Ready = c.Status
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[pod.UID] = append(w.seen[pod.UID], s)
}

// sightings are all versions of the Pod that were seen, the oldest first.
func (w *world) sightings(pod types.UID) []sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen[pod])
}

// latest is the newest version seen.
func (w *world) latest(pod types.UID) sighting {
	s := w.sightings(pod)
	if len(s) == 0 {
		return sighting{}
	}
	return s[len(s)-1]
}

// order is the newest version of the order seen; nil if there is none.
func (w *world) order(name string) *v1alpha1.InPlaceUpdate {
	obj, _, _ := w.orders.GetStore().GetByKey(namespace + "/" + name)
	u, _ := obj.(*v1alpha1.InPlaceUpdate)
	return u
}

// next returns a new name.
func (w *world) next() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	return "case" + strconv.Itoa(w.serial)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok, at most for the given time.
func eventually(t *testing.T, limit time.Duration, ok func() bool) bool {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			return ok()
		case <-tick.C:
		}
	}
	return true
}

func uidOnly(pod *corev1.Pod) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
}
