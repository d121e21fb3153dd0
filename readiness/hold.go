package readiness

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"pitstop.dev/api/v1alpha1"
)

var (
	// ErrHolder reports a holder's name that cannot be part of an annotation.
	ErrHolder = errors.New("not a legal holder")

	// ErrReserved reports a holder that only Pitstop itself may be.
	ErrReserved = errors.New("reserved holder")
)

// A Hold is one reason for which a Pod is kept out of traffic.
type Hold struct {
	Holder string // what follows v1alpha1.HoldPrefix
	Value  string // the holder's own; may be empty
}

// Holds returns the Pod's holds, sorted by holder.
func Holds(pod *corev1.Pod) []Hold {
	var holds []Hold
	for key, value := range pod.Annotations {
		if holder, ok := strings.CutPrefix(key, v1alpha1.HoldPrefix); ok {
			holds = append(holds, Hold{Holder: holder, Value: value})
		}
	}
	slices.SortFunc(holds, func(a, b Hold) int { return strings.Compare(a.Holder, b.Holder) })
	return holds
}

// Put returns the merge patch on pods by which an operator puts a hold on the Pod, or changes
// its value. It returns ErrReserved for Pitstop's own holders and ErrHolder for a name that is
// no part of an annotation. The gate follows by Sync, in the agent.
func Put(pod *corev1.Pod, holder, value string) ([]byte, error) {
	return operatorPatch(pod, holder, &value)
}

// Release returns the merge patch on pods by which an operator takes a hold back. To release
// what is not held changes nothing. Errors are those of Put.
func Release(pod *corev1.Pod, holder string) ([]byte, error) {
	return operatorPatch(pod, holder, nil)
}

func operatorPatch(pod *corev1.Pod, holder string, value *string) ([]byte, error) {
	key := v1alpha1.HoldPrefix + holder
	switch key {
	case v1alpha1.HoldInPlace, v1alpha1.HoldUnit, v1alpha1.HoldDevice, v1alpha1.HoldGPUHealth:
		return nil, fmt.Errorf("hold of %q: %w", holder, ErrReserved)
	}
	if errs := validation.IsQualifiedName(key); len(errs) > 0 {
		return nil, fmt.Errorf("hold of %q: %w: %s", holder, ErrHolder, strings.Join(errs, "; "))
	}
	p, err := patchOf(pod)
	if err != nil {
		return nil, err
	}
	p.Metadata.Annotations = map[string]*string{key: value}
	return p.encode()
}
