package health

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Class says what an XID asks for.
type Class string

// The classes.
const (
	// Application: the fault is in what runs on the GPU; a restart of that mends it.
	Application Class = "application"
	// None: nothing has to be done.
	None Class = "none"
	// Reset: the GPU has to be reset before it is used on.
	Reset Class = "reset"
	// Reboot: the node has to be restarted.
	Reboot Class = "reboot"
	// Workflow: what has to be done depends on what else is seen. The driver's recovery action says it.
	Workflow Class = "workflow"
)

func classes() []Class { return []Class{Application, None, Reset, Reboot, Workflow} }

// Grave reports whether an error of that class makes a GPU sick by itself.
func (c Class) Grave() bool { return c == Reset || c == Reboot }

// A Table gives each XID its class. One that is not in it is of class Workflow: it is noted, and the rest of what
// the driver says decides.
type Table map[uint64]Class

// DefaultTable returns the classes of NVIDIA's catalog.
func DefaultTable() Table {
	t := Table{}
	for class, xids := range map[Class][]uint64{
		Application: {13, 31, 32, 43, 45, 68, 69, 94},
		None:        {44, 63, 92, 121, 137, 160},
		Reset:       {46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158},
		Reboot:      {79, 151},
		Workflow:    {48, 74, 144, 145, 146, 147, 148, 149, 150, 154},
	} {
		for _, xid := range xids {
			t[xid] = class
		}
	}
	return t
}

// Class returns the class of an XID.
func (t Table) Class(xid uint64) Class {
	if c, ok := t[xid]; ok {
		return c
	}
	return Workflow
}

// ErrOverride reports an override of the table that is not XID=CLASS.
var ErrOverride = errors.New("not XID=CLASS")

// Override returns the table with some classes changed, each written as XID=CLASS. All errors are ErrOverride, and
// name what was written.
func (t Table) Override(overrides []string) (Table, error) {
	out := maps.Clone(t)
	set := map[uint64]Class{}
	var errs []error
	for _, text := range overrides {
		xid, class, err := parseOverride(text)
		if before, twice := set[xid]; err == nil && twice && before != class {
			err = fmt.Errorf("%q: %w: XID %d is %s already", text, ErrOverride, xid, before)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		set[xid] = class
	}
	maps.Copy(out, set)
	return out, errors.Join(errs...)
}

// parseOverride reads XID=CLASS.
func parseOverride(text string) (uint64, Class, error) {
	number, class, ok := strings.Cut(text, "=")
	if !ok {
		return 0, "", fmt.Errorf("%q: %w", text, ErrOverride)
	}
	xid, err := strconv.ParseUint(strings.TrimSpace(number), 10, 16)
	if err != nil || xid == 0 {
		return 0, "", fmt.Errorf("%q: %w: %q is no number of an XID (1 to 65535)", text, ErrOverride, number)
	}
	c := Class(strings.TrimSpace(class))
	if !slices.Contains(classes(), c) {
		return 0, "", fmt.Errorf("%q: %w: there is no class %q; there are %s", text, ErrOverride, class, joined(classes()))
	}
	return xid, c, nil
}

func joined[T ~string](words []T) string {
	texts := make([]string, 0, len(words))
	for _, w := range words {
		texts = append(texts, string(w))
	}
	return strings.Join(texts, ", ")
}
