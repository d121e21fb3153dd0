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
)

// errNoJournal reports that there is no journal at hand.
var errNoJournal = errors.New("journal is not open")

// A keeper has the journal while it can be had. The agent runs without one, starts nothing new
// then and finishes what is open.
type keeper struct {
	options journal.Options
	clock   clock.PassiveClock

	mu       sync.Mutex
	j        *journal.Journal
	err      error // why there is none, or why it cannot be written
	tried    time.Time
	probed   time.Time
	reported string
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
	return k.j, k.j != nil && k.err == nil
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
		k.err, k.probed = err, k.clock.Now()
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
