package stub

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheFormatKeepsWhatIsWritten(t *testing.T) {
	want := State{
		Driver: "570.86.15", Calls: "/tmp/calls",
		GPUs:      []GPU{{UUID: "GPU-a", PCI: "00000000:17:00.0", Name: "H200", Minor: 1, Total: 143771, Recovery: 2, ECC: -1, InMIG: 1, Events: 8}},
		MIGs:      []MIG{{GPU: "GPU-a", UUID: "MIG-a", GI: 3, CI: 1, Total: 20}},
		Processes: []Process{{GPU: "MIG-a", PID: 7, NS: 4026531836, Start: 99, MiB: -1, List: "mps", Release: -1, Fixed: 1}},
		Events:    []Event{{ID: 1, GPU: "GPU-a", MIG: "MIG-a", Type: TypeUnavailable, XID: 79}},
		Faults:    []Fault{{Call: "*", GPU: "GPU-a", Code: 15, Hang: 1, Stride: 1}},
	}
	got, err := Parse(want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse(Encode()) (-want +got):\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		want  State
		error string
	}{
		"nothing":                          {"\n# nothing\n", State{}, ""},
		"comments, and keys of the future": {"gpu uuid=a colour=red # here\nfan speed=3\n", State{GPUs: []GPU{{UUID: "a"}}}, ""},
		"numbers to base 16":               {"event type=0x4000\n", State{Events: []Event{{Type: TypeUnavailable}}}, ""},
		"a word where a number should be":  {"driver 1\ngpu minor=one\n", State{}, `line 2: minor: strconv.ParseInt: parsing "one"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(tt.text))
			if (err == nil) != (tt.error == "") || err != nil && !strings.Contains(err.Error(), tt.error) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Parse() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClaimsOfManyAtATime(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), FileName)}
	var claims sync.WaitGroup
	for _, pid := range []int{os.Getpid(), os.Getppid()} {
		for _, device := range []string{"GPU-a", "GPU-b", "GPU-c", "GPU-d"} {
			claims.Go(func() {
				for _, mib := range []int{1000, 2000} {
					if err := f.Claim(t.Context(), pid, device, mib); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	claims.Wait()
	s, err := f.Read()
	if err != nil || len(s.Processes) != 8 {
		t.Fatalf("%d processes, %v", len(s.Processes), err)
	}
	for _, p := range s.Processes {
		if p.MiB != 2000 || p.NS == 0 || p.Start == 0 {
			t.Errorf("process %+v", p)
		}
	}
	if err := f.Free(t.Context(), os.Getpid(), "GPU-a"); err != nil {
		t.Fatal(err)
	}
	if err := f.Free(t.Context(), os.Getppid(), ""); err != nil {
		t.Fatal(err)
	}
	if s, err = f.Read(); err != nil || len(s.Processes) != 3 {
		t.Errorf("%+v, %v", s.Processes, err)
	}
	if rest, _ := filepath.Glob(f.Path + ".*"); !slices.Equal(rest, []string{f.Path + ".lock"}) {
		t.Errorf("left behind: %q", rest)
	}
}

func TestRaiseNumbersEvents(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), FileName)}
	for _, xid := range []int{79, 13} {
		if err := f.Raise(t.Context(), Event{XID: xid}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := f.Read()
	if diff := cmp.Diff([]Event{{ID: 1, XID: 79}, {ID: 2, XID: 13}}, s.Events); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
