// Package hollow adds nodes without a machine to a cluster: every Pod of a ModelServing that the
// scheduler binds to one runs and is ready after a fixed time, and is gone at once when it is
// deleted. They stand in for kubelets where the API server and the coordinator are measured.
package hollow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"pitstop.dev/test/cluster"
)

const (
	// Label is on every hollow node, with the value "true": what a Pod has to select.
	Label = "pitstop.dev/hollow"
	// prefix starts the names of hollow nodes.
	prefix = "hollow-"
	// heartbeat is the time between two renewals of the nodes' Leases.
	heartbeat = 10 * time.Second
	leases    = "kube-node-lease"
)

// Toleration is what a Pod needs beside the selector to run on a hollow node.
func Toleration() corev1.Toleration {
	return corev1.Toleration{Key: Label, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
}

// A Config says how many nodes there are and how they behave.
type Config struct {
	Count int
	// ReadyAfter is the time from a Pod's binding to its containers being ready.
	ReadyAfter time.Duration
	Clock      clock.WithTicker
}

// Nodes are the hollow nodes of one cluster.
type Nodes struct {
	config Config
	core   kubernetes.Interface
	end    context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	seen map[types.UID]time.Time
}

// Start makes the nodes and begins to play their kubelets. The caller stops them.
func Start(ctx context.Context, api *rest.Config, c Config) (*Nodes, error) {
	own := rest.CopyConfig(api)
	own.QPS, own.Burst, own.UserAgent = 1000, 2000, "hollow-kubelet"
	core, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("hollow nodes: %w", err)
	}
	n := &Nodes{config: c, core: core, done: make(chan struct{}), seen: map[types.UID]time.Time{}}
	for i := range c.Count {
		if err := n.add(ctx, fmt.Sprintf("%s%d", prefix, i)); err != nil {
			return nil, errors.Join(err, n.remove(ctx))
		}
	}
	ctx, n.end = context.WithCancel(ctx)
	go func() {
		defer close(n.done)
		n.run(ctx)
	}()
	return n, nil
}

// Stop ends the kubelets and removes the nodes.
func (n *Nodes) Stop(ctx context.Context) error {
	n.end()
	<-n.done
	return n.remove(ctx)
}

func (n *Nodes) add(ctx context.Context, name string) error {
	nodes := n.core.CoreV1().Nodes()
	_, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			Label: "true", cluster.NoAgent: "true", corev1.LabelHostname: name, corev1.LabelOSStable: "linux",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: Label, Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("hollow node %s: %w", name, err)
	}
	if err == nil {
		much := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("4Ti"), corev1.ResourcePods: resource.MustParse("4000"),
		}
		now := metav1.NewTime(n.config.Clock.Now())
		patch, err := json.Marshal(map[string]any{"status": map[string]any{
			"capacity": much, "allocatable": much,
			"conditions": []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Hollow", LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		}})
		if err != nil {
			return fmt.Errorf("hollow node %s: %w", name, err)
		}
		// A patch: the node controller writes the node too.
		if _, err := nodes.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("hollow node %s: %w", name, err)
		}
	}
	return n.renew(ctx, name)
}

func (n *Nodes) renew(ctx context.Context, name string) error {
	now, seconds := metav1.NewMicroTime(n.config.Clock.Now()), int32(40)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: leases},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro))
	_, err := n.core.CoordinationV1().Leases(leases).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = n.core.CoordinationV1().Leases(leases).Create(ctx, lease, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("lease of hollow node %s: %w", name, err)
	}
	return nil
}

func (n *Nodes) remove(ctx context.Context) error {
	var errs []error
	for i := range n.config.Count {
		name := fmt.Sprintf("%s%d", prefix, i)
		if err := n.core.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("hollow node %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func isHollow(node string) bool { return strings.HasPrefix(node, prefix) }
