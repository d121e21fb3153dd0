package verb

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/moby/term"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
)

// A format is what -o asks for.
type format string

// The formats.
const (
	formatText format = ""
	formatJSON format = "json"
)

func (f *format) String() string { return string(*f) }

func (f *format) Type() string { return "FORMAT" }

func (f *format) Set(s string) error {
	if format(s) != formatJSON {
		return fmt.Errorf("unknown format %q; there is: json", s)
	}
	*f = formatJSON
	return nil
}

func addOutputFlag(cmd *cobra.Command, f *format) {
	cmd.Flags().VarP(f, "output", "o", "print the result in another form: json")
}

func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// A screen prints lines that stay, and below them lines that are replaced again and again if
// it is a terminal, and are left out if not.
type screen struct {
	out   io.Writer
	width int // 0: no terminal
	live  int // lines that stand and are to be replaced
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if !printers.IsTerminal(out) {
		return s
	}
	s.width = 80
	if fd, ok := term.GetFdInfo(out); ok {
		if size, err := term.GetWinsize(fd); err == nil && size.Width > 0 {
			s.width = int(size.Width)
		}
	}
	return s
}

// print replaces the live lines by lines that stay.
func (s *screen) print(lines ...string) {
	s.clear()
	for _, l := range lines {
		fmt.Fprintln(s.out, l)
	}
}

// draw replaces the live lines.
func (s *screen) draw(lines ...string) {
	if s.width == 0 {
		return
	}
	s.clear()
	for _, l := range lines {
		if r := []rune(l); len(r) > s.width-1 { // a wrapped line could not be taken back
			l = string(r[:s.width-1])
		}
		fmt.Fprintln(s.out, l)
	}
	s.live = len(lines)
}

func (s *screen) clear() {
	if s.live > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.live)
		s.live = 0
	}
}
