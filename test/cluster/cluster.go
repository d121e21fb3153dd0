// Package cluster is the lab with Pitstop in it: what end-to-end tests, the demo and the
// benchmarks share. It starts the lab where it is not up, pushes the images, installs the agent
// with the manifests of deploy and offers the few verbs that a scenario is made of.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
	"pitstop.dev/test/images"
	"pitstop.dev/test/lab"
)

// Namespace is where the Pods of scenarios run.
const Namespace = "default"

// A Cluster is a running lab with the agent on every node.
type Cluster struct {
	*lab.Lab
	Core    kubernetes.Interface
	Updates rest.Interface
	// Objects reads, writes and watches whatever Pitstop deals with.
	Objects client.WithWatch
	Builder images.Builder
	root    string
	log     io.Writer
}

// Start brings the lab up, pushes the images and installs the agent. It is idempotent.
func Start(ctx context.Context, log io.Writer) (*Cluster, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	l, err := lab.Up(ctx, lab.Config{Nodes: 2, Log: log})
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	c := &Cluster{
		Lab: l, root: root, log: log,
		Builder: images.Builder{Module: root, Cache: filepath.Join(cache, "pitstop", "images")},
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	if err := errors.Join(c.install(ctx), c.DropGPUs(ctx)); err != nil { // a run that was killed leaves GPUs
		return nil, err
	}
	return c, nil
}

func (c *Cluster) connect() error {
	var err error
	if c.Core, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if c.Updates, err = UpdatesClient(c.RESTConfig()); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("scheme: %w", err)
	}
	if c.Objects, err = client.NewWithWatch(c.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

// UpdatesClient returns a client for InPlaceUpdates.
func UpdatesClient(cfg *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	one := rest.CopyConfig(cfg)
	one.GroupVersion, one.APIPath = &v1alpha1.GroupVersion, "/apis"
	one.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(one)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return client, nil
}

// moduleRoot is the folder of go.mod above the working folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working folder: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && string(b[:18]) == "module pitstop.dev" {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod of pitstop.dev above the working folder")
		}
	}
}

// Engine pushes an engine image under the tag, with the knobs in env, and returns its reference.
func (c *Cluster) Engine(ctx context.Context, tag string, env map[string]string) (string, error) {
	img, err := c.Builder.Engine(ctx, tag, env)
	if err != nil {
		return "", err
	}
	return c.PushAs(ctx, "engine:"+tag, img)
}

// PushAs pushes an image to the lab's registry and returns its reference.
func (c *Cluster) PushAs(ctx context.Context, name string, img v1.Image) (string, error) {
	if err := c.Push(ctx, name, img); err != nil {
		return "", fmt.Errorf("push %s: %w", name, err)
	}
	return c.Registry().Ref(name), nil
}

// Runtime returns a client of the node's container runtime; the caller closes it.
func (c *Cluster) Runtime(node string) (*cri.Client, error) {
	n, err := c.Node(node)
	if err != nil {
		return nil, err
	}
	return cri.Dial(n.RuntimeSocket, cri.Config{})
}

// within bounds a wait: whatever a scenario waits for is there within a minute or never.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Minute)
}
