package proxy

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait bounds every wait of these tests.
const wait = 20 * time.Second

// A world is an API server with Pods, their engines, and the routers that watch.
type world struct {
	t *testing.T

	mu      sync.Mutex
	pods    map[string]*corev1.Pod
	routers []*Router
	version int
	ends    map[string]chan struct{} // by stream: closed, its engine ends it
	fails   int                      // so many answers are not taken
	held    chan struct{}            // answers wait for it; nil: they do not
	tried   chan string              // tokens, as answers come in
	marks   chan string              // tokens, as they are written
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, pods: map[string]*corev1.Pod{}, ends: map[string]chan struct{}{}, tried: make(chan string, 100), marks: make(chan string, 100)}
}

// write changes a Pod and tells the routers.
func (w *world) write(name string, change func(*corev1.Pod)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := w.pods[name].DeepCopy()
	change(pod)
	w.version++
	pod.ResourceVersion = strconv.Itoa(w.version)
	w.pods[name] = pod
	for _, r := range w.routers {
		r.Set(pod)
	}
}

func (w *world) pod(name string) *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[name]
}

// Drained is the API server's side of an answer.
func (w *world) Drained(ctx context.Context, pod *corev1.Pod, token string) error {
	w.tried <- token
	w.mu.Lock()
	held := w.held
	w.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	now := w.pods[pod.Name]
	failed := w.fails > 0
	w.fails--
	w.mu.Unlock()
	switch {
	case failed:
		return errors.New("the API server is away")
	case now.UID != pod.UID || now.ResourceVersion != pod.ResourceVersion:
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New("it is another one"))
	}
	w.write(pod.Name, func(p *corev1.Pod) { p.Annotations[v1alpha1.Drained] = token })
	w.marks <- token
	return nil
}

// An engine answers every request with a stream of two parts; the second comes on a word.
type engine struct {
	*httptest.Server
	w    *world
	name string
	cut  chan struct{} // closed: streams break off
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.w.mu.Lock()
	end := e.w.ends[r.URL.Query().Get("stream")]
	e.w.mu.Unlock()
	fmt.Fprintln(w, e.name)
	_ = http.NewResponseController(w).Flush()
	select {
	case <-end:
		fmt.Fprintln(w, "done")
	case <-e.cut:
		panic(http.ErrAbortHandler)
	case <-r.Context().Done():
	}
}

// add makes a ready Pod with its engine.
func (w *world) add(name string) *engine {
	w.t.Helper()
	e := &engine{w: w, name: name, cut: make(chan struct{})}
	e.Server = httptest.NewServer(e)
	w.t.Cleanup(e.Close)
	host, port, err := net.SplitHostPort(e.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.pods[name] = readyPod(name)
	w.mu.Unlock()
	w.write(name, func(p *corev1.Pod) {
		p.Status.PodIP = host
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(n)}}}}
	})
	return e
}

func readyPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), ResourceVersion: "1", Annotations: map[string]string{}, Labels: map[string]string{}},
		Status: corev1.PodStatus{
			PodIP:      "198.18.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

func ask(token string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations[v1alpha1.Draining] = token
		delete(p.Annotations, v1alpha1.Drained)
	}
}

func open(p *corev1.Pod) {
	delete(p.Annotations, v1alpha1.Draining)
	delete(p.Annotations, v1alpha1.Drained)
}

// A process is one start of the router.
type process struct {
	*Router
	w    *world
	url  string
	term context.CancelFunc
	over chan error
}

func (w *world) start(c Config) *process {
	w.t.Helper()
	c.Retry = cmp.Or(c.Retry, time.Hour) // so that no second look makes good what the first one missed
	r := New(c, w)
	l, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, term := context.WithCancel(w.t.Context())
	p := &process{Router: r, w: w, url: "http://" + l.Addr().String(), term: term, over: make(chan error, 1)}
	listed := make(chan struct{})
	go func() {
		p.over <- r.Run(ctx, l, func(ctx context.Context, r *Router) error {
			w.mu.Lock()
			for _, pod := range w.pods {
				r.Set(pod)
			}
			w.routers = append(w.routers, r)
			w.mu.Unlock()
			close(listed)
			<-ctx.Done()
			return nil
		})
	}()
	<-listed
	w.t.Cleanup(func() { p.stop() })
	return p
}

// stop ends the router, and waits for its end.
func (p *process) stop() {
	p.term()
	select {
	case err := <-p.over:
		if err != nil {
			p.w.t.Errorf("router: %v", err)
		}
		p.over <- nil
	case <-time.After(wait):
		p.w.t.Error("the router does not end")
	}
}

// A stream is one request under way.
type stream struct {
	t      *testing.T
	body   io.ReadCloser
	lines  *bufio.Reader
	engine string
	end    chan struct{}
}

// open sends a request and reads the first part of its answer.
func (p *process) open() *stream {
	p.w.t.Helper()
	end := make(chan struct{})
	p.w.mu.Lock()
	id := strconv.Itoa(len(p.w.ends))
	p.w.ends[id] = end
	p.w.mu.Unlock()
	req, err := http.NewRequestWithContext(p.w.t.Context(), http.MethodPost, p.url+"/v1/completions?stream="+id, http.NoBody)
	if err != nil {
		p.w.t.Fatal(err)
	}
	client := &http.Client{Timeout: wait, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		p.w.t.Fatal(err)
	}
	s := &stream{t: p.w.t, body: resp.Body, lines: bufio.NewReader(resp.Body), end: end}
	s.engine = s.read()
	p.w.t.Cleanup(func() { _ = resp.Body.Close() })
	return s
}

// draining starts a router, opens a stream to the Pod, which is the only one, and asks for its drain.
func (e *engine) draining() (*process, *stream) {
	e.w.t.Helper()
	r := e.w.start(Config{})
	s := r.open()
	e.w.write(e.name, ask("ipu/1"))
	return r, s
}

// read returns the next part, or what became of the stream.
func (s *stream) read() string {
	line, err := s.lines.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return line[:len(line)-1]
}

func (s *stream) finish() {
	s.t.Helper()
	close(s.end)
	if got := s.read(); got != "done" {
		s.t.Errorf("the stream ends with %q", got)
	}
}

// next returns the next token of a channel.
func (w *world) next(from chan string) string {
	w.t.Helper()
	select {
	case token := <-from:
		return token
	case <-time.After(wait):
		w.t.Fatal("the router does not answer")
		return ""
	}
}

// silent reports an answer that should not have come. What a router owes is owed at once, so it asks
// the table and not the clock.
func (w *world) silent(r *Router) {
	w.t.Helper()
	if owed := r.table.due(); len(owed) > 0 || len(w.marks) > 0 {
		w.t.Errorf("the router answers: owes %v, %d written", owed, len(w.marks))
	}
}
