package journal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
)

const crcLen = 4

// encode returns v as it stands on disk under key: the checksum of key and JSON, and the JSON,
// with those keys of old that v does not have. Every known key must be written even when
// empty, or an old value would shine through.
func encode(key []byte, v any, old []byte) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(old) > crcLen {
		if data, err = keepUnknown(data, old[crcLen:]); err != nil {
			return nil, err
		}
	}
	return append(binary.BigEndian.AppendUint32(nil, checksum(key, data)), data...), nil
}

func keepUnknown(data, old []byte) ([]byte, error) {
	var was, is map[string]json.RawMessage
	if err := json.Unmarshal(old, &was); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &is); err != nil {
		return nil, err
	}
	n := len(is)
	maps.Copy(was, is)
	if len(was) == n {
		return data, nil
	}
	return json.Marshal(was)
}

// decode reads what encode wrote; nothing is the zero value. It returns ErrCorrupt.
func decode[T any](key, raw []byte) (T, error) {
	var v, zero T
	if raw == nil {
		return zero, nil
	}
	if len(raw) < crcLen || binary.BigEndian.Uint32(raw) != checksum(key, raw[crcLen:]) {
		return zero, fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	if err := json.Unmarshal(raw[crcLen:], &v); err != nil {
		return zero, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return v, nil
}

func checksum(key, data []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(key, table), table, data)
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
