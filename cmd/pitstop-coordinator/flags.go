package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/serving/servinggroup"
)

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

type flags struct {
	kubeconfig          string
	namespace, identity string
	metrics, health     string
	qps                 float32
	burst, verbosity    int
	webhook             int
	pinImage            string
	pinPriority         string
}

func (f *flags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the service account of the Pod")
	fs.StringVar(&f.namespace, "namespace", env("POD_NAMESPACE", "pitstop-system"), "namespace of the leader's and the agents' Leases (env POD_NAMESPACE)")
	fs.StringVar(&f.identity, "identity", os.Getenv("POD_UID"), "identity in the leader election: the UID of this Pod, so that a restarted container leads on (env POD_UID)")
	fs.StringVar(&f.metrics, "metrics", ":9465", "address of /metrics")
	fs.StringVar(&f.health, "health", ":9466", "address of /healthz and /readyz")
	fs.IntVar(&f.webhook, "webhook-port", 9443, "port of the webhook that validates ModelServings")
	fs.StringVar(&f.pinImage, "pin-image", "", "image of pitstop-agent, which pin Pods run; empty: none is made for private images")
	fs.StringVar(&f.pinPriority, "pin-priority-class", servinggroup.DefaultPinPriority, "PriorityClass of pin Pods, below that of all workload; empty: none")
	fs.Float32Var(&f.qps, "kube-api-qps", 500, "requests per second to the API server")
	fs.IntVar(&f.burst, "kube-api-burst", 1000, "burst of requests to the API server")
	fs.IntVarP(&f.verbosity, "v", "v", 0, "log level: 0 what an operator acts on, 1 every step, 2 why something waits")
}

func env(key, fallback string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	return fallback
}

// manager returns the manager of the controllers, which it does not start.
func (f *flags) manager() (ctrl.Manager, error) {
	if f.identity == "" {
		return nil, errors.New("--identity is empty: set it, or the environment variable POD_UID, to something that no other coordinator has")
	}
	api, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("API configuration: %w", err)
	}
	api.QPS, api.Burst, api.UserAgent = f.qps, f.burst, "pitstop-coordinator/"+version
	lock, err := f.lock(api)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	mgr, err := ctrl.NewManager(api, ctrl.Options{
		Scheme: scheme, Cache: f.cache(),
		Metrics: server.Options{BindAddress: f.metrics}, HealthProbeBindAddress: f.health,
		LeaderElection: true, LeaderElectionResourceLockInterface: lock,
		LeaseDuration: new(leaseDuration), RenewDeadline: new(renewDeadline), RetryPeriod: new(retryPeriod),
	})
	if err != nil {
		return nil, fmt.Errorf("controllers: %w", err)
	}
	return mgr, nil
}

// lock is the leader's Lease, held by this Pod and not by this process: a container that was
// restarted resumes at once.
func (f *flags) lock(api *rest.Config) (resourcelock.Interface, error) {
	own := rest.CopyConfig(api)
	own.Timeout = renewDeadline / 2
	clients, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("API configuration: %w", err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, f.namespace, "pitstop-coordinator",
		clients.CoreV1(), clients.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: f.identity})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return lock, nil
}

// cache keeps what belongs to ModelServings, and the agents' Leases.
func (f *flags) cache() cache.Options {
	ours, err := labels.NewRequirement(v1alpha1.LabelModelServing, selection.Exists, nil)
	if err != nil {
		panic(err) // the label is a constant
	}
	byLabel := cache.ByObject{Label: labels.NewSelector().Add(*ours)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                byLabel,
			&corev1.Service{}:            byLabel,
			&appsv1.ControllerRevision{}: byLabel,
			&v1alpha1.InPlaceUpdate{}:    byLabel,
			&coordinationv1.Lease{}:      {Namespaces: map[string]cache.Config{f.namespace: {}}},
		},
	}
}
