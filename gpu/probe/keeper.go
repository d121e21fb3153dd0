package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/go-logr/logr"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/probe/wire"
)

// A keeper is what Run has: the child, and what became of the last one.
type keeper struct {
	*Client
	log   logr.Logger
	child *child // nil: none
	// greeted: the child has said hello and is Up, so that it listens for events.
	greeted bool
	// stuck: the child was killed and did not end.
	stuck bool
	id    uint64
	// failures counts the starts since the last reading; no child is started before next.
	failures int
	next     time.Time
	// verdict is what there is to say without a child.
	verdict gpu.Reading
}

// Run keeps the child until ctx ends, and returns once it is gone or cannot be killed. It may be called once.
func (c *Client) Run(ctx context.Context) {
	k := &keeper{Client: c, log: logr.FromContextOrDiscard(ctx).WithName("gpuprobe")}
	defer close(c.done)
	defer k.end()
	k.busy("it is idle")
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			k.obey()
		case r := <-c.requests:
			r.answer <- k.look(ctx, r)
			k.busy("it is idle")
		case m, ok := <-k.messages():
			k.unasked(m, ok)
		}
	}
}

// messages are those of the child, if there is one to listen to.
func (k *keeper) messages() <-chan wire.Message {
	if k.child == nil || k.stuck {
		return nil
	}
	return k.child.messages
}

// obey ends the child if a release was asked for.
func (k *keeper) obey() {
	if _, released := k.releasedUntil(); released {
		k.end()
	}
}

// unasked takes what the child says by itself.
func (k *keeper) unasked(m wire.Message, ok bool) {
	switch {
	case !ok:
		k.lose(k.broken())
	case m.Event != nil:
		k.ring.add(*m.Event)
	}
}

// Reasons for which the child gave no answer.
var (
	errSilent   = errors.New("no answer")
	errReleased = errors.New("released")
	errStopped  = errors.New("stopped")
)

// look takes one reading.
func (k *keeper) look(ctx context.Context, r request) gpu.Reading {
	if reading, without := k.without(); without {
		return reading
	}
	if k.child == nil {
		if err := k.start(); err != nil {
			return k.lose(err)
		}
	}
	if !k.greeted {
		k.busy("it starts")
		m, err := k.hear(ctx, k.cfg.StartTimeout, func(m wire.Message) bool { return m.Hello != nil })
		if err != nil {
			return k.failed(err, fmt.Sprintf("NVML did not start within %v", k.cfg.StartTimeout))
		}
		if reading, useless := judge(*m.Hello); useless {
			return k.dismiss(reading)
		}
		k.greeted = true
	}
	select {
	case <-r.gone:
		return gpu.Reading{} // the start took longer than the caller had
	default:
	}
	k.busy("it reads")
	k.id++
	k.child.say(wire.Request{ID: k.id, Verb: wire.Read})
	m, err := k.hear(ctx, k.cfg.Timeout, func(m wire.Message) bool { return m.Reading != nil && m.ID == k.id })
	if err != nil {
		return k.failed(err, fmt.Sprintf("no reading within %v", k.cfg.Timeout))
	}
	if m.Reading.State != gpu.Up {
		return k.dismiss(*m.Reading)
	}
	k.failures = 0
	return *m.Reading
}

// without says what there is to say if there is no child to ask and none may be started.
func (k *keeper) without() (gpu.Reading, bool) {
	if k.stuck && !k.buried() {
		return k.unknown("the GPU probe (PID %d) cannot be killed: it waits in the driver. No other is started beside it", k.child.pid()), true
	}
	if until, released := k.releasedUntil(); released {
		k.end()
		if k.stuck {
			return k.without()
		}
		return gpu.Reading{State: gpu.Released, Message: "until " + until.UTC().Format(time.RFC3339)}, true
	}
	if k.child == nil && k.cfg.Clock.Now().Before(k.next) {
		return k.verdict, true
	}
	return gpu.Reading{}, false
}

// buried reports that a child that could not be killed is gone after all.
func (k *keeper) buried() bool {
	select {
	case <-k.child.gone:
		k.log.Info("gpu probe ended at last", "pid", k.child.pid())
		k.child, k.stuck = nil, false
		return true
	default:
		return false
	}
}

func (k *keeper) start() error {
	c, err := start(k.cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the GPU probe is not installed: %w", err)
	}
	if err != nil {
		return fmt.Errorf("start the GPU probe: %w", err)
	}
	k.child, k.greeted = c, false
	k.log.V(1).Info("gpu probe started", "pid", c.pid())
	return nil
}

// hear waits for the message that is wanted, and takes events meanwhile.
func (k *keeper) hear(ctx context.Context, limit time.Duration, wanted func(wire.Message) bool) (wire.Message, error) {
	timer := k.cfg.Clock.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case m, ok := <-k.child.messages:
			if !ok {
				return m, k.broken()
			}
			if wanted(m) {
				return m, nil
			}
			if m.Event != nil {
				k.ring.add(*m.Event)
			}
		case <-timer.C():
			return wire.Message{}, errSilent
		case <-k.wake:
			if _, released := k.releasedUntil(); released {
				return wire.Message{}, errReleased
			}
		case <-ctx.Done():
			return wire.Message{}, errStopped
		}
	}
}

// broken says why the child's output has ended. It ends the child, which may live on without one.
func (k *keeper) broken() error {
	c := k.child
	k.end()
	switch {
	case c.garbled != nil:
		return fmt.Errorf("the GPU probe is garbled: %w", c.garbled)
	case k.stuck:
		return errors.New("the GPU probe has closed its output")
	default:
		return fmt.Errorf("the GPU probe has ended: %s", c.obituary())
	}
}

// failed ends a child that gave no answer, and says so.
func (k *keeper) failed(err error, silent string) gpu.Reading {
	switch {
	case errors.Is(err, errReleased):
		reading, _ := k.without()
		return reading
	case errors.Is(err, errStopped):
		return k.unknown("the agent ends")
	case errors.Is(err, errSilent):
		k.busy("it is ended, since it hangs: " + silent)
		k.end()
		return k.lose(fmt.Errorf("the GPU probe hangs: %s", silent))
	default:
		return k.lose(err)
	}
}

// dismiss ends a child that can read nothing, and keeps what it said.
func (k *keeper) dismiss(said gpu.Reading) gpu.Reading {
	k.end()
	k.verdict = said
	k.pause()
	return k.say(said)
}

// lose keeps why there is no child.
func (k *keeper) lose(err error) gpu.Reading {
	k.verdict = gpu.Reading{State: gpu.Unknown, Message: err.Error()}
	k.pause()
	return k.say(k.verdict)
}

// say logs what is new to a person, once per series of failures.
func (k *keeper) say(r gpu.Reading) gpu.Reading {
	if k.failures == 1 {
		k.log.Info("gpu probe is of no use", "state", r.State, "reason", r.Message)
	}
	if reading, stuck := k.without(); k.stuck && stuck {
		return reading
	}
	return r
}

func (k *keeper) pause() {
	k.failures++
	k.next = k.cfg.Clock.Now().Add(pause(k.cfg.MinPause, k.cfg.MaxPause, k.failures))
}

// pause is how long to wait before the next start, after so many that came to nothing.
func pause(least, most time.Duration, failures int) time.Duration {
	d := least
	for range failures - 1 {
		if d >= most/2 {
			return most
		}
		d *= 2
	}
	return min(d, most)
}

// judge returns the reading of a probe that cannot be used.
func judge(h wire.Hello) (gpu.Reading, bool) {
	switch {
	case h.Protocol != wire.Protocol:
		return gpu.Reading{
			State:   gpu.Unknown,
			Message: fmt.Sprintf("the GPU probe speaks protocol %d, not %d: it is of another version than the agent", h.Protocol, wire.Protocol),
		}, true
	case h.State != gpu.Up:
		return gpu.Reading{State: h.State, Message: h.Message, Driver: h.Driver, Missing: h.Missing}, true
	default:
		return gpu.Reading{}, false
	}
}

// end ends the child: in order if it can, and by force if not. Afterwards there is no child, or one that is stuck.
func (k *keeper) end() {
	if k.child == nil || k.stuck {
		return
	}
	c := k.child
	if k.greeted {
		k.ring.gap()
	}
	k.greeted = false
	close(c.deaf)
	c.say(wire.Request{Verb: wire.Shutdown})
	_ = c.in.Close()
	if !k.wait(c) {
		k.log.Info("gpu probe did not end when asked to, killing it", "pid", c.pid())
		if err := k.cfg.kill(c.pid()); err != nil {
			k.log.Error(err, "kill gpu probe", "pid", c.pid())
		}
		if !k.wait(c) {
			k.log.Info("gpu probe cannot be killed", "pid", c.pid())
			k.stuck = true
			return
		}
	}
	k.child = nil
}

// wait waits for the end of c, as long as its grace lasts.
func (k *keeper) wait(c *child) bool {
	timer := k.cfg.Clock.NewTimer(k.cfg.Grace)
	defer timer.Stop()
	select {
	case <-c.gone:
		return true
	case <-timer.C():
		return false
	}
}
