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
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"pitstop.dev/cri"
	"pitstop.dev/cri/fake"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/crash/kubelet"
	"pitstop.dev/test/lab"
)

const namespace = "default"

// A world is what all cases share: an API server, a runtime, a kubelet and an idle engine.
type world struct {
	*watcher
	dir     string
	plane   *lab.ControlPlane
	core    kubernetes.Interface
	updates rest.Interface
	fake    *fake.Runtime
	runtime *cri.Client
	engine  string // port of /metrics

	mu     sync.Mutex
	serial int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "crash") //nolint:usetesting // short: sockets are in it
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	w := &world{dir: dir}
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

// startKubelet runs kubelet.
func (w *world) startKubelet(t *testing.T) {
	t.Helper()
	pods := informers.NewSharedInformerFactory(w.core, 0).Core().V1().Pods().Informer()
	k, err := kubelet.New(kubelet.Config{
		Client: w.core, Fake: w.fake, Runtime: w.runtime, Dir: w.kubeletDir(), Clock: clock.RealClock{},
	}, pods)
	must(t, err)
	w.watcher, err = newWatcher(w.updates, pods)
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() { w.run(ctx) })
	wg.Go(func() {
		if err := k.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	w.await(t)
}

// next returns a new name.
func (w *world) next() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	return "case" + strconv.Itoa(w.serial)
}

func must(t *testing.T, err error) {
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
