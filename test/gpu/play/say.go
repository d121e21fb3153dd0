package play

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pitstop.dev/gpu"
	"pitstop.dev/test/gpu/stub"
)

// mostXID bounds the numbers of XIDs.
const mostXID = 1<<16 - 1

// GPUs are those of one node: what its driver says of them can be changed.
type GPUs struct {
	node  string
	state stub.File
}

// in returns the GPUs whose state is in the folder.
func in(dir, node string) (GPUs, error) {
	g := GPUs{node: node, state: stub.File{Path: filepath.Join(dir, stub.FileName)}}
	if _, err := os.Stat(g.state.Path); err != nil {
		return g, fmt.Errorf("node %s has no GPUs: `make lab-gpus` gives it some, for as long as it runs", node)
	}
	return g, nil
}

// XID has the driver report an error of the GPU with that index, once.
func (g GPUs) XID(ctx context.Context, index, xid int) error {
	if xid < 1 || xid > mostXID {
		return fmt.Errorf("XID %d: want 1 to %d, as 79 (fallen off the bus) or 94 (contained memory error)", xid, mostXID)
	}
	s, err := g.state.Read()
	if err != nil {
		return err
	}
	if err := g.has(s, index); err != nil {
		return err
	}
	return g.state.Raise(ctx, stub.Event{GPU: s.GPUs[index].UUID, XID: xid})
}

// Recovery has the driver ask for an action on the GPU with that index, until it is set to none.
func (g GPUs) Recovery(ctx context.Context, index int, action string) error {
	value, ok := actions()[action]
	if !ok {
		return fmt.Errorf("no recovery action %q: there are %s", action, strings.Join(Actions(), ", "))
	}
	var missing error
	err := g.state.Update(ctx, func(s *stub.State) {
		if missing = g.has(*s, index); missing == nil {
			s.GPUs[index].Recovery = int(value)
		}
	})
	if missing != nil {
		return missing
	}
	return err
}

func (g GPUs) has(s stub.State, index int) error {
	if index < 0 || index >= len(s.GPUs) {
		return fmt.Errorf("node %s has no GPU %d: there are 0 to %d", g.node, index, len(s.GPUs)-1)
	}
	return nil
}

func actions() map[string]gpu.Recovery {
	return map[string]gpu.Recovery{
		"none": gpu.RecoveryNone, "reset": gpu.RecoveryReset, "reboot": gpu.RecoveryReboot, "drain-p2p": gpu.RecoveryDrainP2P,
		"drain-and-reset": gpu.RecoveryDrainAndReset, "imex": gpu.RecoveryIMEX, "bus-reset": gpu.RecoveryBusReset,
		"system-reboot": gpu.RecoverySystemReboot,
	}
}

// Actions are the names that Recovery knows.
func Actions() []string { return slices.Sorted(maps.Keys(actions())) }
