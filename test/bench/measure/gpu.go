package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/gpu"
	"pitstop.dev/test/bench/figure"
	"pitstop.dev/test/bench/proc"
	"pitstop.dev/test/engine/server"
	"pitstop.dev/test/gpu/rig"
)

const (
	idleGPUs    = 8
	idleGPUMiB  = 1000 // that each engine with a GPU takes of it
	idleWindows = 2
	idleWindow  = time.Minute
	idleEvery   = 5 * time.Second
	// idleAfter is what is left alone after the last update: its end is no idleness.
	idleAfter = 10 * time.Second
	// driverLimit bounds the wait for an agent to read all GPUs and who holds memory of them.
	driverLimit = time.Minute
	agentPort   = 9464
)

// gpuIdle gives a node GPUs and fills it with Pods in service, one with each GPU, updates some of these, and looks at
// the agent and its probe while nothing happens.
func (b *bench) gpuIdle(ctx context.Context, s *subject) (err error) {
	gpus, err := b.GPUs(ctx, rig.Config{Node: b.far, UUIDs: idleUUIDs()})
	if err != nil {
		return err
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, b.removeAll(ctx), gpus.Close(), b.DropGPUs(ctx))
	}()
	if err := b.RestartAgent(ctx, b.far.Name); err != nil {
		return err
	}
	subjects := b.fill("bench-gpu")
	for _, one := range subjects[:idleGPUs] {
		one.spec.GPUs, one.spec.Env = 1, map[string]string{server.EnvGPUMiB: strconv.Itoa(idleGPUMiB)}
	}
	if err := b.runAll(ctx, subjects); err != nil {
		return err
	}
	if err := b.readsGPUs(ctx); err != nil {
		return err
	}
	for _, one := range subjects[:rssUpdates] {
		if _, err := b.update(ctx, one.spec.Name, b.images.to, nil); err != nil {
			return err
		}
	}
	if err := b.idle(ctx); err != nil {
		return err
	}
	if err := b.readsGPUs(ctx); err != nil {
		return err
	}
	figures := b.sheet.Figures()
	for _, name := range []string{agentGPURSS, probeRSS, agentIdle} {
		s.say("%s %s", name, figure.Text(figures[name].Median))
	}
	return nil
}

func idleUUIDs() []string {
	var uuids []string
	for i := range idleGPUs {
		uuids = append(uuids, fmt.Sprintf("GPU-0000000b-0000-4000-8000-%012x", i))
	}
	return uuids
}

// readsGPUs waits until the agent of the far node reads all GPUs, each with the engine that holds memory of it.
func (b *bench) readsGPUs(ctx context.Context) error {
	agent, err := b.agent(ctx)
	if err != nil {
		return err
	}
	url := "http://" + net.JoinHostPort(agent.Status.PodIP, strconv.Itoa(agentPort)) + states.Path
	var last states.GPUs
	err = wait.PollUntilContextTimeout(ctx, time.Second, driverLimit, true, func(ctx context.Context) (bool, error) {
		seen, err := statesAt(ctx, url)
		last = seen.GPUs
		return err == nil && allHeld(last), nil
	})
	if err != nil {
		return fmt.Errorf("the agent of %s does not read %d GPUs with an engine on each, but %q (%s) %d: %w",
			b.far.Name, idleGPUs, last.State, last.Message, len(last.Devices), err)
	}
	return nil
}

// allHeld reports that every GPU was read, and that a Pod holds memory of it.
func allHeld(g states.GPUs) bool {
	if g.State != gpu.Up || !g.ResidentsKnown || len(g.Devices) != idleGPUs {
		return false
	}
	for _, d := range g.Devices {
		if len(d.Residents) != 1 || d.Residents[0].Pod == "" {
			return false
		}
	}
	return true
}

func statesAt(ctx context.Context, url string) (states.States, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var s states.States
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// idle looks at the agent of the far node and at its probe for a while.
func (b *bench) idle(ctx context.Context) error {
	pod, err := b.agent(ctx)
	if err != nil {
		return err
	}
	agent, err := agentProcess(pod)
	if err != nil {
		return err
	}
	probe, err := processOf(pod, "pitstop-gpu-pro") // the kernel keeps 15 letters of a name
	if err != nil {
		return err
	}
	if err := b.rest(ctx, idleAfter); err != nil {
		return err
	}
	for range idleWindows {
		if err := b.idleWindow(ctx, agent, probe); err != nil {
			return err
		}
	}
	return nil
}

// idleWindow takes one sample of the time that both use, and several of their memory.
func (b *bench) idleWindow(ctx context.Context, agent, probe proc.Process) error {
	begun := b.config.Clock.Now()
	before, err := cpuOf(agent, probe)
	if err != nil {
		return err
	}
	for b.config.Clock.Since(begun) < idleWindow {
		if err := b.rest(ctx, idleEvery); err != nil {
			return err
		}
		ofAgent, err := agent.Memory()
		if err != nil {
			return err
		}
		ofProbe, err := probe.Memory()
		if err != nil {
			return err
		}
		if err := b.addAll(nil, sample{agentGPURSS, ofAgent.NowMiB}, sample{probeRSS, ofProbe.NowMiB}); err != nil {
			return err
		}
	}
	after, err := cpuOf(agent, probe)
	if err != nil {
		return err
	}
	return b.add(nil, agentIdle, percent(after-before, b.config.Clock.Since(begun)))
}

func cpuOf(processes ...proc.Process) (sum time.Duration, err error) {
	for _, p := range processes {
		one, err := p.CPU()
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}

func percent(of, whole time.Duration) float64 { return 100 * of.Seconds() / whole.Seconds() }
