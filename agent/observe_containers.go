package agent

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cri"
)

type ownerReference = metav1.OwnerReference

func sameGroup(apiVersion string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group == v1alpha1.GroupName
}

// bareID returns a container id of a Pod's status without the runtime's name.
func bareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}

// patchedFormat is the time in the annotation pitstop.dev/patched-at.
const patchedFormat = "2006-01-02T15:04:05.000Z07:00"

// patchOf returns which attempt patched the Pod last; zero if none did, or it cannot be read.
func patchOf(pod *corev1.Pod) Patch {
	token, at, ok := strings.Cut(pod.Annotations[v1alpha1.PatchedAt], " ")
	when, err := time.Parse(patchedFormat, at)
	if !ok || err != nil {
		return Patch{}
	}
	return Patch{Token: token, At: when}
}

func patchedAt(token string, at time.Time) string {
	return token + " " + at.UTC().Format(patchedFormat)
}

// observeContainers joins spec, order, report, journal and runtime, container by container.
func (a *Agent) observeContainers(ctx context.Context, s *sight, u *Update) {
	want := map[string]string{}
	var reports []v1alpha1.ContainerReport
	if s.order != nil {
		for _, c := range s.order.Spec.Containers {
			want[c.Name] = c.Image
		}
		if s.order.Status.Attempt == s.order.Spec.Attempt {
			reports = s.order.Status.Containers
		}
	}
	for _, spec := range s.pod.Spec.Containers {
		c := Container{
			Name: spec.Name, Regular: true,
			PullAlways:     spec.ImagePullPolicy == corev1.PullAlways,
			RestartsAlways: restartsAlways(s.pod, spec),
			SpecImage:      spec.Image, SpecHash: cri.KubeletHash(spec.Name, spec.Image),
			Want:  want[spec.Name],
			Prior: s.record.PriorIDs,
		}
		delete(want, spec.Name)
		if c.Want != "" {
			c.WantProof = a.images.proof(ctx, s.token, c.Want)
			c.SpecProof = c.WantProof
			if c.SpecImage != c.Want && u.Pod.patchedByOrder {
				c.SpecProof = a.images.proof(ctx, s.token, c.SpecImage)
			}
		}
		a.observeRunning(s, &c, reports)
		u.Containers = append(u.Containers, c)
	}
	for name, image := range want {
		u.Containers = append(u.Containers, Container{Name: name, Want: image})
	}
}

func restartsAlways(pod *corev1.Pod, c corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	return pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
}

// observeRunning fills in what the runtime runs, and what has been restarted since the baseline.
func (a *Agent) observeRunning(s *sight, c *Container, reports []v1alpha1.ContainerReport) {
	now, ok := s.cri.Newest(c.Name)
	if ok {
		c.Now = Running{ID: now.ID, Made: now.State == cri.Created, Up: now.State == cri.Running, Hash: now.Hash, ImageID: now.ImageID}
		c.Killed, c.Stopping = a.stops.of(now.ID)
	}
	i := slices.IndexFunc(reports, func(r v1alpha1.ContainerReport) bool { return r.Name == c.Name })
	if i < 0 || reports[i].Before == nil {
		// No baseline, as where the images were patched by an attempt before: what this process has
		// seen counts.
		c.Crashes = s.track.restartsSince(c.Name, int32(now.RestartCount))
		return
	}
	before := reports[i].Before
	c.Before = Baseline{ID: before.ContainerID, ImageID: before.ImageID, Image: before.Image}
	restarts := int32(now.RestartCount) - before.RestartCount
	switch {
	case !ok || now.ID == before.ContainerID:
	case before.Image == c.SpecImage:
		c.Peer = max(restarts, reports[i].Peer)
	case now.Hash == c.SpecHash:
		c.Crashes = max(restarts-1, reports[i].Crashes)
	}
}
