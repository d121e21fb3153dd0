package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"pitstop.dev/agent/journal"
)

const (
	// reopenEvery is the time between two tries to open the journal.
	reopenEvery = 2 * time.Second
	// probeEvery is how long one proof that the journal can be written counts.
	probeEvery = 5 * time.Second
	// tendEvery is how long a journal that nobody writes to may go without that proof.
	tendEvery = time.Minute
)

// errNoJournal reports that there is no journal at hand.
var errNoJournal = errors.New("journal is not open")

// A keeper has the journal while it can be had. The agent runs without one, starts nothing new
// then and finishes what is open.
type keeper struct {
	options journal.Options
	clock   clock.WithTicker

	mu       sync.Mutex
	j        *journal.Journal
	err      error // why there is none, or why it cannot be written
	tried    time.Time
	probed   time.Time
	reported string
	missed   bool // something was not recorded, or waits for the journal
}

func newKeeper(cfg Config) *keeper {
	return &keeper{options: cfg.Journal, clock: cfg.Clock, err: errNoJournal}
}

// open returns the journal, and whether a new update may be started with it.
func (k *keeper) open(ctx context.Context) (*journal.Journal, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	if k.j == nil && now.Sub(k.tried) >= reopenEvery {
		k.tried = now
		var found journal.Report
		k.j, found, k.err = journal.Open(ctx, k.options)
		if k.err == nil {
			k.announce(ctx, found)
		}
	}
	if k.j != nil && now.Sub(k.probed) >= probeEvery {
		k.probed = now
		k.err = k.j.Writable(ctx)
	}
	k.complain(ctx)
	usable := k.j != nil && k.err == nil
	k.missed = k.missed || !usable
	return k.j, usable
}

// tend keeps an eye on a journal that nobody asks for, and calls back when one that was missed
// can be used again: what happened meanwhile is to be recorded, what waited may start.
func (k *keeper) tend(ctx context.Context, back func()) {
	tick := k.clock.NewTicker(reopenEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
		if !k.due() {
			continue
		}
		if _, usable := k.open(ctx); usable && k.wasMissed() {
			back()
		}
	}
}

func (k *keeper) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.missed || k.clock.Since(k.probed) >= tendEvery
}

func (k *keeper) wasMissed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	missed := k.missed
	k.missed = false
	return missed
}

func (k *keeper) announce(ctx context.Context, found journal.Report) {
	log := logr.FromContextOrDiscard(ctx)
	if found.Recovered {
		log.Info("journal was lost; open updates are adopted from the API and the runtime", "cause", fmt.Sprint(found.Cause), "moved", found.Quarantined)
		return
	}
	log.V(1).Info("journal open", "schema", found.Schema, "bootchanged", found.BootChanged)
}

// complain logs a change of the journal's state, once.
func (k *keeper) complain(ctx context.Context) {
	text := ""
	if k.err != nil {
		text = k.err.Error()
	}
	if text == k.reported {
		return
	}
	k.reported = text
	if log := logr.FromContextOrDiscard(ctx); k.err != nil {
		log.Info("journal cannot be used: no update is started", "cause", text)
	} else {
		log.Info("journal can be used")
	}
}

// with calls do with the journal. Without one it returns errNoJournal.
func (k *keeper) with(ctx context.Context, do func(*journal.Journal) error) error {
	j, _ := k.open(ctx)
	if j == nil {
		return errNoJournal
	}
	err := do(j)
	if errors.Is(err, journal.ErrNotWritable) {
		k.mu.Lock()
		k.err, k.probed, k.missed = err, k.clock.Now(), true
		k.complain(ctx)
		k.mu.Unlock()
	}
	return err
}

// read returns what is on record of the Pod; an empty record if nothing is, or can be read.
func (k *keeper) read(ctx context.Context, pod types.UID) journal.Record {
	var r journal.Record
	err := k.with(ctx, func(j *journal.Journal) (err error) {
		r, _, err = j.Read(pod)
		return err
	})
	if err != nil {
		return journal.Record{}
	}
	return r
}

// problem returns why the journal cannot be used, nil if it can.
func (k *keeper) problem() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

func (k *keeper) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.j == nil {
		return nil
	}
	err := k.j.Close()
	k.j, k.err = nil, errNoJournal
	return err
}
