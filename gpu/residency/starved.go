package residency

import "time"

// A Start is one start of a container that was replaced, which has ended.
type Start struct {
	// First: it is the first one after the swap.
	First bool
	// ExitCode is 0 for a container that ended well.
	ExitCode int32
	// WasReady: its engine was ready before.
	WasReady bool
	// Began is when it was started.
	Began time.Time
}

// Starved reports whether a start failed for want of GPU memory: kubelet starts the new container as soon as the old
// one has ended, and an engine that finds memory still held gives up. It is one that the update planned if it was the
// first, ended badly before it was ready, and old memory was seen to be held while it ran. What was not seen is no
// evidence: a look that failed excuses nothing.
func (w Watch) Starved(s Start) bool {
	return s.First && s.ExitCode != 0 && !s.WasReady && !s.Began.IsZero() && !w.HeldAt.Before(s.Began)
}
