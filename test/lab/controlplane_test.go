//go:build lab

package lab_test

import (
	"os"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pitstop.dev/test/lab"
)

func TestControlPlane(t *testing.T) {
	ctx := t.Context()
	p, err := lab.StartControlPlane(ctx, lab.Config{StateDir: t.TempDir(), Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	client := clientFor(t, p.RESTConfig())

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: corev1.PodSpec{
		NodeName: "node1", ServiceAccountName: "agent",
		Containers: []corev1.Container{{Name: "agent", Image: "agent:v1"}},
	}}
	pod, err = client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	access, err := p.ServiceAccount(ctx, lab.Account{Namespace: "default", Name: "agent", Pod: pod.Name, PodUID: pod.UID})
	if err != nil {
		t.Fatal(err)
	}
	agent := clientFor(t, access)
	t.Run("a token bound to a Pod carries the claim of its node", func(t *testing.T) {
		me, err := agent.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := me.Status.UserInfo.Extra["authentication.kubernetes.io/node-name"]
		if len(got) != 1 || got[0] != "node1" {
			t.Errorf("node claim %q, want node1", got)
		}
	})
	t.Run("a service account may do nothing that it was not granted", func(t *testing.T) {
		_, err := agent.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("list secrets: %v, want forbidden", err)
		}
	})
	t.Run("objects outlive a restart", func(t *testing.T) {
		if err := p.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{}); err == nil {
			t.Error("a stopped API server answers")
		}
		if err := p.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func clientFor(t *testing.T, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
