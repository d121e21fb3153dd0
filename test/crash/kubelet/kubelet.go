// Package kubelet is the part of kubelet that an in-place update needs, for nodes whose
// container runtime is the scripted one: it starts containers with kubelet's marks, replaces
// those whose image has changed, and reports conditions in kubelet's words. The API server is a
// real one.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"pitstop.dev/cri"
	"pitstop.dev/cri/fake"
)

const (
	// lag is the time that kubelet takes to sync a Pod that has settled.
	lag = 20 * time.Millisecond
	// relist is the period in which the runtime is read again, as by the generic PLEG.
	relist = time.Second
	// loading is how long a started container takes to be ready.
	loading = 100 * time.Millisecond
	// grace is the time that an old container is given.
	grace = 10 * time.Second

	workers = 4
)

// A Config says what a Kubelet works with. All fields are required.
type Config struct {
	Client  kubernetes.Interface
	Fake    *fake.Runtime
	Runtime *cri.Client // of Fake
	// Dir is the root folder; it gets the socket that tells that kubelet is alive.
	Dir   string
	Clock clock.WithTicker
}

// A Kubelet runs every Pod that is bound to a node, whichever. Its Pods have the address
// 127.0.0.1.
type Kubelet struct {
	Config
	queue    workqueue.TypedRateLimitingInterface[string]
	informer cache.SharedIndexInformer

	mu   sync.Mutex
	said map[types.UID]corev1.PodStatus // what was last written
}

// New returns a Kubelet that does nothing until Run. The informer must be of Pods and is run by
// the caller.
func New(c Config, pods cache.SharedIndexInformer) (*Kubelet, error) {
	k := &Kubelet{
		Config: c, informer: pods, said: map[types.UID]corev1.PodStatus{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](lag, relist)),
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    k.changed,
		UpdateFunc: func(_, obj any) { k.changed(obj) },
		DeleteFunc: k.gone,
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return k, nil
}

func (k *Kubelet) changed(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		k.queue.AddAfter(pod.Namespace+"/"+pod.Name, lag)
	}
}

func (k *Kubelet) gone(obj any) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		k.Fake.RemovePod(string(pod.UID))
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.said, pod.UID)
	}
}

// Run works until ctx ends, and leaves no goroutine behind.
func (k *Kubelet) Run(ctx context.Context) error {
	socket, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(k.Dir, "pod-resources", "kubelet.sock"))
	if err != nil {
		return fmt.Errorf("kubelet's socket: %w", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { answer(socket) })
	for range workers {
		wg.Go(func() { k.work(ctx) })
	}
	<-ctx.Done()
	k.queue.ShutDown()
	err = socket.Close()
	wg.Wait()
	return err
}

// answer accepts connections and says nothing.
func answer(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

func (k *Kubelet) work(ctx context.Context) {
	for {
		key, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		again, err := k.sync(ctx, key)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if !errors.Is(err, errGone) {
				logr.FromContextOrDiscard(ctx).Error(err, "sync pod", "pod", key)
			}
			k.queue.AddRateLimited(key)
		default:
			k.queue.Forget(key)
			if again > 0 {
				k.queue.AddAfter(key, again)
			}
		}
		k.queue.Done(key)
	}
}

var errGone = errors.New("pod is gone")

// sync makes runtime and status what the Pod's spec asks for, and returns when to look again.
func (k *Kubelet) sync(ctx context.Context, key string) (time.Duration, error) {
	obj, found, err := k.informer.GetStore().GetByKey(key)
	pod, ok := obj.(*corev1.Pod)
	switch {
	case err != nil || !found || !ok:
		return 0, err
	case pod.DeletionTimestamp != nil:
		return 0, k.finish(ctx, pod)
	}
	seen, err := k.Runtime.Pod(ctx, string(pod.UID))
	if err != nil {
		return 0, err
	}
	if len(seen.Sandboxes) == 0 {
		k.Fake.RunPod(fake.Pod{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name})
	}
	for _, c := range pod.Spec.Containers {
		if err := k.syncContainer(ctx, pod, c, seen); err != nil {
			return 0, err
		}
	}
	if seen, err = k.Runtime.Pod(ctx, string(pod.UID)); err != nil {
		return 0, err
	}
	return k.report(ctx, pod, seen)
}

// finish ends a Pod that is being deleted.
func (k *Kubelet) finish(ctx context.Context, pod *corev1.Pod) error {
	k.Fake.StopPod(string(pod.UID))
	err := k.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod: %w", err)
	}
	return nil
}

// syncContainer replaces a container whose definition has changed or that has ended.
func (k *Kubelet) syncContainer(ctx context.Context, pod *corev1.Pod, c corev1.Container, seen cri.Pod) error {
	now, ok := seen.Newest(c.Name)
	restarts := 0
	switch {
	case !ok:
	case now.State == cri.Running && now.Hash == cri.KubeletHash(c.Name, c.Image):
		return nil
	case now.State == cri.Running:
		if err := k.Runtime.Stop(ctx, now.ID, grace); err != nil {
			return err
		}
		fallthrough
	default:
		restarts = now.RestartCount + 1
	}
	if err := k.Fake.EnsureImage(c.Image); err != nil {
		return fmt.Errorf("image of container %s: %w", c.Name, err)
	}
	_, err := k.Fake.StartContainer(fake.Container{
		PodUID: string(pod.UID), Name: c.Name, Image: c.Image, RestartCount: restarts,
	})
	return err
}
