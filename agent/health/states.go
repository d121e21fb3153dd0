package health

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

// A Residency knows who holds memory of the GPUs.
type Residency interface {
	// Residents returns the holders by the UUID of the GPU, and whether these are all. The names of Pods are filled in for
	// their UIDs. It is not called while it looks.
	Residents(ctx context.Context, r gpu.Reading) (by map[string][]states.Resident, known bool)
}

// A holding is what a Residency has found.
type holding struct {
	by    map[string][]states.Resident
	known bool
}

// residents returns who holds memory of the GPUs; where that cannot be told in time nobody is known.
func (m *Monitor) residents(ctx context.Context, r gpu.Reading) holding {
	if m.cfg.Residency == nil || r.State != gpu.Up {
		return holding{}
	}
	ctx, cancel := context.WithTimeout(ctx, checkFor)
	defer cancel()
	found, _ := m.asking.within(ctx, "residents", func(look context.Context) holding {
		by, known := m.cfg.Residency.Residents(look, r)
		m.name(by)
		return holding{by, known}
	})
	return found
}

// GPUs returns what is known of the GPUs, within checkFor.
func (m *Monitor) GPUs(ctx context.Context) states.GPUs {
	if m == nil || m.cfg.Reader == nil {
		return states.GPUs{}
	}
	s := m.now()
	out := states.GPUs{
		State: s.reading.State, Message: s.reading.Message, Driver: s.reading.Driver, At: s.reading.At,
		Missed: s.missed, Unattributed: s.unattributed, PodsKnown: s.podsKnown,
	}
	holding := m.residents(ctx, s.reading)
	out.ResidentsKnown = holding.known
	for _, v := range s.verdicts {
		d := states.Device{Verdict: v, Residents: holding.by[v.UUID]}
		if i := slices.IndexFunc(s.reading.Devices, func(d gpu.Device) bool { return d.UUID == v.UUID }); i >= 0 {
			d.Name, d.Memory = s.reading.Devices[i].Name, s.reading.Devices[i].Memory
		}
		for _, p := range s.pods {
			if some, _ := health.Of([]health.Verdict{v}, p.uuids); len(some) > 0 {
				d.Pods = append(d.Pods, p.name.String())
			}
		}
		slices.Sort(d.Pods)
		out.Devices = append(out.Devices, d)
	}
	return out
}

// name fills in the names of the Pods.
func (m *Monitor) name(by map[string][]states.Resident) {
	names := map[string]string{}
	pods, _ := m.api.Pods() // who is not known keeps its UID
	for _, p := range pods {
		names[string(p.UID)] = p.Namespace + "/" + p.Name
	}
	for _, residents := range by {
		for i, r := range residents {
			if name, ok := names[r.PodUID]; ok {
				residents[i].Pod = name
			}
		}
	}
}

// Checks are those of the probe and the GPUs.
func (m *Monitor) Checks() []Check {
	return []Check{
		{CheckProbe, func(context.Context) (states.Status, string) { return m.checkProbe() }},
		{CheckGPUs, func(context.Context) (states.Status, string) { return m.checkGPUs() }},
	}
}

func (m *Monitor) checkProbe() (states.Status, string) {
	if m == nil || m.cfg.Reader == nil {
		return states.OK, "none is configured"
	}
	s := m.now()
	if s.stale != "" {
		return states.Unknown, s.stale
	}
	switch r := s.reading; r.State {
	case gpu.Up:
		return states.OK, "driver " + r.Driver
	case gpu.Absent:
		return states.OK, "no NVML library"
	case gpu.Released:
		return states.OK, "the driver is released"
	case gpu.Unknown:
		if s.failed < m.cfg.Judge.Bad {
			return states.Unknown, r.Message // a single one may be that of a driver that starts
		}
		return states.Problem, r.Message
	}
	return states.Unknown, "no reading yet"
}

func (m *Monitor) checkGPUs() (states.Status, string) {
	if m == nil || m.cfg.Reader == nil {
		return states.OK, "none are looked at"
	}
	s := m.now()
	if len(s.verdicts) == 0 {
		if s.reading.State == gpu.Absent || s.reading.State == gpu.Up {
			return states.OK, "none on this node"
		}
		return states.Unknown, cmp.Or(s.stale, "not read yet")
	}
	sum := health.Brief(s.verdicts)
	switch sum.Status {
	case corev1.ConditionTrue:
		return states.OK, strconv.Itoa(len(s.verdicts)) + " healthy"
	case corev1.ConditionFalse:
		return states.Problem, strings.Join(filled([]string{string(sum.Reason) + ": " + sum.Message, s.stale}), "; ")
	case corev1.ConditionUnknown:
	}
	return states.Unknown, strings.Join(filled([]string{string(sum.Reason), sum.Message}), ": ")
}

// A Server serves States.
type Server struct {
	Monitor *Monitor
	Checks  *Checks
	// Node and Version are of the node and the agent.
	Node, Version string
}

// ServeHTTP implements http.Handler. All is asked side by side, so that the answer is there within checkFor.
func (s Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := states.States{Node: s.Node, Version: s.Version, At: s.Monitor.clock.Now().UTC()}
	ctx := r.Context()
	var wg sync.WaitGroup
	wg.Go(func() { out.Checks = s.Checks.Run(ctx) })
	wg.Go(func() { out.GPUs = s.Monitor.GPUs(ctx) })
	wg.Wait()
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(out) // whoever asked may have gone
}

// Describe implements prometheus.Collector.
func (m *Monitor) Describe(ch chan<- *prometheus.Desc) {
	d := newDescriptions()
	ch <- d.healthy
	ch <- d.errors
	ch <- d.state
}

// Collect implements prometheus.Collector. Its labels are UUIDs of GPUs of the node, and closed lists.
func (m *Monitor) Collect(ch chan<- prometheus.Metric) {
	if m.cfg.Reader == nil {
		return
	}
	d, s := newDescriptions(), m.now()
	gauge := func(desc *prometheus.Desc, is bool, labels ...string) {
		value := 0.0
		if is {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for _, state := range []gpu.State{gpu.Up, gpu.Absent, gpu.Released, gpu.Unknown} {
		gauge(d.state, cmp.Or(s.reading.State, gpu.Unknown) == state, string(state))
	}
	for _, v := range s.verdicts {
		for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown} {
			gauge(d.healthy, v.Status == status, v.UUID, string(status))
		}
	}
	for key, n := range s.errors {
		ch <- prometheus.MustNewConstMetric(d.errors, prometheus.CounterValue, float64(n), key.uuid, string(key.class))
	}
}

type descriptions struct{ healthy, errors, state *prometheus.Desc }

func newDescriptions() descriptions {
	return descriptions{
		healthy: prometheus.NewDesc("pitstop_agent_gpu_healthy", "1 for the status that the GPU has: True, False or Unknown.", []string{"uuid", "status"}, nil),
		errors:  prometheus.NewDesc("pitstop_agent_gpu_errors_total", "Errors that the driver reported, each kind once in ten minutes, by class of XID.", []string{"uuid", "class"}, nil),
		state:   prometheus.NewDesc("pitstop_agent_gpu_probe", "1 for the state that the GPU probe is in: Up, Absent, Released or Unknown.", []string{"state"}, nil),
	}
}
