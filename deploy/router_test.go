//go:build lab

package deploy_test

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/readiness"
	"pitstop.dev/test/lab"
	"pitstop.dev/test/router/proxy"
	"pitstop.dev/test/router/rights"
)

// TestTheRouterMayAnswer gives an account what docs/router.md says, and nothing else.
func TestTheRouterMayAnswer(t *testing.T) {
	ctx := t.Context()
	doc := must(os.ReadFile("../docs/router.md"))(t)
	manifest := must(rights.Manifest(string(doc), apps))(t)
	if out, err := kubectl(ctx, strings.NewReader(manifest), "apply", "-f", "-"); err != nil {
		t.Fatalf("the router's rights: %v\n%s", err, out)
	}
	stranger := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}}
	must(plane.admin.CoreV1().ServiceAccounts(apps).Create(ctx, stranger, metav1.CreateOptions{}))(t)
	router := must(account(ctx, lab.Account{Namespace: apps, Name: rights.Account}))(t)
	other := must(account(ctx, lab.Account{Namespace: apps, Name: "stranger"}))(t)
	pod := must(plane.admin.pod(ctx, "router", func(p *corev1.Pod) { p.Annotations[v1alpha1.Draining] = "uid/1" }))(t)

	answer := func(c client, pod *corev1.Pod) error {
		answers := proxy.Cluster{Client: c.CoreV1(), Namespace: apps, Selector: labels.Everything()}
		return answers.Drained(ctx, pod, "uid/1")
	}
	denied(t, answer(other, pod), "cannot patch")
	denied(t, answer(router, pod), "")
	live := must(plane.admin.CoreV1().Pods(apps).Get(ctx, pod.Name, metav1.GetOptions{}))(t)
	if !readiness.Answered(live, "uid/1") {
		t.Errorf("annotations %v after the answer", live.Annotations)
	}
	hold := `{"metadata":{"annotations":{"` + v1alpha1.HoldInPlace + `":"uid/1"}}}`
	image := `{"spec":{"containers":[{"name":"engine","image":"engine:2"}]}}`
	denied(t, router.patch(ctx, live, types.MergePatchType, hold, "status"), "set by Pitstop only")
	denied(t, router.merge(ctx, live, image), "cannot patch")
	// An answer to what the Pod was before is none.
	if err := answer(router, pod); err == nil {
		t.Error("an answer about an earlier reading is taken")
	}
}
