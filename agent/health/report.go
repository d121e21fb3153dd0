package health

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
	"pitstop.dev/gpu/health"
)

// readNode reads the Node when it is time, and follows its annotation. A Node that cannot be read changes nothing: the
// release under way ends by itself. What is decided is kept first, so that an agent that starts anew does the same.
func (m *Monitor) readNode(ctx context.Context, now time.Time) {
	before := m.last().release
	if m.node != nil && now.Sub(m.nodeAt) < nodeEvery && !before.Until.After(now) {
		return
	}
	call, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	node, err := m.api.Node(call)
	if err != nil {
		if ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).V(1).Info("node cannot be read", "cause", err.Error())
		}
		return
	}
	decide := before.decide
	if !m.looked {
		decide = before.first
	}
	m.node, m.nodeAt, m.looked = node, now, true
	after := decide(node.Annotations[v1alpha1.AnnotationGPURelease], now)
	m.mu.Lock()
	m.seen.release = after
	m.mu.Unlock()
	m.keep(ctx, now)
	log := logr.FromContextOrDiscard(ctx)
	switch {
	case after.Ignored != "" && before.Value != after.Value:
		log.Info("release of the GPU driver is not followed", "cause", after.words())
		m.api.Event(nodeRef(node), corev1.EventTypeWarning, v1alpha1.EventGPURelease, after.words())
	case m.cfg.Releaser == nil || after.Until.Equal(before.Until):
	case !after.Until.IsZero():
		m.cfg.Releaser.Release(after.Until)
		m.tellRelease(ctx, "let go of the GPU driver until "+after.Until.UTC().Format(time.RFC3339))
	case now.Before(before.Until):
		m.cfg.Releaser.Release(time.Time{})
		m.tellRelease(ctx, "took the GPU driver again")
	}
}

func (m *Monitor) tellRelease(ctx context.Context, text string) {
	logr.FromContextOrDiscard(ctx).Info("release of the GPU driver", "what", text)
	m.api.Event(nodeRef(m.node), corev1.EventTypeNormal, v1alpha1.EventGPURelease, text)
}

// silent reports whether there is nothing to say: no GPU was ever seen, and that may be only because it is early.
func (m *Monitor) silent() bool { return !m.state.Known() && m.unread < m.cfg.Judge.Bad }

// An API server that does not answer may delay the next reading by less than Config.Every, all in all.
const (
	// callFor bounds one request.
	callFor = time.Second
	// podsFor bounds what is written on Pods in one round.
	podsFor = 2 * time.Second
)

// report writes what has changed. What cannot be written is tried again in the next round.
func (m *Monitor) report(ctx context.Context, pods []*corev1.Pod, s sight, now time.Time) {
	err := cmp.Or(m.reportPods(ctx, pods, s, now), m.reportNode(ctx, s, now))
	switch log := logr.FromContextOrDiscard(ctx); {
	case ctx.Err() != nil:
	case err != nil && !m.unheard:
		log.Info("GPU health cannot be reported yet", "cause", err.Error())
	case err == nil && m.unheard:
		log.Info("GPU health is reported")
	}
	m.unheard = err != nil
}

// reportPods writes on the Pods. Where no GPU was ever seen only what an agent before this one has written is corrected.
func (m *Monitor) reportPods(ctx context.Context, pods []*corev1.Pod, s sight, now time.Time) (failed error) {
	ctx, cancel := context.WithTimeout(ctx, podsFor)
	defer cancel()
	for _, pod := range pods {
		one, judged := s.pods[pod.UID]
		if !judged || !reportable(pod) || m.silent() || !m.state.Known() && podCondition(pod) == nil {
			continue
		}
		data, needed := podPatch(pod, one.judgement, now)
		if !needed {
			continue
		}
		if ctx.Err() != nil {
			return cmp.Or(failed, ctx.Err())
		}
		if err := m.reportPod(ctx, pod, data); err != nil {
			failed = cmp.Or(failed, fmt.Errorf("pod %s: %w", one.name, err))
			continue
		}
		was := corev1.ConditionUnknown
		if old := podCondition(pod); old != nil {
			was = old.Status
		}
		m.announce(podRef(pod), was, one.Summary)
	}
	return failed
}

func (m *Monitor) reportPod(ctx context.Context, pod *corev1.Pod, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	return m.api.PatchPodStatus(ctx, pod, data)
}

// reportNode writes the Node's condition. Of GPUs that were never seen it speaks only where the Node offers some, or where
// an agent before has spoken of some. What could not be written stays so until the Node can be read again.
func (m *Monitor) reportNode(ctx context.Context, s sight, now time.Time) error {
	if m.node == nil {
		return m.unsaid
	}
	m.unsaid = nil
	if m.silent() || !m.state.Known() && !offersGPUs(m.node) && nodeCondition(m.node) == nil {
		return nil
	}
	sum := m.sumNode(s)
	data, needed := nodePatch(m.node, sum, now, m.cfg.Heartbeat)
	if !needed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	node, err := m.api.PatchNodeStatus(ctx, data)
	if err != nil {
		m.node, m.unsaid = nil, err // it may have come through: read the Node before it is written again
		return err
	}
	if m.said == "" {
		m.said = corev1.ConditionUnknown
		if old := nodeCondition(m.node); old != nil {
			m.said = old.Status
		}
	}
	m.node = node
	m.said = m.announce(nodeRef(node), m.said, sum)
	return nil
}

// sumNode is what the Node's condition is to say.
func (m *Monitor) sumNode(s sight) health.Summary {
	sum := health.Sum(s.verdicts, nil)
	var texts []string
	released := s.reading.State == gpu.Released
	switch {
	case released && len(s.verdicts) == 0:
		sum.Reason = v1alpha1.GPUUnknownReleased
	case len(s.verdicts) == 0:
		texts = append(texts, whyNone(s.reading))
		sum.Gone = s.reading.State == gpu.Absent
	case sum.Status == corev1.ConditionTrue:
		texts = append(texts, fmt.Sprintf("%d GPUs", len(s.verdicts)), sum.Message)
	case sum.Status == corev1.ConditionFalse || !released:
		texts = append(texts, sum.Message)
	}
	if released {
		texts = append(texts, "the driver is released "+s.reading.Message)
	}
	texts = append(texts, s.release.words())
	if s.reading.Unmonitored {
		texts = append(texts, "errors that the driver reports are not heard")
	}
	sum.Message = strings.Join(filled(texts), "; ")
	return sum
}

// whyNone says why no GPU is known.
func whyNone(r gpu.Reading) string {
	if r.State == gpu.Absent {
		return "the NVML library is gone"
	}
	return cmp.Or(r.Message, "no GPU is listed")
}

func filled(texts []string) []string {
	var out []string
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// announce records an event where health was lost or came back, and returns the status that was told last.
func (m *Monitor) announce(about *corev1.ObjectReference, before corev1.ConditionStatus, s health.Summary) corev1.ConditionStatus {
	switch {
	case s.Status == corev1.ConditionFalse && before != corev1.ConditionFalse:
		m.api.Event(about, corev1.EventTypeWarning, v1alpha1.EventGPUUnhealthy, string(s.Reason)+": "+s.Message)
	case s.Status == corev1.ConditionTrue && before == corev1.ConditionFalse:
		m.api.Event(about, corev1.EventTypeNormal, v1alpha1.EventGPUHealthy, "all GPUs are healthy again")
	case s.Status == corev1.ConditionUnknown:
		return before
	}
	return s.Status
}

// offersGPUs reports whether the Node has GPUs by what its device plugin says.
func offersGPUs(node *corev1.Node) bool {
	for name := range node.Status.Capacity {
		if strings.HasPrefix(string(name), "nvidia.com/") {
			return true
		}
	}
	return false
}

func nodeRef(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: node.Name, UID: types.UID(node.Name)}
}

func podRef(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}
