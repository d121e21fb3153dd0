//go:build lab

package lab_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pitstop.dev/test/lab"
	"pitstop.dev/test/lab/await"
)

const podLimit = time.Minute

// config is that of a lab beside the machine's usual one.
func config(nodes int) lab.Config {
	return lab.Config{Nodes: nodes, StateDir: "/var/lib/pitstop-lab-test", Log: os.Stderr}
}

// up brings the lab up and takes it down at the end of the test, which fails if anything
// of it is left on the machine.
func up(t *testing.T, nodes int) *lab.Lab {
	t.Helper()
	before := swept(t)
	t.Cleanup(func() {
		if err := lab.Down(context.Background(), config(0)); err != nil {
			t.Error(err)
		}
		unchanged(t, before)
	})
	l, err := lab.Up(t.Context(), config(nodes))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// swept removes what a test that was killed has left, and returns the machine as it is then.
func swept(t *testing.T) map[string][]string {
	t.Helper()
	if err := lab.Down(t.Context(), config(0)); err != nil {
		t.Fatal(err)
	}
	return machine(t)
}

func TestLab(t *testing.T) {
	l := up(t, 2)
	client := clientFor(t, l.RESTConfig())
	address := serve(t, client, pushServer(t, l))

	t.Run("Pods run on both nodes", func(t *testing.T) {
		nodes := map[string]bool{}
		for _, p := range pods(t, client) {
			nodes[p.Spec.NodeName] = true
		}
		if len(nodes) != 2 {
			t.Errorf("Pods on %v", nodes)
		}
	})
	t.Run("a Service answers", func(t *testing.T) { answers(t, address) })
	t.Run("a Service answers Pods", func(t *testing.T) {
		for _, n := range l.Nodes() {
			answersInside(t, n, address)
		}
	})
	t.Run("logs come through the API server", func(t *testing.T) {
		out, err := l.Kubectl(t.Context(), "logs", "-l", "app=web")
		if err != nil || !strings.Contains(out, "GET /v2/") {
			t.Errorf("logs: %q, %v", out, err)
		}
	})
	t.Run("a second Up changes nothing", func(t *testing.T) {
		before := records(t)
		if _, err := lab.Up(t.Context(), config(2)); err != nil {
			t.Fatal(err)
		}
		if after := records(t); after != before {
			t.Errorf("processes before:\n%s\nafter:\n%s", before, after)
		}
	})
	t.Run("containers outlive kubelet and containerd", func(t *testing.T) {
		before := containers(t, client)
		for _, n := range l.Nodes() {
			if err := errors.Join(n.RestartKubelet(t.Context()), n.RestartContainerd(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		answers(t, address)
		if after := containers(t, client); after != before {
			t.Errorf("containers before:\n%s\nafter:\n%s", before, after)
		}
	})
	t.Run("Up starts again what has died, and adds a node", func(t *testing.T) {
		before := containers(t, client)
		for _, name := range []string{"kube-scheduler", "node1-kubelet", "node2-mounts", "kube-apiserver"} {
			kill(t, name)
		}
		if _, err := lab.Up(t.Context(), config(3)); err != nil {
			t.Fatal(err)
		}
		if err := lab.Status(t.Context(), config(3), os.Stderr); err != nil {
			t.Error(err)
		}
		if after := containers(t, client); after != before {
			t.Errorf("containers before:\n%s\nafter:\n%s", before, after)
		}
		scale(t, client, 9)
		answers(t, address)
	})
}

func TestDownAfterAnUpThatWasCut(t *testing.T) {
	before := swept(t)
	for _, cut := range []time.Duration{100 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), cut)
		_, err := lab.Up(ctx, config(1))
		cancel()
		if err == nil {
			t.Errorf("a lab is up within %s", cut)
		}
		for range 2 { // twice is the same as once
			if err := lab.Down(t.Context(), config(0)); err != nil {
				t.Fatal(err)
			}
		}
		unchanged(t, before)
	}
}

func TestDownOfALabThatIsDamaged(t *testing.T) {
	for name, damage := range map[string]func(*testing.T, *lab.Lab){
		"its state is gone": func(t *testing.T, _ *lab.Lab) {
			t.Helper()
			must(t, os.RemoveAll(filepath.Join(config(0).StateDir, "lab.json")))
		},
		"its folder is gone": func(t *testing.T, _ *lab.Lab) {
			t.Helper()
			must(t, await.Until(t.Context(), "the removal", 5*time.Second, func(context.Context) error {
				return os.RemoveAll(config(0).StateDir) // others write to it meanwhile
			}))
		},
		"every process but the containers was killed": func(t *testing.T, l *lab.Lab) {
			t.Helper()
			serve(t, clientFor(t, l.RESTConfig()), pushServer(t, l))
			for _, name := range names(t) {
				kill(t, name)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := up(t, 1)
			damage(t, l)
		})
	}
}

// pushServer stores an image that serves HTTP and returns its reference.
func pushServer(t *testing.T, l *lab.Lab) string {
	t.Helper()
	server, err := os.ReadFile(l.Binary("registry"))
	must(t, err)
	img, err := lab.StaticImage("/server", server)
	must(t, err)
	must(t, l.Push(t.Context(), "server:v1", img))
	return l.Registry().Ref("server:v1")
}

// serve runs four servers behind a Service and returns its address.
func serve(t *testing.T, client *kubernetes.Clientset, image string) string {
	t.Helper()
	labels := map[string]string{"app": "web"}
	replicas, grace := int32(4), int64(1)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					Containers: []corev1.Container{{
						Name: "web", Image: image,
						Args:         []string{"--address=0.0.0.0:80", "--socket=/data/control.sock", "--blobs=/data/blobs"},
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					}},
					Volumes: []corev1.Volume{{Name: "data"}},
				},
			},
		},
	}
	ctx := t.Context()
	if _, err := client.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	s, err := client.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale(t, client, replicas)
	return s.Spec.ClusterIP
}

// scale sets the number of servers and waits until all are available.
func scale(t *testing.T, client *kubernetes.Clientset, replicas int32) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	deployments := client.AppsV1().Deployments("default")
	_, err := deployments.Patch(t.Context(), "web", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = await.Until(t.Context(), "the servers", podLimit, func(ctx context.Context) error {
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err == nil && d.Status.AvailableReplicas != replicas {
			err = fmt.Errorf("%d of %d available", d.Status.AvailableReplicas, replicas)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// answers calls a Service often enough to reach each of its Pods.
func answers(t *testing.T, address string) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	err := await.Until(t.Context(), "the Service", 10*time.Second, func(context.Context) error {
		for range 20 {
			resp, err := client.Get("http://" + address + "/v2/")
			if err != nil {
				return err
			}
			_ = resp.Body.Close()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func pods(t *testing.T, client *kubernetes.Clientset) []corev1.Pod {
	t.Helper()
	list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// containers describes the containers of all Pods.
func containers(t *testing.T, client *kubernetes.Clientset) string {
	t.Helper()
	var lines strings.Builder
	for _, p := range pods(t, client) {
		for _, c := range p.Status.ContainerStatuses {
			fmt.Fprintf(&lines, "%s %s %d\n", p.Name, c.ContainerID, c.RestartCount)
		}
	}
	return lines.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
