package cluster

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/test/lab/await"
)

// Expose puts a Service before the engines that the labels select, and returns its URL once kube-proxy
// knows it. A Service of that name that is there already is taken as it is.
func (c *Cluster) Expose(ctx context.Context, name string, selector map[string]string) (string, error) {
	services := c.Core.CoreV1().Services(Namespace)
	svc, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: selector,
			Ports:    []corev1.ServicePort{{Port: 8000, TargetPort: intstr.FromString("http")}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		svc, err = services.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return "", fmt.Errorf("service %s: %w", name, err)
	}
	url := "http://" + svc.Spec.ClusterIP + ":8000"
	return url, await.Until(ctx, "service "+name, 30*time.Second, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
		if err != nil {
			return err
		}
		client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

// Unexpose removes the Service.
func (c *Cluster) Unexpose(ctx context.Context, name string) error {
	err := c.Core.CoreV1().Services(Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete service %s: %w", name, err)
	}
	return nil
}
