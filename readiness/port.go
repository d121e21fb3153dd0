package readiness

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// ErrNoPort reports that a Pod does not say where its engine serves metrics.
var ErrNoPort = errors.New("no metrics port")

// defaultPort is the name of the container port that serves metrics if no annotation says so.
const defaultPort = "http"

// metricsPort returns the port of the engine's metrics: the annotation's, by number or name, or
// the container port named "http". An annotation that leads nowhere is ErrNoPort: no guess.
func metricsPort(pod *corev1.Pod) (int32, error) {
	name, named := pod.Annotations[v1alpha1.MetricsPort]
	if n, err := strconv.ParseUint(name, 10, 16); err == nil && n > 0 {
		return int32(n), nil
	}
	if !named {
		name = defaultPort
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == name && name != "" && isTCP(p) {
				return p.ContainerPort, nil
			}
		}
	}
	if named {
		return 0, fmt.Errorf("%w: annotation %s is %q: no number and no TCP container port", ErrNoPort, v1alpha1.MetricsPort, name)
	}
	return 0, fmt.Errorf("%w: %w: no container port %q and no annotation %s", ErrUnmeasured, ErrNoPort, defaultPort, v1alpha1.MetricsPort)
}

func isTCP(p corev1.ContainerPort) bool {
	return cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP
}
