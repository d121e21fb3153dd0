package readiness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var (
	// ErrNoAddress reports a Pod without an IP address.
	ErrNoAddress = errors.New("pod has no address")

	// ErrNoMetrics reports a page without the metrics of any known engine, or with half of
	// them: the requests are unknown, not none.
	ErrNoMetrics = errors.New("no request metrics")

	// ErrUnmeasured reports an engine that publishes no requests: its Pod names no port for it, the
	// port has no page of metrics, or the page has those of no known engine.
	ErrUnmeasured = errors.New("the engine publishes no requests")

	// ErrTooLarge reports a page beyond Config.MaxBytes.
	ErrTooLarge = errors.New("metrics page too large")

	// ErrPage reports a page whose lines about requests are not in Prometheus' text format.
	ErrPage = errors.New("not a page of metrics")

	// ErrValue reports a metric that is no number of requests.
	ErrValue = errors.New("not a number of requests")
)

// A Config says how to read the metrics of engines.
type Config struct {
	// Engines are known besides vLLM and SGLang.
	Engines []Engine
	// Timeout bounds one scrape. 0: 2 s.
	Timeout time.Duration
	// MaxBytes bounds one page, unpacked. 0: 16 MiB.
	MaxBytes int64
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Timeout < 0 {
		return fmt.Errorf("timeout %s is negative", c.Timeout)
	}
	if c.MaxBytes < 0 {
		return fmt.Errorf("limit of %d bytes is negative", c.MaxBytes)
	}
	for _, e := range c.Engines {
		if err := e.validate(); err != nil {
			return err
		}
	}
	return nil
}

// A Scraper asks engines how many requests they have. It may be used from several goroutines.
type Scraper struct {
	client  *http.Client
	engines []Engine
	limit   int64
}

// NewScraper returns a Scraper for the built-in engines and those of the configuration.
func NewScraper(c Config) (*Scraper, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Scraper{
		client: &http.Client{
			Timeout: cmp.Or(c.Timeout, 2*time.Second),
			// A Pod is reached at its own address or not at all: no proxy. Connections are not
			// kept: an engine may wait for them before it ends.
			Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
			CheckRedirect: sameHost,
		},
		engines: append(builtIn(), c.Engines...),
		limit:   cmp.Or(c.MaxBytes, 16<<20),
	}, nil
}

// Requests returns how many requests the Pod's engine has. Any error means that they are
// unknown: ErrNoPort, ErrNoAddress, ErrNoMetrics, ErrPage, ErrTooLarge, ErrValue, or one of the network;
// ErrUnmeasured besides where they always will be.
func (s *Scraper) Requests(ctx context.Context, pod *corev1.Pod) (Requests, error) {
	url, err := metricsURL(pod)
	if err != nil {
		return Requests{}, err
	}
	r, err := s.scrape(ctx, url)
	if err != nil {
		return Requests{}, fmt.Errorf("scrape %s: %w", url, err)
	}
	return r, nil
}

func metricsURL(pod *corev1.Pod) (string, error) {
	port, err := metricsPort(pod)
	if err != nil {
		return "", err
	}
	if pod.Status.PodIP == "" {
		return "", ErrNoAddress
	}
	return "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))) + "/metrics", nil
}

func (s *Scraper) scrape(ctx context.Context, url string) (Requests, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Requests{}, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	req.Header.Set("User-Agent", "pitstop-agent")
	resp, err := s.client.Do(req)
	if err != nil {
		return Requests{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is left to be done with what was read
	if resp.StatusCode == http.StatusNotFound {
		return Requests{}, fmt.Errorf("%w: status %s", ErrUnmeasured, resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		return Requests{}, fmt.Errorf("status %s", resp.Status)
	}
	return s.read(resp.Body)
}

// sameHost lets a page move within the engine, and nowhere else.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 3 {
		return errors.New("more than 3 redirects")
	}
	if req.URL.Scheme != via[0].URL.Scheme || req.URL.Host != via[0].URL.Host {
		return fmt.Errorf("redirect to another host: %s", req.URL.Host)
	}
	return nil
}
