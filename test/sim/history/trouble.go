package history

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"pitstop.dev/test/sim/cluster"
)

// Why a call of the coordinator fails.
var (
	errDead     = errors.New("the process is dead")
	errNoAnswer = errors.New("the answer was lost")
)

// Shares of calls to which something happens.
const (
	chanceDie     = 0.002
	chanceRefused = 0.004
	chanceLost    = 0.002
	chanceFreeze  = 0.0015
	chancePass    = 0.08 // that time passes in the middle of a call
)

// Before is where time passes, and where the process dies, is frozen, or gets no further.
func (p *process) Before(c cluster.Call) error {
	if p.life == dead {
		return errDead
	}
	if p.h.depth < maxDepth && p.h.Chance(chancePass) {
		p.h.RunUntil(p.h.Now().Add(p.h.Between(0, 300*time.Millisecond)))
	}
	if p.h.calm || p.life != leads {
		return p.alive()
	}
	switch {
	case p.h.Chance(chanceFreeze) && p.h.depth == 1:
		p.freeze(c)
	case !c.Write():
	case p.h.Chance(chanceDie):
		p.die(fmt.Sprintf("dies before it can %s %s", c.Verb, c.Kind))
	case p.h.Chance(chanceRefused):
		return apierrors.NewInternalError(errors.New("simulated"))
	}
	return p.alive()
}

// After is where the process dies with the write done, or never learns that it was.
func (p *process) After(c cluster.Call) error {
	if p.h.calm || p.life != leads || !c.Write() {
		return p.alive()
	}
	switch {
	case p.h.Chance(chanceDie):
		p.die(fmt.Sprintf("dies after it could %s %s", c.Verb, c.Kind))
	case p.h.Chance(chanceLost):
		p.h.tell(p.name, fmt.Sprintf("does not learn that it could %s %s", c.Verb, c.Kind))
		return errNoAnswer
	}
	return p.alive()
}

func (p *process) alive() error {
	if p.life == dead {
		return errDead
	}
	return nil
}

// die ends the process; a new one leads some time later.
func (p *process) die(how string) {
	if p.life == dead {
		return
	}
	p.h.tell(p.name, how)
	p.life = dead
	p.h.After(p.h.Between(100*time.Millisecond, 20*time.Second), p.h.replace)
}

// freeze makes the process a former leader in the middle of a call: another leads and works, and
// later this one goes on with what it has read, until its reconciler returns.
func (p *process) freeze(c cluster.Call) {
	p.h.tell(p.name, fmt.Sprintf("freezes before it can %s %s", c.Verb, c.Kind))
	p.life = frozen
	p.h.depth--
	p.h.replace()
	p.h.RunUntil(p.h.Now().Add(p.h.Between(500*time.Millisecond, 90*time.Second)))
	p.h.depth++
	p.life = former
	p.h.tell(p.name, fmt.Sprintf("wakes up and goes on to %s %s", c.Verb, c.Kind))
}

// replace starts a new leader unless there is one.
func (h *History) replace() {
	if h.leader != nil && h.leader.life == leads {
		return
	}
	if err := h.start(); err != nil {
		panic(err)
	}
}
