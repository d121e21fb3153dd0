// Package wire is what the agent and its GPU probe say to each other over the probe's standard input and output: one
// JSON object per line.
//
// The probe begins with a Hello once NVML has answered, or has refused. After that the agent asks, one request at a
// time, and the probe answers each with the same ID:
//
//	agent                        probe
//	                             {"hello":{"protocol":1,"state":"Up","driver":"570.86.15"}}
//	{"id":1,"verb":"read"}       {"id":1,"reading":{...}}
//	                             {"event":{"kind":"XID","xid":79,...}}      at any time
//	{"id":2,"verb":"shutdown"}   (it lets go of NVML and exits with 0)
//
// The end of its input is a shutdown too, so that a probe does not outlive its agent.
package wire

import "pitstop.dev/gpu"

// Protocol is the version of all this. Agent and probe must agree: they come in one image.
const Protocol = 1

// MaxLine bounds a line, in bytes. A reading of 16 GPUs with 100 processes each has about 200 KiB.
const MaxLine = 4 << 20

// A Verb is what a Request wants.
type Verb string

// The verbs.
const (
	Read     Verb = "read"
	Shutdown Verb = "shutdown"
)

// A Request is a line to the probe.
type Request struct {
	ID   uint64 `json:"id"`
	Verb Verb   `json:"verb"`
}

// A Message is a line from the probe. One of its pointers is set.
type Message struct {
	// ID is that of the request; 0 if nobody asked.
	ID    uint64 `json:"id,omitempty"`
	Hello *Hello `json:"hello,omitempty"`
	// Reading has no time yet: the agent's clock is the one that counts.
	Reading *gpu.Reading `json:"reading,omitempty"`
	// Event has neither time nor sequence number yet.
	Event *gpu.Event `json:"event,omitempty"`
}

// A Hello is what the probe says of itself. A probe that is not Up is of no use: NVML can be loaded once in a
// process, so that another try takes another process.
type Hello struct {
	Protocol int `json:"protocol"`
	// State is Up, Absent or Unknown; Message says why it is not Up.
	State   gpu.State `json:"state"`
	Message string    `json:"message,omitempty"`
	Driver  string    `json:"driver,omitempty"`
	Missing []string  `json:"missing,omitempty"`
}
