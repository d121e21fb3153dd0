// Package victim is the agent with its production wiring that kills itself at a chosen write.
package victim

import (
	"fmt"
	"strconv"
	"strings"
)

// A Kind says at what sort of write, and on which side of it, the agent dies.
type Kind string

// The kinds of write points.
const (
	// Answered: an API write, once its response has arrived.
	Answered Kind = "answered"
	// Sent: an API write, once the request is sent, before its response is read.
	Sent Kind = "sent"
	// Committed: a durable commit of the journal.
	Committed Kind = "committed"
)

// A Point is one write of one run: the n-th of its kind, from 1. Leases and events do not count.
// The zero value is never reached.
type Point struct {
	Kind Kind
	N    int
}

// String is the inverse of Parse.
func (p Point) String() string {
	if p == (Point{}) {
		return ""
	}
	return string(p.Kind) + "-" + strconv.Itoa(p.N)
}

// Parse reads a point; the empty text is the zero Point.
func Parse(text string) (Point, error) {
	if text == "" {
		return Point{}, nil
	}
	kind, number, _ := strings.Cut(text, "-")
	n, err := strconv.Atoi(number)
	switch k := Kind(kind); k {
	case Answered, Sent, Committed:
		if err == nil && n > 0 {
			return Point{Kind: k, N: n}, nil
		}
	}
	return Point{}, fmt.Errorf("write point %q: want %s, %s or %s, a dash and a number", text, Answered, Sent, Committed)
}
