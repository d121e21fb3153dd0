// Package claim is how the test engine takes memory of GPUs that are not there: it asks on a socket that the node
// mounts into its container, and the node's side, outside of all containers, sees who asks.
//
// One connection is one claim: a line of JSON each way. The kernel tells the node's side the PID of the engine as it
// is outside.
package claim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// ErrOutOfMemory reports that a device does not have so much free. Nothing is claimed then.
var ErrOutOfMemory = errors.New("out of GPU memory")

// A Request is what an engine asks for: so much on each of the devices, in place of what it had there.
type Request struct {
	GPUs []string `json:"gpus"` // UUIDs
	MiB  int      `json:"mib"`
	// Release is how long the memory stays taken after the engine has ended; negative: for ever.
	Release time.Duration `json:"release"`
}

// A reply is empty if all is claimed.
type reply struct {
	Short string `json:"short,omitempty"` // of ErrOutOfMemory
	Error string `json:"error,omitempty"`
}

// timeout bounds one claim.
const timeout = 10 * time.Second

// Take claims memory for this process, at the socket of the node.
func Take(ctx context.Context, socket string, r Request) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("claim GPU memory: %w", err)
	}
	defer func() { _ = conn.Close() }() // the reply tells how it went
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return fmt.Errorf("claim GPU memory: %w", err)
		}
	}
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return fmt.Errorf("claim GPU memory: %w", err)
	}
	var got reply
	if err := json.NewDecoder(bufio.NewReader(conn)).Decode(&got); err != nil {
		return fmt.Errorf("claim GPU memory: %w", err)
	}
	switch {
	case got.Short != "":
		return fmt.Errorf("%w: %s", ErrOutOfMemory, got.Short)
	case got.Error != "":
		return fmt.Errorf("claim GPU memory: %s", got.Error)
	}
	return nil
}
