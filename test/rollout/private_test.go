//go:build lab

package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/lab/await"
	"pitstop.dev/test/lab/registry"
)

// vault is a registry that gives nothing without credentials. The nodes reach it, as they share this machine's
// network.
type vault struct {
	*registry.Control
	login authn.Basic
}

func newVault(t *testing.T) vault {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, dir := l.Addr().String(), t.TempDir()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	config := registry.Config{Address: address, Socket: filepath.Join(dir, "control"), Blobs: filepath.Join(dir, "blobs"), Log: io.Discard}
	v := vault{Control: registry.NewControl(address, config.Socket), login: authn.Basic{Username: "lab", Password: "opens"}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := registry.New(config).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	err = await.Until(t.Context(), "registry", 10*time.Second, func(ctx context.Context) error { return v.Login(ctx, v.login) })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// engine pushes an engine that only this registry has, and returns its reference.
func (v vault) engine(t *testing.T, tag string) string {
	t.Helper()
	one, err := shared.Builder.Engine(t.Context(), "private-"+tag, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Push(t.Context(), "engine:"+tag, one); err != nil {
		t.Fatal(err)
	}
	return v.Ref("engine:" + tag)
}

// secret writes the Secret that kubelet logs in with; the test's end removes it.
func (v vault) secret(t *testing.T, name, password string) {
	t.Helper()
	config, err := json.Marshal(map[string]any{"auths": map[string]any{
		v.Address: map[string]string{"username": v.login.Username, "password": password},
	}})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
	}
	secrets := shared.Core.CoreV1().Secrets(cluster.Namespace)
	if _, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := secrets.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// pins notes the pin Pods of the ModelServing's groups from now on; what it returns ends that.
func (p *play) pins() (seen func() map[string]corev1.PodSpec) {
	p.t.Helper()
	w, err := p.Core.CoreV1().Pods(cluster.Namespace).Watch(p.t.Context(), metav1.ListOptions{LabelSelector: p.pinLabel()})
	if err != nil {
		p.t.Fatal(err)
	}
	all := map[string]corev1.PodSpec{}
	var noting sync.WaitGroup
	noting.Go(func() {
		for e := range w.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Deleted {
				all[pod.Name] = pod.Spec
			}
		}
	})
	return func() map[string]corev1.PodSpec {
		w.Stop()
		noting.Wait()
		return all
	}
}

func (p *play) pinLabel() string {
	label := v1alpha1.LabelPin + " in ("
	for n := range int32(4) {
		label += v1alpha1.ServingGroupName(p.name, n) + ","
	}
	return label[:len(label)-1] + ")"
}

// unpinned waits until no pin Pod is left.
func (p *play) unpinned() {
	p.t.Helper()
	err := wait.PollUntilContextTimeout(p.t.Context(), 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := p.Core.CoreV1().Pods(cluster.Namespace).List(ctx, metav1.ListOptions{LabelSelector: p.pinLabel()})
		return err == nil && len(list.Items) == 0, nil
	})
	if err != nil {
		p.t.Error(errors.New("pin Pods were left behind"))
	}
}

func TestPrivateImagesInPlace(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.secret(t, "private", v.login.Password)
	ref := v.engine(t, "v2")
	p := newPlayOf(t, cluster.ServingSpec{Name: "private", Strategy: inPlace(), PullSecret: "private"}, whole())
	before, seen := p.kept(), p.pins()
	p.rolls(image(ref))
	want(t, "images", map[string]int{ref: 12}, p.images("0", "1", "2", "3"))
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnce(), p.restarts())
	p.unpinned()
	pins := seen()
	if len(pins) == 0 {
		t.Error("no pin Pod was seen: the agents were not refused")
	}
	for name, spec := range pins {
		if spec.PriorityClassName != "pitstop-pin" || *spec.Priority >= 0 || *spec.PreemptionPolicy != corev1.PreemptNever ||
			slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Image == nil }) {
			t.Errorf("pin Pod %s: %+v", name, spec)
		}
	}

	containers := p.containers()
	p.edits(image(v.Ref("engine:does-not-exist")))
	p.blocked(v1alpha1.BlockedRefused)
	p.verb(0, string(v1alpha1.RefusedNotFound), "explain", "ms/private")
	want(t, "containers", containers, p.containers())
	p.rolls(image(ref))
	want(t, "containers", containers, p.containers())
	p.unpinned()
}

// lend has an image on all nodes, brought with credentials that the registry takes.
func lend(t *testing.T, v vault, ref string) {
	t.Helper()
	v.secret(t, "lender", v.login.Password)
	all := shared.Core.CoreV1().Pods(cluster.Namespace)
	for _, node := range shared.Nodes() {
		pod := cluster.PodSpec{Name: "lender-" + node.Name, Node: node.Name, Image: ref, Ungated: true}.Pod()
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "lender"}}
		if _, err := all.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			err := all.Delete(context.WithoutCancel(t.Context()), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			if err != nil {
				t.Error(err)
			}
		})
		err := await.Until(t.Context(), pod.Name, time.Minute, func(ctx context.Context) error {
			pod, err := all.Get(ctx, pod.Name, metav1.GetOptions{})
			if err == nil && pod.Status.Phase != corev1.PodRunning {
				err = fmt.Errorf("it is %s", pod.Status.Phase)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The nodes have the image already, so that the agents prove it: kubelet would still not start it for these Pods.
func TestWrongCredentialsCostNothing(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.secret(t, "locked", "does not open")
	ref := v.engine(t, "v2")
	lend(t, v, ref)
	p := newPlayOf(t, cluster.ServingSpec{Name: "locked", Strategy: inPlace(), PullSecret: "locked"}, whole())
	before, containers := p.kept(), p.containers()
	p.edits(image(ref))
	p.blocked(v1alpha1.BlockedPin)
	p.verb(0, "correct the Secrets", "explain", "ms/locked")
	want(t, "containers", containers, p.containers())
	if ms := p.waits(func(*v1alpha1.ModelServing) bool { return true }); ms.Status.AvailableReplicas != 4 {
		t.Errorf("%d groups are available, want 4", ms.Status.AvailableReplicas)
	}
	v.secret(t, "locked", v.login.Password) // kubelet tries again by itself
	p.waits(cluster.Complete)
	want(t, "images", map[string]int{ref: 12}, p.images("0", "1", "2", "3"))
	want(t, "Pods", before, p.kept())
	want(t, "restarts", p.restartedOnce(), p.restarts())
	p.unpinned()
}
