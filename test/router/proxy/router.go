// Package proxy is the reference router: it sends streaming requests to the ready Pods of a selector,
// and speaks the drain protocol of docs/router.md with the agents.
//
// A Pod that is asked to drain gets no new request from that moment on; when the last one to it has
// ended, the router answers. All that it remembers is the number of requests that run in each
// Pod: a router that was restarted has none, and answers again what is not answered.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// A Marker writes the router's answer on a Pod, with the UID and the resourceVersion of the reading
// that it was decided on as preconditions. It returns a conflict, as of the API server, if the
// Pod is another one by now.
type Marker interface {
	Drained(ctx context.Context, pod *corev1.Pod, token string) error
}

// A Source tells the router of Pods, by Set and Remove, until ctx ends.
type Source func(ctx context.Context, r *Router) error

// A Config says how the router works.
type Config struct {
	Port  int              // of engines whose Pods have no container port "http"; 0: 8000
	Grace time.Duration    // bound on the wait for running requests at the end; 0: 30s
	Retry time.Duration    // until an answer is written again that could not be; 0: 1s
	Clock clock.WithTicker // nil: the real one
}

// A Router is an http.Handler. Its methods may be called from several goroutines.
type Router struct {
	config    Config
	marker    Marker
	table     *table
	proxy     *httputil.ReverseProxy
	transport *http.Transport
	news      chan struct{}
}

// New returns a router without Pods. It answers nobody until Run is called.
func New(c Config, m Marker) *Router {
	c.Port = cmp.Or(c.Port, 8000)
	c.Grace = cmp.Or(c.Grace, 30*time.Second)
	c.Retry = cmp.Or(c.Retry, time.Second)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	r := &Router{config: c, marker: m, table: newTable(), news: make(chan struct{}, 1)}
	r.transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	r.proxy = &httputil.ReverseProxy{
		Rewrite:       rewrite,
		Transport:     r.transport,
		FlushInterval: -1, // each chunk of a stream at once
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	return r
}

// target is the key of the engine's URL in the context of a request.
type target struct{}

func rewrite(p *httputil.ProxyRequest) {
	if to, ok := p.In.Context().Value(target{}).(*url.URL); ok {
		p.SetURL(to)
		p.SetXForwarded()
	}
}

// Set takes up a Pod as it is now.
func (r *Router) Set(pod *corev1.Pod) {
	r.table.set(pod)
	r.wake()
}

// Remove forgets a Pod that is gone. Requests to it are not cut.
func (r *Router) Remove(pod types.UID) { r.table.remove(pod) }

// InFlight is how many requests of this router run in the Pod.
func (r *Router) InFlight(pod types.UID) int { return r.table.inFlight(pod) }

// ServeHTTP sends the request to the Pod with the fewest. It is counted until its answer has been
// passed on whole, or is given up.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	pod := r.table.choose()
	if pod == nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "no Pod is ready", http.StatusServiceUnavailable)
		return
	}
	defer func() { // also where the proxy panics, as it does when a stream breaks off
		if r.table.done(pod.UID) {
			r.wake()
		}
	}()
	to := &url.URL{Scheme: "http", Host: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(r.port(pod)))}
	r.proxy.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), target{}, to)))
}

func (r *Router) port(pod *corev1.Pod) int {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == "http" {
				return int(p.ContainerPort)
			}
		}
	}
	return r.config.Port
}

func (r *Router) wake() {
	select {
	case r.news <- struct{}{}:
	default: // the next look sees this as well
	}
}

// Run serves on l and answers drains until ctx ends. Then it takes no new requests, and goes on
// answering until its last request has ended or its grace is over: as long as it lives it is the
// one who knows of them.
func (r *Router) Run(ctx context.Context, l net.Listener, source Source) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, life := errgroup.WithContext(life)
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	g.Go(func() error { return source(life, r) })
	g.Go(func() error { return r.answer(life) })
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		defer end()
		select {
		case <-ctx.Done():
		case <-life.Done():
		}
		err := r.finish(life, server)
		r.say(life)
		return err
	})
	err := g.Wait()
	r.transport.CloseIdleConnections()
	return err
}

func (r *Router) finish(ctx context.Context, server *http.Server) error {
	grace, cancel := context.WithTimeout(ctx, r.config.Grace)
	defer cancel()
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = server.Close() // what is left is cut
	}
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// answer writes what is owed on every news, and again after a while where that did not work.
func (r *Router) answer(ctx context.Context) error {
	retry := r.config.Clock.NewTicker(r.config.Retry)
	defer retry.Stop()
	for {
		r.say(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-r.news:
		case <-retry.C():
		}
	}
}

// say writes every answer that is owed now.
func (r *Router) say(ctx context.Context) {
	for _, a := range r.table.due() {
		// A connection that waits for its next request would be dead when the Pod is back.
		r.transport.CloseIdleConnections()
		err := r.marker.Drained(ctx, a.pod, a.token)
		if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			r.table.said(a)
			continue
		}
		logr.FromContextOrDiscard(ctx).Info("answer is not written", "pod", a.pod.Name, "cause", err.Error())
	}
}
