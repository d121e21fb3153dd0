package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Reason says in one word how a request failed.
type Reason string

// The ways in which a request fails.
const (
	// Refused: nobody listened at the address.
	Refused Reason = "refused"
	// Unreachable: there was no way to the address.
	Unreachable Reason = "unreachable"
	// Reset: the server broke the connection.
	Reset Reason = "reset"
	// Cut: the stream ended without its end marker, or before its answer began.
	Cut Reason = "cut"
	// Mixed: one stream came from two engines, or its chunks were out of order.
	Mixed Reason = "mixed"
	// Status: the server answered with another status than 200.
	Status Reason = "status"
	// Timeout: the answer was not complete in time.
	Timeout Reason = "timeout"
	// Foreign: the destination is not ours to load.
	Foreign Reason = "foreign"
	// Other: anything else; see Failure.Error.
	Other Reason = "other"
)

// A Failure is one failed request.
type Failure struct {
	Sent   time.Time // when it was sent
	Failed time.Time // when it was known to have failed
	Reason Reason
	Error  string
}

// A Report counts requests. Sent is OK, plus Cancelled, plus all Failed, plus those under way.
type Report struct {
	Sent      int
	OK        int
	Cancelled int            // cut by the end of the context given to Start
	Failed    map[Reason]int // only reasons that occurred
	Versions  map[string]int // answered in full, by version of the engine
	Starts    map[string]int // answered in full, by start of an engine
	Failures  []Failure      // the first 100
}

// FailedTotal is the number of failed requests.
func (r Report) FailedTotal() int {
	n := 0
	for _, v := range r.Failed {
		n += v
	}
	return n
}

// String is the report in one line.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d sent, %d ok, %d failed", r.Sent, r.OK, r.FailedTotal())
	for _, reason := range slices.Sorted(maps.Keys(r.Failed)) {
		fmt.Fprintf(&b, ", %s: %d", reason, r.Failed[reason])
	}
	return b.String()
}

func (r Report) clone() Report {
	r.Failed, r.Versions, r.Starts = maps.Clone(r.Failed), maps.Clone(r.Versions), maps.Clone(r.Starts)
	r.Failures = slices.Clone(r.Failures)
	return r
}

func (r *Report) fail(sent, failed time.Time, reason Reason, err error) {
	r.Failed[reason]++
	if len(r.Failures) < 100 {
		r.Failures = append(r.Failures, Failure{Sent: sent, Failed: failed, Reason: reason, Error: err.Error()})
	}
}

var (
	errTooLong = errors.New("not complete in time")
	errMixed   = errors.New("chunk out of order or from another engine")
	errStatus  = errors.New("status")
)

func reasonOf(ctx context.Context, err error) Reason {
	var timeout net.Error
	switch {
	case errors.Is(err, ErrForeign):
		return Foreign
	case errors.Is(err, errStatus):
		return Status
	case errors.Is(err, errMixed):
		return Mixed
	case errors.Is(context.Cause(ctx), errTooLong), errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return Unreachable
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Reset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Cut
	default:
		return Other
	}
}
