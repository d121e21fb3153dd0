// Package server is the test inference engine: it behaves towards Kubernetes, towards a drain
// and towards its clients as an LLM engine does, and misbehaves where its Config says so.
//
//	GET  /health          503 while it loads, then 200
//	GET  /metrics         vllm:num_requests_running, vllm:num_requests_waiting
//	GET  /version         version, id of this start, id of the first start that saw the state folder
//	GET, POST /v1/completions?duration=1s&chunks=10
//	                      a stream of server-sent events that ends with "data: [DONE]"
//
// It has no state but the folder it is given, and no dependency that would keep its image from being one static
// binary. GPUs that it is given are the lab's, which are none: it takes memory of them by package claim.
package server

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The environment variables that Config is read from. An image sets them as well as a Pod: the
// image is what an in-place update changes.
const (
	// EnvAddress is where to listen. Default ":8000".
	EnvAddress = "PITSTOP_ENGINE_ADDRESS"
	// EnvVersion is told to every client. Default "unversioned".
	EnvVersion = "PITSTOP_ENGINE_VERSION"
	// EnvModel is the label model_name of the metrics. Default "test".
	EnvModel = "PITSTOP_ENGINE_MODEL"
	// EnvState is a folder that outlives the container: an emptyDir. Default none.
	EnvState = "PITSTOP_ENGINE_STATE"
	// EnvLoad is how long /health says 503. Default 0s.
	EnvLoad = "PITSTOP_ENGINE_LOAD"
	// EnvSlots is how many requests run at a time; the others wait. Default 256.
	EnvSlots = "PITSTOP_ENGINE_SLOTS"
	// EnvClaimMiB is the memory that the engine claims while it loads. Default 0.
	EnvClaimMiB = "PITSTOP_ENGINE_CLAIM_MIB"
	// EnvIgnoreSIGTERM makes the engine deaf to SIGTERM. Default false.
	EnvIgnoreSIGTERM = "PITSTOP_ENGINE_IGNORE_SIGTERM"
	// EnvGrace bounds the wait for running streams after SIGTERM. Default 30s.
	EnvGrace = "PITSTOP_ENGINE_GRACE"
	// EnvShutdown is how long the engine takes to end after its last stream. Default 0s.
	EnvShutdown = "PITSTOP_ENGINE_SHUTDOWN"
	// EnvCrashAfter ends the engine with exit code 1 that long after its start; 0s is at once.
	// Default: never.
	EnvCrashAfter = "PITSTOP_ENGINE_CRASH_AFTER"
	// EnvCrashTimes limits crashes to the first starts of this version, counted in the state
	// folder. With it EnvCrashAfter is 0s by default. Default: every start.
	EnvCrashTimes = "PITSTOP_ENGINE_CRASH_TIMES"
	// EnvEntry is the URL of the entry engine of a group, such as http://$(ENTRY_ADDRESS):8000: this
	// engine is a worker, and loads once the entry answers there. Default none.
	EnvEntry = "PITSTOP_ENGINE_ENTRY"
	// EnvFollow makes a worker end with exit code 1 once its entry is gone or was started anew, as
	// the ranks of a process group do. Default false.
	EnvFollow = "PITSTOP_ENGINE_FOLLOW"
	// EnvGPUs are the UUIDs of its GPUs, with commas between them: the device plugin sets it. Default none.
	EnvGPUs = "NVIDIA_VISIBLE_DEVICES"
	// EnvGPUMiB is what the engine takes of each of them before it loads. Default 0.
	EnvGPUMiB = "PITSTOP_ENGINE_GPU_MIB"
	// EnvGPURelease is how long that stays taken after the engine has ended: a duration, or "never" for a leak.
	// Default 0s.
	EnvGPURelease = "PITSTOP_ENGINE_GPU_RELEASE"
	// EnvGPUSocket is where package claim asks for it; the node sets it with the GPUs. Default none.
	EnvGPUSocket = "PITSTOP_GPU_CLAIMS"
)

// A Config says how the engine behaves. FromEnv makes one with defaults.
type Config struct {
	Address string // where to listen
	Version string // told to every client; at most 63 letters, digits, '.', '_' and '-'
	Model   string // label model_name of the metrics
	State   string // folder that outlives the container; empty: none

	Load     time.Duration // how long /health says 503
	Slots    int           // requests that run at a time
	ClaimMiB int           // memory claimed while loading

	IgnoreSIGTERM bool          // read by the caller of Run
	Grace         time.Duration // bound on the wait for running streams at the end
	Shutdown      time.Duration // time from the last stream to the end

	CrashAfter *time.Duration // time from the start to a crash; nil: none
	CrashTimes int            // starts that crash; 0: every one

	Entry  string // URL of the entry engine, which is waited for; empty: none
	Follow bool   // ends with its entry

	GPUs       []string      // UUIDs
	GPUMiB     int           // taken of each
	GPURelease time.Duration // that it stays taken after the end; negative: for ever
	GPUSocket  string        // where to ask for it
}

// FromEnv reads a Config with lookup, which has the signature of os.LookupEnv, and validates it.
func FromEnv(lookup func(string) (string, bool)) (Config, error) {
	e := env{lookup: lookup}
	c := Config{
		Address:       e.text(EnvAddress, ":8000"),
		Version:       e.text(EnvVersion, "unversioned"),
		Model:         e.text(EnvModel, "test"),
		State:         e.text(EnvState, ""),
		Load:          e.duration(EnvLoad, 0),
		Slots:         e.number(EnvSlots, 256),
		ClaimMiB:      e.number(EnvClaimMiB, 0),
		IgnoreSIGTERM: e.fact(EnvIgnoreSIGTERM),
		Grace:         e.duration(EnvGrace, 30*time.Second),
		Shutdown:      e.duration(EnvShutdown, 0),
		CrashTimes:    e.number(EnvCrashTimes, 0),
		Entry:         e.text(EnvEntry, ""),
		Follow:        e.fact(EnvFollow),
		GPUs:          e.devices(),
		GPUMiB:        e.number(EnvGPUMiB, 0),
		GPURelease:    e.release(),
		GPUSocket:     e.text(EnvGPUSocket, ""),
	}
	if _, ok := lookup(EnvCrashAfter); ok || c.CrashTimes > 0 {
		after := e.duration(EnvCrashAfter, 0)
		c.CrashAfter = &after
	}
	return c, errors.Join(append(e.errs, c.Validate())...)
}

// Validate reports every field that the engine cannot work with.
func (c Config) Validate() error {
	var errs []error
	if !plain(c.Version) {
		errs = append(errs, fmt.Errorf("version %q: want 1 to 63 letters, digits, '.', '_', '-'", c.Version))
	}
	if c.Slots < 1 {
		errs = append(errs, fmt.Errorf("slots %d: want at least 1", c.Slots))
	}
	if c.ClaimMiB < 0 || c.ClaimMiB > 1<<20 {
		errs = append(errs, fmt.Errorf("claim %d MiB: want 0 to 1 TiB", c.ClaimMiB))
	}
	if c.CrashTimes > 0 && c.State == "" {
		errs = append(errs, fmt.Errorf("%s needs %s: crashes are counted there", EnvCrashTimes, EnvState))
	}
	if u, err := url.Parse(c.Entry); c.Entry != "" && (err != nil || u.Scheme != "http" || u.Host == "") {
		errs = append(errs, fmt.Errorf("entry %q: want http://HOST:PORT", c.Entry))
	}
	if c.Follow && c.Entry == "" {
		errs = append(errs, fmt.Errorf("%s needs %s", EnvFollow, EnvEntry))
	}
	if len(c.GPUs) > 0 && c.GPUMiB > 0 && c.GPUSocket == "" {
		errs = append(errs, fmt.Errorf("memory of %d GPUs needs %s", len(c.GPUs), EnvGPUSocket))
	}
	return errors.Join(errs...)
}

// plain keeps a version usable in file names, labels and metrics.
func plain(s string) bool {
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		default:
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 63
}

// env reads variables and gathers what is wrong with them.
type env struct {
	lookup func(string) (string, bool)
	errs   []error
}

func (e *env) text(name, fallback string) string {
	if v, ok := e.lookup(name); ok && v != "" {
		return v
	}
	return fallback
}

func (e *env) duration(name string, fallback time.Duration) time.Duration {
	v, ok := e.lookup(name)
	if !ok || v == "" {
		return fallback
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		e.errs = append(e.errs, fmt.Errorf("%s=%q: want a duration such as 1.5s", name, v))
	}
	return d
}

func (e *env) number(name string, fallback int) int {
	v, ok := e.lookup(name)
	if !ok || v == "" {
		return fallback
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		e.errs = append(e.errs, fmt.Errorf("%s=%q: want a number", name, v))
	}
	return n
}

// devices are the GPUs; the words that mean none are those of NVIDIA's container runtime.
func (e *env) devices() []string {
	text := e.text(EnvGPUs, "")
	if text == "" || text == "void" || text == "none" {
		return nil
	}
	return strings.Split(text, ",")
}

func (e *env) release() time.Duration {
	if e.text(EnvGPURelease, "") == "never" {
		return -1
	}
	return e.duration(EnvGPURelease, 0)
}

func (e *env) fact(name string) bool {
	v, ok := e.lookup(name)
	if !ok || v == "" {
		return false
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s=%q: want true or false", name, v))
	}
	return b
}
