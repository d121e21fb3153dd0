//go:build lab

// Package deploy_test holds the manifests against a real API server, with the agent's own
// credentials: what must be denied is, and what the agent needs is not.
package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/lab"
	"pitstop.dev/test/lab/await"
)

const (
	system = "pitstop-system"
	apps   = "default" // where the Pods are that the agent works on
	node1  = "node1"
	node2  = "node2.example.com"
)

// plane is the API server of all tests of this package, with deploy/base applied, and the
// coordinator's webhook beside it.
var plane struct {
	*lab.ControlPlane
	admin, coordinator client
	webhook            string // its URL
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "pitstop-deploy-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	plane.ControlPlane, err = lab.StartControlPlane(ctx, lab.Config{StateDir: dir, Log: os.Stderr})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, plane.Close(ctx)) }()
	if plane.admin, err = clientFor(plane.RESTConfig()); err != nil {
		return 0, err
	}
	if out, err := kubectl(ctx, nil, "apply", "--server-side", "-k", "base"); err != nil {
		return 0, fmt.Errorf("apply deploy/base: %w\n%s", err, out)
	}
	for _, name := range []string{node1, node2} {
		if err := plane.admin.node(ctx, name); err != nil {
			return 0, err
		}
	}
	webhook, err := startWebhook(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, webhook.close()) }()
	if err := enforced(ctx); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

func kubectl(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, plane.Binary("kubectl"), append([]string{"--kubeconfig=" + plane.KubeconfigPath()}, args...)...)
	cmd.Stdin = stdin
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// enforced waits until the API server has seen every policy: it learns of them by a watch.
func enforced(ctx context.Context) error {
	policies, err := plane.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pod, err := plane.admin.pod(ctx, "enforced", func(*corev1.Pod) {})
	if err != nil {
		return err
	}
	agent, err := agentOn(ctx, node2)
	if err != nil {
		return err
	}
	ms, err := plane.admin.serving(ctx, nil)
	if err != nil {
		return err
	}
	dry := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	patch := func(c client, pod *corev1.Pod, data string, sub ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := c.CoreV1().Pods(apps).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(data), dry, sub...)
			return err
		}
	}
	patchNode := func(node string) func(context.Context) error {
		return func(ctx context.Context) error {
			data := []byte(`{"metadata":{"labels":{"x":"y"}}}`)
			_, err := agent.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, data, dry, "status")
			return err
		}
	}
	tries := map[string]func(context.Context) error{
		"pitstop-agent-pods":        patch(agent, pod, `{"metadata":{"labels":{"x":"y"}}}`),
		"pitstop-agent-pod-status":  patch(agent, pod, `{"metadata":{"labels":{"x":"y"}}}`, "status"),
		"pitstop-agent-node":        patchNode(node1),
		"pitstop-agent-node-status": patchNode(node2),
		"pitstop-holds":             patch(plane.admin, pod, `{"metadata":{"annotations":{"`+v1alpha1.HoldInPlace+`":"x"}}}`),
		"pitstop-orders": func(ctx context.Context) error {
			u := orderFor("enforced", func(s *v1alpha1.InPlaceUpdateSpec) { s.ServingGroupUID = "x" })
			return plane.admin.orders.Post().Namespace(apps).Resource("inplaceupdates").Param("dryRun", "All").Body(u).Do(ctx).Error()
		},
		"pitstop-modelservings": func(ctx context.Context) error {
			data := []byte(`{"spec":{"replicas":3}}`)
			return plane.coordinator.orders.Patch(types.MergePatchType).Namespace(apps).Resource("modelservings").Name(ms.Name).
				Param("dryRun", "All").Body(data).Do(ctx).Error()
		},
		"pitstop-servinggroups": func(ctx context.Context) error {
			return plane.admin.orders.Post().Namespace(apps).Resource("servinggroups").Param("dryRun", "All").Body(group("enforced")).Do(ctx).Error()
		},
	}
	if len(policies.Items) != len(tries) {
		return fmt.Errorf("%d policies applied, %d known", len(policies.Items), len(tries))
	}
	for policy, try := range tries {
		err := await.Until(ctx, policy, 30*time.Second, func(ctx context.Context) error {
			if err := try(ctx); err == nil || !strings.Contains(err.Error(), policy) {
				return errors.Join(errors.New("not denied by it"), err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// agentOn is the agent of a node: its service account's token, bound to a Pod there.
func agentOn(ctx context.Context, node string) (client, error) {
	pod, err := plane.admin.CoreV1().Pods(system).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pitstop-agent-"},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "pitstop-agent",
			Containers: []corev1.Container{{Name: "agent", Image: "pitstop-agent:dev"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return client{}, err
	}
	return account(ctx, lab.Account{Namespace: system, Name: "pitstop-agent", Pod: pod.Name, PodUID: pod.UID})
}

func account(ctx context.Context, a lab.Account) (client, error) {
	access, err := plane.ServiceAccount(ctx, a)
	if err != nil {
		return client{}, err
	}
	return clientFor(access)
}

// as is the access of a user of that name, who has what rights a test gives.
func as(t *testing.T, user string) client {
	t.Helper()
	access := plane.RESTConfig()
	access.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return must(clientFor(access))(t)
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// denied reports an err that does not say want; want "" means allowed.
func denied(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("denied: %v", err)
	case want != "" && err == nil:
		t.Errorf("allowed; want a denial that says %q", want)
	case want != "" && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
		t.Errorf("neither forbidden nor invalid: %v", err)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("denied without %q: %v", want, err)
	}
}

// A client is a clientset with what these tests do often.
type client struct {
	*kubernetes.Clientset
	orders rest.Interface
}

func clientFor(c *rest.Config) (client, error) {
	set, err := kubernetes.NewForConfig(c)
	if err != nil {
		return client{}, err
	}
	orders, err := ordersClient(c)
	return client{Clientset: set, orders: orders}, err
}

func (c client) node(ctx context.Context, name string) error {
	node, err := c.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = c.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// pod makes a running, gated Pod on node1, after change.
func (c client) pod(ctx context.Context, name string, change func(*corev1.Pod)) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: name + "-",
			Labels:       map[string]string{"app": "llm", v1alpha1.LabelRevision: "a"},
			Annotations:  map[string]string{"team": "x", v1alpha1.HoldUnit: "y"},
			Finalizers:   []string{"example.com/f"},
		},
		Spec: corev1.PodSpec{
			NodeName:       node1,
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: v1alpha1.InService}},
			InitContainers: []corev1.Container{{Name: "init", Image: "init:1"}},
			Containers: []corev1.Container{
				{Name: "engine", Image: "engine:1", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}},
				{Name: "peer", Image: "peer:1"},
			},
		},
	}
	change(pod)
	pod, err := c.CoreV1().Pods(apps).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "198.18.0.9", PodIPs: []corev1.PodIP{{IP: "198.18.0.9"}}, StartTime: &metav1.Time{Time: time.Unix(1e9, 0)},
		Conditions: []corev1.PodCondition{
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady"},
		},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "engine", Image: "engine:1", ImageID: "sha256:1", ContainerID: "containerd://1", Ready: true, Started: new(true)},
			{Name: "peer", Image: "peer:1", ImageID: "sha256:2", ContainerID: "containerd://2", Ready: true, Started: new(true)},
		},
	}
	return c.CoreV1().Pods(apps).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
}

func (c client) patch(ctx context.Context, pod *corev1.Pod, t types.PatchType, data string, sub ...string) error {
	_, err := c.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, t, []byte(data), metav1.PatchOptions{}, sub...)
	return err
}

func (c client) merge(ctx context.Context, pod *corev1.Pod, data string, sub ...string) error {
	return c.patch(ctx, pod, types.StrategicMergePatchType, data, sub...)
}

func (c client) mergeNode(ctx context.Context, node, data string) error {
	_, err := c.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(data), metav1.PatchOptions{}, "status")
	return err
}
