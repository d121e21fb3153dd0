package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"pitstop.dev/test/gpu/rig"
	"pitstop.dev/test/gpu/stub"
)

const (
	// System is the namespace of the agent.
	System = "pitstop-system"
	// DaemonSet is the name of the agent's DaemonSet.
	DaemonSet = "pitstop-agent"
	// Coordinator is the name of the coordinator's Deployment.
	Coordinator = "pitstop-coordinator"
	// NoAgent is a label of nodes on which the lab's DaemonSet places no agent. Labels that say
	// something of the node, as its system, will not do: kubelet sets them right.
	NoAgent = "pitstop.dev/no-agent"
	// ReleaseDeadline is how long the lab's agents wait for GPU memory to be given back.
	ReleaseDeadline = 30 * time.Second
)

// agentImage pushes the agent's image and returns its reference by its digest, so that another
// build is another image.
func (c *Cluster) agentImage(ctx context.Context) (string, error) {
	img, err := c.Builder.Agent(ctx, "dev")
	if err != nil {
		return "", err
	}
	return c.byDigest(ctx, "pitstop-agent", img)
}

func (c *Cluster) coordinatorImage(ctx context.Context) (string, error) {
	img, err := c.Builder.Coordinator(ctx, "dev")
	if err != nil {
		return "", err
	}
	return c.byDigest(ctx, "pitstop-coordinator", img)
}

func (c *Cluster) byDigest(ctx context.Context, repository string, img v1.Image) (string, error) {
	digest, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", repository, err)
	}
	if _, err := c.PushAs(ctx, repository+":dev", img); err != nil {
		return "", err
	}
	return c.Registry().Ref(repository + "@" + digest.String()), nil
}

// install applies the manifests of deploy with the lab's images, and waits for the agents and the
// coordinator.
func (c *Cluster) install(ctx context.Context) error {
	agent, err := c.agentImage(ctx)
	if err != nil {
		return err
	}
	coordinator, err := c.coordinatorImage(ctx)
	if err != nil {
		return err
	}
	// A test that was killed may have left it.
	if out, err := c.Kubectl(ctx, "label", "nodes", "--all", NoAgent+"-"); err != nil {
		return fmt.Errorf("nodes: %w: %s", err, out)
	}
	dir, err := os.MkdirTemp("", "pitstop-install-")
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary folder
	base, err := filepath.Rel(dir, filepath.Join(c.root, "deploy", "base"))
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay(base, agent, coordinator)), 0o600); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	if out, err := c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", dir); err != nil {
		return fmt.Errorf("install: %w: %s", err, out)
	}
	return errors.Join(c.WaitAgents(ctx), c.WaitCoordinator(ctx))
}

// overlay gives the agents the driver's library of nodes with a rig. Elsewhere there is none, and they know of no GPU.
func overlay(base, agent, coordinator string) string {
	library := path.Join(rig.OnNode, stub.LibraryName)
	return fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%s]
patches:
- target: {kind: DaemonSet, name: %s}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/image, value: %q}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--v=1"}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--settle=5s"}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--gpu-release-deadline=%s"}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--gpu-library=%s"}
    - op: add
      path: /spec/template/spec/containers/0/volumeMounts/-
      value: {name: gpus, mountPath: %s, readOnly: true}
    - op: add
      path: /spec/template/spec/volumes/-
      value: {name: gpus, hostPath: {path: %s, type: DirectoryOrCreate}}
    - op: add
      path: /spec/template/spec/affinity
      value:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: %s, operator: DoesNotExist}]}]
- target: {kind: Deployment, name: %s}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/image, value: %q}
    - {op: replace, path: /spec/replicas, value: 1}
    - {op: add, path: /spec/template/spec/containers/0/args, value: ["--v=1", "--pin-image=%s"]}
`, base, DaemonSet, agent, ReleaseDeadline, library, rig.OnNode, rig.OnNode, NoAgent, Coordinator, coordinator, agent)
}

// WaitAgents returns when the agent of this generation is ready on every node.
func (c *Cluster) WaitAgents(ctx context.Context) error {
	var last *appsv1.DaemonSet
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		ds, err := c.Core.AppsV1().DaemonSets(System).Get(ctx, DaemonSet, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // it is being made
		}
		last = ds
		s := ds.Status
		return s.ObservedGeneration == ds.Generation && s.DesiredNumberScheduled == int32(len(c.Nodes())) &&
			s.UpdatedNumberScheduled == s.DesiredNumberScheduled && s.NumberReady == s.DesiredNumberScheduled, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("agents are not ready: %d of %d: %w", last.Status.NumberReady, last.Status.DesiredNumberScheduled, err)
	}
	return err
}

// WaitCoordinator returns when the coordinator of this generation is ready.
func (c *Cluster) WaitCoordinator(ctx context.Context) error {
	var last appsv1.DeploymentStatus
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		d, err := c.Core.AppsV1().Deployments(System).Get(ctx, Coordinator, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // it is being made
		}
		last = d.Status
		return last.ObservedGeneration == d.Generation && last.UpdatedReplicas == *d.Spec.Replicas &&
			last.Replicas == last.UpdatedReplicas && last.ReadyReplicas == last.Replicas, nil
	})
	if err != nil {
		return fmt.Errorf("the coordinator is not ready: %d of %d: %w", last.ReadyReplicas, last.Replicas, err)
	}
	return nil
}
