package health

import (
	"slices"

	"pitstop.dev/gpu"
)

// mostWaiting bounds the events that wait.
const mostWaiting = 1024

// whileBlind parts the events of a time in which the Pods are not known. Those that an update may bring wait, as nobody
// can tell whether one has brought them; the others are judged now.
func whileBlind(events []gpu.Event, expected []uint64) (now, waiting []gpu.Event) {
	for _, e := range events {
		if slices.Contains(expected, e.XID) {
			waiting = append(waiting, e)
		} else {
			now = append(now, e)
		}
	}
	return now, waiting[max(0, len(waiting)-mostWaiting):]
}
