package measure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"pitstop.dev/test/cluster"
	"pitstop.dev/test/engine/load"
)

const (
	service     = "bench-stream"
	streamPods  = 4
	clients     = 8
	minRequests = 500
	// maxRollouts bounds how often the Pods are updated until there are enough requests.
	maxRollouts = 12
)

// ErrRequestsFailed reports that an in-place update cost requests.
var ErrRequestsFailed = errors.New("streaming requests failed")

// stream updates Pods behind a Service one after the other, under load.
func (b *bench) stream(ctx context.Context, s *subject) error {
	var subjects []*subject
	for i := range streamPods {
		spec := b.spec(b.Nodes()[i%2].Name, b.images.from)
		spec.Name, spec.Labels["app"] = fmt.Sprintf("%s-%d", service, i), service
		subjects = append(subjects, &subject{spec: spec})
	}
	if err := b.runAll(ctx, subjects); err != nil {
		return err
	}
	url, err := b.makeService(ctx, map[string]string{"app": service}, streamPods)
	if err != nil {
		return err
	}
	traffic, err := load.Start(ctx, load.Config{URL: url, Clients: clients}, b.config.Clock)
	if err != nil {
		return err
	}
	defer traffic.Stop()
	rollouts, err := b.rollUntilEnough(ctx, subjects, traffic)
	report := traffic.Stop()
	if err := errors.Join(err, b.removeAll(ctx), b.removeService(ctx)); err != nil {
		return fmt.Errorf("%w; requests: %s", err, report)
	}
	s.say("%d rollouts, %s, versions %v", rollouts, report, report.Versions)
	if err := b.addAll(s, sample{requests, float64(report.Sent)}, sample{failed, float64(report.FailedTotal())}); err != nil {
		return err
	}
	if report.FailedTotal() > 0 {
		return fmt.Errorf("%w: %s; the first: %+v", ErrRequestsFailed, report, report.Failures[0])
	}
	return nil
}

// rollUntilEnough rolls all Pods to one new image after the other. A Pod never comes back to an
// image that it ran: kubelet would wait with CrashLoopBackOff.
func (b *bench) rollUntilEnough(ctx context.Context, subjects []*subject, traffic *load.Load) (rollouts int, err error) {
	for rollouts < maxRollouts {
		rollouts++
		image, err := b.Engine(ctx, fmt.Sprintf("bench-stream-%d", rollouts), nil)
		if err != nil {
			return rollouts, err
		}
		for _, s := range subjects {
			if _, err := b.update(ctx, s.spec.Name, image, nil); err != nil {
				return rollouts, err
			}
		}
		b.progress.note("  stream: rollout %d: %s", rollouts, traffic.Report())
		if traffic.Report().Sent >= minRequests {
			return rollouts, nil
		}
	}
	return rollouts, fmt.Errorf("%d requests in %d rollouts, want %d: the clients are too slow", traffic.Report().Sent, rollouts, minRequests)
}

// makeService makes the Service of so many Pods, and returns its address once all answer behind it.
func (b *bench) makeService(ctx context.Context, selector map[string]string, pods int) (string, error) {
	svc, err := b.Core.CoreV1().Services(cluster.Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: service},
		Spec: corev1.ServiceSpec{
			Selector: selector,
			Ports:    []corev1.ServicePort{{Port: 8000, TargetPort: intstr.FromString("http")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("service %s: %w", service, err)
	}
	url := "http://" + svc.Spec.ClusterIP + ":8000"
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return b.endpoints(ctx) == pods && answers(ctx, url), nil
	})
	if err != nil {
		return "", fmt.Errorf("service %s does not answer: %w", service, err)
	}
	return url, b.rest(ctx, settle) // kube-proxy follows once a second
}

// endpoints counts the ready ones of the Service.
func (b *bench) endpoints(ctx context.Context) int {
	slices, err := b.Core.DiscoveryV1().EndpointSlices(cluster.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return 0
	}
	n := 0
	for _, slice := range slices.Items {
		for _, e := range slice.Endpoints {
			if ptr.Deref(e.Conditions.Ready, false) {
				n++
			}
		}
	}
	return n
}

func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return false
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (b *bench) removeService(ctx context.Context) error {
	err := b.Core.CoreV1().Services(cluster.Namespace).Delete(ctx, service, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete service %s: %w", service, err)
	}
	return nil
}
