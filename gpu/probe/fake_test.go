package probe

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/probe/wire"
)

// TestMain is the fake child too, where the client under test starts this binary anew.
func TestMain(m *testing.M) {
	if dir := os.Getenv(fakeDir); dir != "" {
		os.Exit(fakeChild(dir, strings.Split(os.Getenv(fakeModes), ",")))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		atExit()
		os.Exit(code)
	}))
}

// atExit removes what the tests have built.
var atExit = func() {}

// The fake child has a folder, where the file starts gets a line per start and the file bye one per orderly end, and
// one mode for each start; the last one is for all that follow.
const (
	fakeDir   = "PITSTOP_FAKE_PROBE"
	fakeModes = "PITSTOP_FAKE_PROBE_MODES"
)

func fakeChild(dir string, modes []string) int {
	note(dir, "starts", fmt.Sprint(os.Getpid()))
	n := len(lines(dir, "starts"))
	mode := modes[min(n, len(modes))-1]
	out := json.NewEncoder(os.Stdout)
	hello := wire.Hello{Protocol: wire.Protocol, State: gpu.Up, Driver: fmt.Sprint("start ", n)}
	switch mode {
	case "mute":
		hang()
	case "dead":
		fmt.Fprintln(os.Stderr, "first words")
		fmt.Fprintln(os.Stderr, "symbol lookup error: undefined symbol: nvmlFoo")
		return 127
	case "garbled":
		fmt.Println("Initialising NVML, please wait")
		hang()
	case "endless":
		for {
			if _, err := fmt.Print(strings.Repeat("x", 1<<16)); err != nil {
				return 1
			}
		}
	case "other protocol":
		hello.Protocol++
	case "absent":
		hello.State, hello.Message = gpu.Absent, "no such library"
	case "refused":
		hello.State, hello.Message = gpu.Unknown, "code 9"
	}
	if out.Encode(wire.Message{Hello: &hello}) != nil {
		return 1
	}
	return serve(dir, mode, out)
}

// serve answers. More than one request at a time is an error of the client.
func serve(dir, mode string, out *json.Encoder) int {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var r wire.Request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return 3
		}
		if r.Verb == wire.Shutdown && mode != "hangs" {
			note(dir, "bye", "")
			return 0
		}
		reading := gpu.Reading{State: gpu.Up, Driver: fmt.Sprint("start ", len(lines(dir, "starts")))}
		switch mode {
		case "hangs":
			continue
		case "dies":
			return 1
		case "another driver":
			reading = gpu.Reading{State: gpu.Unknown, Message: "code 18"}
		case "late":
			_ = out.Encode(wire.Message{ID: r.ID - 1, Reading: &gpu.Reading{State: gpu.Up, Driver: "of another request"}})
		}
		_ = out.Encode(wire.Message{Event: &gpu.Event{Kind: gpu.EventXID, XID: r.ID}})
		if out.Encode(wire.Message{ID: r.ID, Reading: &reading}) != nil {
			return 1
		}
	}
	if mode == "hangs" {
		hang()
	}
	note(dir, "bye", "")
	return 0
}

// hang waits for long. With nothing to wait for, the Go runtime would call it a deadlock and end the process.
func hang() { <-time.After(time.Hour) }

func note(dir, file, line string) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, line)
	_ = f.Close()
}

func lines(dir, file string) []string {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil || len(data) == 0 { // made, and not yet written
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}
