package agent

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/agent/journal"
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

// patched returns which attempt patched the Pod last. Where somebody took the mark away, the
// journal may know that this attempt did.
func (s *sight) patched() v1alpha1.PatchMark {
	mark := v1alpha1.PatchMarkOf(s.pod)
	step, ok := s.record.Step(journal.Action{Kind: journal.Patch})
	if mark.Token != "" || !ok || step.Ended.IsZero() || v1alpha1.Token(s.record.IPU, s.record.Number) != s.token {
		return mark
	}
	mark = v1alpha1.PatchMark{Token: s.token, At: step.Ended, StopTimeout: defaultStop}
	if s.order != nil {
		mark.StopTimeout = s.order.Spec.StopTimeout()
	}
	return mark
}

// storedImage returns the image that the API server stored for the container with this attempt's
// patch; empty if that is not known.
func (s *sight) storedImage(container string) string {
	step, ok := s.record.Step(journal.Action{Kind: journal.Patch})
	if !ok || v1alpha1.Token(s.record.IPU, s.record.Number) != s.token {
		return ""
	}
	for pair := range strings.FieldsSeq(step.Outcome) {
		if name, image, _ := strings.Cut(pair, "="); name == container {
			return image
		}
	}
	return ""
}

// storedImages is the outcome of a patch in the journal: what the API server made of it.
func storedImages(pod *corev1.Pod) string {
	pairs := make([]string, 0, len(pod.Spec.Containers))
	for _, c := range pod.Spec.Containers {
		pairs = append(pairs, c.Name+"="+c.Image)
	}
	return strings.Join(pairs, " ")
}

// observeContainers joins spec, order, report, journal and runtime, container by container.
func (a *Agent) observeContainers(s *sight, u *Update) {
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
			SpecImage:      spec.Image, SpecHash: s.hash(spec.Name, spec.Image),
			Want:   want[spec.Name],
			Stored: s.storedImage(spec.Name),
			Prior:  s.record.PriorIDs,
		}
		delete(want, spec.Name)
		if c.Want != "" {
			c.WantProof = s.proof(c.Want)
			c.SpecProof = c.WantProof
			if c.SpecImage != c.Want && u.Pod.patchedByOrder {
				c.SpecProof = s.proof(c.SpecImage)
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
	c.Retried = before.Image != c.SpecImage && s.retried(c.Name, &reports[i])
	restarts := int32(now.RestartCount) - before.RestartCount
	switch {
	case !ok || now.ID == before.ContainerID:
	case before.Image == c.SpecImage:
		c.Peer = max(restarts, reports[i].Peer)
	case now.Hash == c.SpecHash:
		c.Crashes = max(restarts-c.starts(), reports[i].Crashes)
		if c.Retried && reports[i].Planned < c.starts() { // reported as a crash, and found out to be none
			c.Crashes = max(restarts-c.starts(), reports[i].Crashes-1)
		}
	}
}
