package stub

import (
	"fmt"
	"strconv"
	"strings"
)

// A field binds a key of the format to a variable: *int or *string.
type field struct {
	key   string
	value any
}

func (g *GPU) fields() []field {
	return []field{
		{"uuid", &g.UUID},
		{"minor", &g.Minor},
		{"pci", &g.PCI},
		{"name", &g.Name},
		{"total", &g.Total},
		{"reserved", &g.Reserved},
		{"used", &g.Used},
		{"recovery", &g.Recovery},
		{"ecc", &g.ECC},
		{"pending", &g.Pending},
		{"failed", &g.Failed},
		{"clocks", &g.Clocks},
		{"links", &g.Links},
		{"down", &g.Down},
		{"coherent", &g.Coherent},
		{"nomem", &g.NoMem},
		{"mig", &g.InMIG},
		{"events", &g.Events},
	}
}

func (m *MIG) fields() []field {
	return []field{{"gpu", &m.GPU}, {"uuid", &m.UUID}, {"gi", &m.GI}, {"ci", &m.CI}, {"total", &m.Total}}
}

func (p *Process) fields() []field {
	return []field{
		{"gpu", &p.GPU},
		{"pid", &p.PID},
		{"ns", &p.NS},
		{"start", &p.Start},
		{"mib", &p.MiB},
		{"list", &p.List},
		{"release", &p.Release},
		{"fixed", &p.Fixed},
	}
}

func (e *Event) fields() []field {
	return []field{{"id", &e.ID}, {"gpu", &e.GPU}, {"mig", &e.MIG}, {"type", &e.Type}, {"xid", &e.XID}}
}

func (f *Fault) fields() []field {
	return []field{{"call", &f.Call}, {"gpu", &f.GPU}, {"code", &f.Code}, {"hang", &f.Hang}, {"stride", &f.Stride}}
}

// Encode writes s in the format of the package comment. What is zero is left out.
func (s State) Encode() []byte {
	var b strings.Builder
	single := func(kind, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s %s\n", kind, value)
		}
	}
	single("driver", s.Driver)
	single("calls", s.Calls)
	for _, x := range s.GPUs {
		line(&b, "gpu", x.fields())
	}
	for _, x := range s.MIGs {
		line(&b, "mig", x.fields())
	}
	for _, x := range s.Processes {
		line(&b, "process", x.fields())
	}
	for _, x := range s.Events {
		line(&b, "event", x.fields())
	}
	for _, x := range s.Faults {
		line(&b, "fault", x.fields())
	}
	return []byte(b.String())
}

func line(b *strings.Builder, kind string, fields []field) {
	b.WriteString(kind)
	for _, f := range fields {
		switch v := f.value.(type) {
		case *int:
			if *v != 0 {
				fmt.Fprintf(b, " %s=%d", f.key, *v)
			}
		case *string:
			if *v != "" {
				fmt.Fprintf(b, " %s=%s", f.key, strings.ReplaceAll(*v, " ", "_"))
			}
		}
	}
	b.WriteByte('\n')
}

// Parse reads what Encode wrote, or a person.
func Parse(data []byte) (State, error) {
	var s State
	for number, text := range strings.Split(string(data), "\n") {
		text, _, _ = strings.Cut(text, "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if err := s.add(words[0], words[1:]); err != nil {
			return State{}, fmt.Errorf("line %d: %w", number+1, err)
		}
	}
	return s, nil
}

func (s *State) add(kind string, words []string) (err error) {
	switch kind {
	case "driver":
		s.Driver = strings.Join(words, "")
	case "calls":
		s.Calls = strings.Join(words, "")
	case "gpu":
		var x GPU
		err = assign(x.fields(), words)
		s.GPUs = append(s.GPUs, x)
	case "mig":
		var x MIG
		err = assign(x.fields(), words)
		s.MIGs = append(s.MIGs, x)
	case "process":
		var x Process
		err = assign(x.fields(), words)
		s.Processes = append(s.Processes, x)
	case "event":
		var x Event
		err = assign(x.fields(), words)
		s.Events = append(s.Events, x)
	case "fault":
		var x Fault
		err = assign(x.fields(), words)
		s.Faults = append(s.Faults, x)
	}
	return err
}

func assign(fields []field, words []string) error {
	for _, word := range words {
		key, text, _ := strings.Cut(word, "=")
		for _, f := range fields {
			if f.key != key {
				continue
			}
			switch v := f.value.(type) {
			case *string:
				*v = text
			case *int:
				n, err := strconv.ParseInt(text, 0, 64)
				if err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
				*v = int(n)
			}
		}
	}
	return nil
}
