//go:build cgo && linux

package nvml

import (
	"encoding/binary"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"pitstop.dev/gpu"
)

// Fields of GetFieldValues, of which go-nvml has no constants of their own type.
const (
	fieldRemapPending = 144
	fieldRemapFailed  = 145
	fieldRecovery     = 230
)

// health reads the condition of the GPU. What the driver does not have stays unknown, and is no fault.
func (k *look) health(h nvml.Device) {
	steps := []struct {
		feature string
		read    func(nvml.Device)
	}{
		{fFields, k.fields},
		{fECC, k.ecc},
		{fClocks, k.clocks},
		{fLinks, k.links},
	}
	for _, s := range steps {
		if k.over() {
			return
		}
		if k.has.has(s.feature) || s.feature == fClocks && k.has.has(fThrottleReasons) {
			s.read(h)
		}
	}
}

func (k *look) fields(h nvml.Device) {
	values := []nvml.FieldValue{{FieldId: fieldRecovery}, {FieldId: fieldRemapPending}, {FieldId: fieldRemapFailed}}
	if !k.ok("field values", h.GetFieldValues(values)) {
		return
	}
	flag := func(v uint64) *bool { set := v != 0; return &set }
	for _, v := range values {
		n, known := number(v)
		if !known {
			continue
		}
		switch v.FieldId {
		case fieldRecovery:
			r := gpu.Recovery(n)
			k.d.Health.Recovery = &r
		case fieldRemapPending:
			k.d.Health.RemapPending = flag(n)
		case fieldRemapFailed:
			k.d.Health.RemapFailed = flag(n)
		}
	}
}

// number is the value of a field, if it could be read and is one that counts something.
func number(v nvml.FieldValue) (n uint64, known bool) {
	if nvml.Return(v.NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	switch nvml.ValueType(v.ValueType) { //nolint:exhaustive // the others count nothing
	case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT:
		return uint64(binary.NativeEndian.Uint32(v.Value[:])), true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return binary.NativeEndian.Uint64(v.Value[:]), true
	case nvml.VALUE_TYPE_UNSIGNED_SHORT:
		return uint64(binary.NativeEndian.Uint16(v.Value[:])), true
	default:
		return 0, false
	}
}

func (k *look) ecc(h nvml.Device) {
	if n, code := h.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); k.ok("ECC errors", code) {
		k.d.Health.UncorrectedECC = &n
	}
}

func (k *look) clocks(h nvml.Device) {
	read := h.GetCurrentClocksEventReasons
	if !k.has.has(fClocks) {
		read = h.GetCurrentClocksThrottleReasons // its name in drivers before 535
	}
	if reasons, code := read(); k.ok("clock reasons", code) {
		k.d.Health.ClockEvents = &reasons
	}
}

func (k *look) links(h nvml.Device) {
	for i := range nvml.NVLINK_MAX_LINKS {
		state, code := h.GetNvLinkState(i)
		if code == nvml.ERROR_INVALID_ARGUMENT || !k.ok("NVLink", code) {
			return // there are no more
		}
		k.d.Health.Links = append(k.d.Health.Links, gpu.Link{Number: i, Active: state == nvml.FEATURE_ENABLED})
	}
}
