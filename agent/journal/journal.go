// Package journal tells a restarted agent what it was doing to each Pod. It is a hint: the
// API server and the runtime are the truth, and an effect without a record is adopted, not
// redone.
//
// The file is a bbolt database, layout version 1:
//
//	meta                          what the file is
//	├── schema                    version of the layout, decimal
//	├── node                      name of the node that wrote it
//	└── boot                      id of the boot in which it was last opened
//	pods
//	└── <pod uid>                 CRC-32C, Record as JSON: the attempt at hand, or the last one that ended
//	history
//	└── <sequence, 8 bytes>       CRC-32C, Record as JSON: attempts that a later one replaced
//	ledger
//	└── <pod uid>/<container>     CRC-32C, Restarts as JSON
//	probe
//	└── last                      time of the last Writable
//
// The CRC covers key and JSON. Keys of the JSON that this program does not know survive a
// rewrite at the top level. A higher schema is refused and left untouched; 1 is the first, so
// there is no lower one yet.
//
// The folder holds more than the database:
//
//	journal.lock                  locked by the one process that may write; never deleted
//	journal.db                    the database; put in place complete, so never empty
//	journal.init                  says that there was a database: a missing one is a loss, not a first start
//	journal.corrupt-<time>        damaged files moved aside, the two newest
//
// bbolt maps its file and trusts what it reads there: a file cut short or scribbled over
// panics, or ends the process with a fault that no recover sees. Hence a file is checked
// page by page, with plain reads, before bbolt may open it, and each transaction runs with
// faults turned into panics and panics into errors. After one of these the handle is given
// up and the next call starts from the check again.
//
// Space is reserved ahead (fallocate). The first write of an attempt must leave a margin of
// that reserve; the later ones may use it, so that open updates can be finished on a full disk.
package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/utils/clock"
)

// Schema is the version of the layout that this program writes.
const Schema = 1

// Errors that callers tell apart.
var (
	// ErrLocked reports that another process holds the journal.
	ErrLocked = errors.New("journal is locked by another process")
	// ErrNewerSchema reports a file written by a newer program. It has not been touched.
	ErrNewerSchema = errors.New("journal has a newer schema")
	// ErrSuperseded reports that the journal already holds a later attempt.
	ErrSuperseded = errors.New("attempt superseded")
	// ErrCorrupt reports a record that fails its checksum. The next write for that Pod replaces it.
	ErrCorrupt = errors.New("journal record is damaged")
	// ErrNotWritable reports that nothing was recorded: the effect must not happen.
	ErrNotWritable = errors.New("journal is not writable")
	// ErrFull reports, always together with ErrNotWritable, that space is the reason.
	ErrFull = errors.New("no space for the journal")
	// ErrClosed reports a use after Close.
	ErrClosed = errors.New("journal is closed")
)

// Options say where the journal is and how much it keeps.
type Options struct {
	// Dir holds the journal's files, on a local file system; it is made if missing. Required.
	Dir string
	// NodeName is this node's name: a journal written for another node is moved aside. Required.
	NodeName string
	// BootID changes with every boot of the node; process ids of another boot are void.
	BootID string
	// LockTimeout bounds the wait for another process to let go. Default 1 s.
	LockTimeout time.Duration
	// MaxRecords bounds the records of ended attempts, and four times as many entries of the
	// restart ledger, when the file is opened; a quarter more may come while it is open. The
	// oldest go first, open records never. Default 256.
	MaxRecords int
	// MaxAge is the time without a write after which a record, open or not, or a ledger entry
	// goes when the file is opened. Default 30 days.
	MaxAge time.Duration
	// MaxBytes bounds the database. Default 16 MiB.
	MaxBytes int64
	// Clock is the time source. Default: the real one.
	Clock clock.Clock
	// Observe, if set, is told how long each commit took.
	Observe func(time.Duration)
	// AfterCommit, if set, is called after each durable commit with its number, from 1. It
	// exists for tests that crash there.
	AfterCommit func(n int)
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" || o.NodeName == "" {
		return o, errors.New("journal needs a folder and a node name")
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = time.Second
	}
	if o.MaxRecords <= 0 {
		o.MaxRecords = 256
	}
	if o.MaxAge <= 0 {
		o.MaxAge = 30 * 24 * time.Hour
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 16 << 20
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o, nil
}

// A Report says what opening the file found.
type Report struct {
	// Schema is the layout version that the file had; 0 if it was made anew.
	Schema int
	// Recovered says that there had been a journal and that it is lost: this one starts empty,
	// and open updates are adopted from the API and the runtime.
	Recovered bool
	// Quarantined is the path to which the damaged file was moved, if there was one.
	Quarantined string
	// Cause is why the journal was lost, nil if it was not.
	Cause error
	// BootChanged says that the node has booted since: process ids on record are void and no
	// longer returned.
	BootChanged bool
	// RolledBack says that the newest of the two roots of the file was damaged, so that the
	// last commit is lost.
	RolledBack bool
	// Dropped is the number of records and ledger entries that failed their checksum.
	Dropped int
}

// A Journal is one open file. Its methods may be called from several goroutines; a second
// process cannot open the file.
type Journal struct {
	o Options

	mu         sync.Mutex
	lock       *os.File
	h          *handle // nil: to be opened by the next call
	report     Report
	commits    int
	recoveries int
	crowd      int // keys at which to trim again
	closed     bool

	probe probe
}

// Open locks the folder, checks the file and opens it. Damage of any kind is no error: the
// file is moved aside and the journal starts empty, as the Report says. It returns ErrLocked
// while another process holds the journal, ErrNewerSchema for a file that only a newer
// program may write, and ErrNotWritable where no file can be made. None of these is final:
// the caller goes on without a journal (it starts no update and finishes the open ones from
// the API) and tries again.
func Open(ctx context.Context, o Options) (*Journal, Report, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, Report{}, err
	}
	j := &Journal{o: o}
	if err := j.open(ctx); err != nil {
		return nil, Report{}, fmt.Errorf("open journal in %s: %w", o.Dir, err)
	}
	return j, j.report, nil
}

func (j *Journal) open(ctx context.Context) error {
	if err := os.MkdirAll(j.o.Dir, 0o700); err != nil {
		return notWritable(err)
	}
	lock, err := acquire(ctx, j.path(lockFile), j.o)
	if err != nil {
		return err
	}
	h, report, err := j.openFile()
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	j.lock, j.h, j.report = lock, h, report
	if report.Recovered {
		j.recoveries++
	}
	return nil
}

// Report returns what the latest opening of the file found. The file is opened again after a
// failed commit, after damage, and where somebody has replaced it.
func (j *Journal) Report() Report {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.report
}

// Close gives the file and the lock back. It waits for calls under way.
func (j *Journal) Close() error {
	j.probe.wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	err := j.h.close()
	j.h = nil
	if err := errors.Join(err, j.lock.Close()); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

// Stats are figures for metrics and status pages.
type Stats struct {
	// Bytes is the size of the file, InUse the part that holds data.
	Bytes, InUse int64
	// Open and Ended count records, Ledger the containers in the restart ledger.
	Open, Ended, Ledger int
	// Commits counts durable writes, Recoveries how often the journal was lost and started
	// empty, both since and including Open.
	Commits, Recoveries int
}

// Stats reads the figures.
func (j *Journal) Stats() (Stats, error) {
	var s Stats
	err := j.view(func(tx *bolt.Tx) error {
		s = Stats{InUse: tx.Size() - j.h.freeBytes(), Ledger: tx.Bucket([]byte(bucketLedger)).Stats().KeyN}
		return eachRecord(tx, func(e entry) error {
			if e.record.Open() {
				s.Open++
			} else {
				s.Ended++
			}
			return nil
		})
	})
	if err != nil {
		return Stats{}, fmt.Errorf("read journal figures: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s.Commits, s.Recoveries = j.commits, j.recoveries
	if fi, err := os.Stat(j.path(dbFile)); err == nil {
		s.Bytes = fi.Size()
	}
	return s, nil
}

func (j *Journal) path(name string) string { return filepath.Join(j.o.Dir, name) }
