package revision

import (
	"bytes"

	appsv1 "k8s.io/api/apps/v1"
)

// Equality is what is known about two revisions. Its zero value is Unknown.
type Equality int

// The outcomes of a comparison.
const (
	// Unknown: one of the two cannot be read. Nothing may follow from it.
	Unknown Equality = iota
	// Same: Pods made from either are the same.
	Same
	// Different: they are not.
	Different
)

// String returns the outcome as a word.
func (e Equality) String() string {
	switch e {
	case Same:
		return "Same"
	case Different:
		return "Different"
	case Unknown:
	}
	return "Unknown"
}

// Compare compares what two revisions say. Their names and hashes prove nothing, either way: a hash
// may collide, and one content has two if an older build stored it in another form.
func Compare(a, b *appsv1.ControllerRevision) Equality {
	_, x, err := decode(a)
	if err != nil {
		return Unknown
	}
	_, y, err := decode(b)
	if err != nil {
		return Unknown
	}
	if bytes.Equal(x, y) {
		return Same
	}
	return Different
}
