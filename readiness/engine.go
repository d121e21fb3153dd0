package readiness

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// An Engine names the gauges of one kind of engine. The first name of each list is on every
// page of that engine; the others count where they are there. Values are summed over all series
// and names.
//
// Work names counters that grow with every step of the engine. They may be empty. SGLang
// publishes its gauges every 40 steps of decoding, and counts a request as running only after
// its prefill: for seconds its gauges say 0 of a request that is under way.
type Engine struct {
	Name    string // for messages only
	Running []string
	Waiting []string
	Work    []string
}

// builtIn are the engines that need no configuration.
func builtIn() []Engine {
	return []Engine{
		{
			Name:    "vLLM",
			Running: []string{"vllm:num_requests_running"},
			// Swapped requests were counted apart before vLLM's V1 engine.
			Waiting: []string{"vllm:num_requests_waiting", "vllm:num_requests_swapped"},
			Work:    []string{"vllm:prompt_tokens_total", "vllm:generation_tokens_total"},
		},
		{
			Name:    "SGLang",
			Running: []string{"sglang:num_running_reqs"},
			// A disaggregated prefill or decode engine keeps the requests whose KV cache is on
			// its way in queues of their own.
			Waiting: []string{
				"sglang:num_queue_reqs",
				"sglang:num_grammar_queue_reqs",
				"sglang:num_prefill_prealloc_queue_reqs",
				"sglang:num_prefill_bootstrap_queue_reqs",
				"sglang:num_prefill_inflight_queue_reqs",
				"sglang:num_decode_prealloc_queue_reqs",
				"sglang:num_decode_transfer_queue_reqs",
			},
			Work: []string{"sglang:realtime_tokens_total", "sglang:prompt_tokens_total", "sglang:generation_tokens_total"},
		},
	}
}

func (e Engine) validate() error {
	if len(e.Running) == 0 || len(e.Waiting) == 0 {
		return fmt.Errorf("engine %q needs a metric of running and one of waiting requests", e.Name)
	}
	for _, name := range e.names() {
		if !model.LegacyValidation.IsValidMetricName(name) {
			return fmt.Errorf("engine %q: %q is not the name of a metric", e.Name, name)
		}
	}
	return nil
}

func (e Engine) names() []string { return slices.Concat(e.Running, e.Waiting, e.Work) }

// requests sums the engine's metrics; found is false where the page has none of them.
func (e Engine) requests(page map[string]*dto.MetricFamily) (r Requests, found bool, err error) {
	onPage := func(name string) bool { return page[name] != nil }
	if !slices.ContainsFunc(slices.Concat(e.Running, e.Waiting), onPage) {
		return Requests{}, false, nil
	}
	for _, name := range []string{e.Running[0], e.Waiting[0]} {
		if !onPage(name) {
			return Requests{}, true, fmt.Errorf("%w: %s without %s", ErrNoMetrics, e.Name, name)
		}
	}
	running, errRunning := sum(page, e.Running)
	waiting, errWaiting := sum(page, e.Waiting)
	work, errWork := sum(page, e.Work)
	r = Requests{Running: int64(math.Ceil(running)), Waiting: int64(math.Ceil(waiting)), Work: work}
	return r, true, errors.Join(errRunning, errWaiting, errWork)
}

// read takes the requests from a page in the text format of Prometheus.
func (s *Scraper) read(page io.Reader) (Requests, error) {
	lines, err := s.relevant(page)
	if err != nil {
		return Requests{}, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(lines)
	if err != nil {
		return Requests{}, fmt.Errorf("%w: %w", ErrPage, err)
	}
	var total Requests
	known := false
	for _, e := range s.engines {
		r, found, err := e.requests(families)
		if err != nil {
			return Requests{}, err
		}
		known = known || found
		total.Running += r.Running
		total.Waiting += r.Waiting
		total.Work += r.Work
	}
	if !known {
		return Requests{}, fmt.Errorf("%w: %w", ErrUnmeasured, ErrNoMetrics)
	}
	return total, nil
}

// relevant reads the whole page and returns the lines about our metrics. An engine's page is
// mostly histograms: parsed as a whole it would be the largest thing in the agent's memory.
func (s *Scraper) relevant(page io.Reader) (io.Reader, error) {
	limited := &io.LimitedReader{R: page, N: s.limit + 1}
	in := bufio.NewReader(limited)
	var out bytes.Buffer
	keep, begins := false, true
	for {
		piece, err := in.ReadSlice('\n') // a long line comes in pieces
		if begins {
			keep = s.wants(piece)
		}
		if keep {
			out.Write(piece)
		}
		begins = err == nil
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("read metrics: %w", err)
		}
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("%w: over %d bytes", ErrTooLarge, s.limit)
	}
	return &out, nil
}

func (s *Scraper) wants(line []byte) bool {
	name := bytes.TrimLeft(line, " \t")
	if rest, ok := bytes.CutPrefix(name, []byte("# TYPE ")); ok {
		name = rest
	}
	if i := bytes.IndexAny(name, "{ \t\n"); i >= 0 {
		name = name[:i]
	}
	for _, e := range s.engines {
		if slices.Contains(e.names(), string(name)) {
			return true
		}
	}
	return false
}

// maxValue is the greatest value that is believed: what float64 counts exactly.
const maxValue = 1 << 53

// sum adds up all series of the names that are on the page.
func sum(page map[string]*dto.MetricFamily, names []string) (float64, error) {
	var total float64
	for _, name := range names {
		for _, m := range page[name].GetMetric() {
			v, err := value(m)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", name, err)
			}
			total += v
		}
	}
	if total > maxValue {
		return 0, fmt.Errorf("%s: %w: %v in all", names[0], ErrValue, total)
	}
	return total, nil
}

func value(m *dto.Metric) (float64, error) {
	var v float64
	switch {
	case m.GetGauge() != nil:
		v = m.GetGauge().GetValue()
	case m.GetUntyped() != nil:
		v = m.GetUntyped().GetValue()
	case m.GetCounter() != nil:
		v = m.GetCounter().GetValue()
	default:
		return 0, fmt.Errorf("%w: neither gauge nor counter", ErrValue)
	}
	if math.IsNaN(v) || v < 0 || v > maxValue {
		return 0, fmt.Errorf("%w: %v", ErrValue, v)
	}
	return v, nil
}
