//go:build cgo && linux

package nvml

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/gpu"
)

const none32 = gpu.NoInstance

func TestUnite(t *testing.T) {
	for name, tt := range map[string]struct{ a, b, want []gpu.Process }{
		"a process of both lists is one, with the larger size": {
			[]gpu.Process{{PID: 9, UsedMiB: 100, GI: none32, CI: none32}},
			[]gpu.Process{{PID: 9, UsedMiB: 300, GI: none32, CI: none32}, {PID: 3, UsedMiB: 1, GI: none32, CI: none32}},
			[]gpu.Process{{PID: 3, UsedMiB: 1, GI: none32, CI: none32}, {PID: 9, UsedMiB: 300, GI: none32, CI: none32}},
		},
		"a known size beats an unknown one": {
			[]gpu.Process{{PID: 9, UsedMiB: -1}}, []gpu.Process{{PID: 9}}, []gpu.Process{{PID: 9}},
		},
		"an instance is kept": {
			[]gpu.Process{{PID: 9, GI: none32, CI: none32}}, []gpu.Process{{PID: 9, GI: 3, CI: 1}}, []gpu.Process{{PID: 9, GI: 3, CI: 1}},
		},
		"two instances are two": {
			[]gpu.Process{{PID: 9, GI: 3}}, []gpu.Process{{PID: 9, GI: 4}}, []gpu.Process{{PID: 9, GI: 3}, {PID: 9, GI: 4}},
		},
		"PID 0 is nobody in particular": {
			[]gpu.Process{{PID: 0, UsedMiB: 5}}, []gpu.Process{{PID: 0, UsedMiB: 5}}, []gpu.Process{{PID: 0, UsedMiB: 5}, {PID: 0, UsedMiB: 5}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, unite(tt.a, tt.b)); diff != "" {
				t.Errorf("unite() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConvert(t *testing.T) {
	memory := &gpu.Memory{Total: 1000}
	for name, tt := range map[string]struct {
		in   nvml.ProcessInfo
		want []gpu.Process
	}{
		"bytes become MiB":                       {nvml.ProcessInfo{Pid: 7, UsedGpuMemory: 512 << 20}, []gpu.Process{{PID: 7, UsedMiB: 512}}},
		"all ones is unknown, not a huge number": {nvml.ProcessInfo{Pid: 7, UsedGpuMemory: allOnes}, []gpu.Process{{PID: 7, UsedMiB: -1}}},
		"no process has such a PID":              {nvml.ProcessInfo{Pid: 1 << 31}, nil},
		"no process holds more than there is":    {nvml.ProcessInfo{Pid: 7, UsedGpuMemory: 1001 << 20}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := convert([]nvml.ProcessInfo{tt.in}, memory)
			if diff := cmp.Diff(tt.want, got); diff != "" || (why == "") != (tt.want != nil) {
				t.Errorf("convert(): %q (-want +got):\n%s", why, diff)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	value := func(n uint64) (v [8]byte) {
		binary.NativeEndian.PutUint64(v[:], n)
		return v
	}
	for name, tt := range map[string]struct {
		in    nvml.FieldValue
		want  uint64
		known bool
	}{
		"32 bits: the rest is not defined": {nvml.FieldValue{ValueType: uint32(nvml.VALUE_TYPE_UNSIGNED_INT), Value: value(7<<32 | 2)}, 2, true},
		"64 bits":                          {nvml.FieldValue{ValueType: uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG), Value: value(7<<32 | 2)}, 7<<32 | 2, true},
		"a field that could not be read":   {nvml.FieldValue{ValueType: uint32(nvml.VALUE_TYPE_UNSIGNED_INT), NvmlReturn: uint32(nvml.ERROR_NOT_SUPPORTED)}, 0, false},
		"a fraction":                       {nvml.FieldValue{ValueType: uint32(nvml.VALUE_TYPE_DOUBLE), Value: value(2)}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if n, known := number(tt.in); n != tt.want || known != tt.known {
				t.Errorf("number() = %d, %t, want %d, %t", n, known, tt.want, tt.known)
			}
		})
	}
}

func TestTheTableOfSymbols(t *testing.T) {
	for name, tt := range map[string]struct {
		symbols       []string
		has, missing  string
		wantedMissing bool
	}{
		"an older version is enough":        {[]string{"nvmlInit"}, fInit, fInit, false},
		"without any version it is missing": {nil, "", fInit, true},
		"a newer one needs its own name":    {[]string{"nvmlDeviceGetMemoryInfo"}, fMemory, fMemory2, true},
		"the older name of clock reasons":   {[]string{fThrottleReasons}, fThrottleReasons, fClocks, false},
	} {
		t.Run(name, func(t *testing.T) {
			table := lookUp(func(symbol string) bool { return slices.Contains(tt.symbols, symbol) })
			if tt.has != "" && !table.has(tt.has) {
				t.Errorf("%s is not there", tt.has)
			}
			if got := slices.Contains(table.missing(allFeatures()...), tt.missing); got != tt.wantedMissing {
				t.Errorf("%s missing: %t", tt.missing, got)
			}
		})
	}
}

func TestExplainKnowsEveryCodeThatItTellsApart(t *testing.T) {
	for _, code := range []nvml.Return{9, 15, 18, 999} {
		if words := explain(code); words == explain(12345) || words[0] == 'N' {
			t.Errorf("code %d is %q", code, words)
		}
	}
}

func TestAWaitThatDoesNotReturnHearsNothing(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	w := newWatcher(nil, clk, nil)
	w.note("")
	clk.Step(eventStale)
	if w.blind() {
		t.Error("blind while it waits")
	}
	clk.Step(time.Second)
	if !w.blind() {
		t.Error("not blind, though the wait does not return")
	}
}
