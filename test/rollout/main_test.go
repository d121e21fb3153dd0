//go:build lab

package rollout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/verb"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/rollout/record"
)

var (
	shared *cluster.Cluster
	img    struct{ v1, v2, v3, bad string }
)

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	if err := errors.Join(cluster.SideBySide("3"), start(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "rollout:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func start(ctx context.Context) error {
	var err error
	if shared, err = cluster.Start(ctx, os.Stderr); err != nil {
		return err
	}
	if err := startNames(ctx); err != nil {
		return err
	}
	return shared.Engines(ctx,
		cluster.EngineTag{Ref: &img.v1, Name: "v1"},
		cluster.EngineTag{Ref: &img.v2, Name: "v2"},
		cluster.EngineTag{Ref: &img.v3, Name: "v3"},
		cluster.EngineTag{Ref: &img.bad, Name: "bad", Env: map[string]string{"PITSTOP_ENGINE_CRASH_AFTER": "0s"}},
	)
}

// A play is one ModelServing of one test, recorded from its first frame.
type play struct {
	*cluster.Cluster
	t     *testing.T
	name  string
	rules record.Rules
	tape  *record.Recorder
}

// newPlay declares four groups of three Pods, waits until they serve, and judges every frame at
// the end of the test.
func newPlay(t *testing.T, name string, strategy v1alpha1.RolloutStrategy, rules record.Rules) *play {
	t.Helper()
	return newPlayOf(t, cluster.ServingSpec{Name: name, Strategy: strategy}, rules)
}

// newPlayOf is newPlay with more said of the ModelServing.
func newPlayOf(t *testing.T, spec cluster.ServingSpec, rules record.Rules) *play {
	t.Helper()
	spec.Replicas, spec.Workers, spec.Prefill, spec.Decode = 4, 1, img.v1, img.v1
	return newPlayWith(t, spec.Serving(), rules)
}

// newPlayWith is newPlay with another ModelServing.
func newPlayWith(t *testing.T, ms *v1alpha1.ModelServing, rules record.Rules) *play {
	t.Helper()
	rules.Name, rules.Workers = ms.Name, map[string]int32{}
	for _, r := range ms.Spec.Template.Roles {
		rules.Workers[r.Name] = r.WorkerReplicas
	}
	if rules.Broken == nil {
		rules.Broken = map[string]bool{}
	}
	p := &play{Cluster: shared, t: t, name: ms.Name, rules: rules}
	var err error
	if p.tape, err = record.Start(context.WithoutCancel(t.Context()), shared.Objects, cluster.Namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	if err := p.Admit(t.Context(), func() error { return p.Objects.Create(t.Context(), ms) }); err != nil {
		t.Fatal(err)
	}
	p.waits(cluster.Complete)
	return p
}

func (p *play) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	frames, err := p.tape.Frames(ctx, cluster.Namespace)
	p.tape.Stop()
	if err != nil {
		p.t.Errorf("inconclusive: %.300v", err)
	}
	judge := record.Judge{Rules: p.rules}
	for _, v := range judge.Run(frames) {
		p.t.Error(v)
	}
	p.t.Logf("%d frames, availability judged at %d", len(frames), judge.Judged)
	if judge.Judged == 0 {
		p.t.Error("no frame was judged")
	}
	if err := p.RemoveServing(ctx, p.name); err != nil {
		p.t.Error(err)
	}
}

func (p *play) waits(wanted func(*v1alpha1.ModelServing) bool) *v1alpha1.ModelServing {
	p.t.Helper()
	ms, err := p.WaitServing(p.t.Context(), p.name, wanted)
	if err != nil {
		p.t.Fatal(err)
	}
	return ms
}

func (p *play) edits(change func(*v1alpha1.ModelServingSpec)) {
	p.t.Helper()
	if err := p.Edit(p.t.Context(), p.name, change); err != nil {
		p.t.Fatal(err)
	}
}

// rolls edits the ModelServing, and waits until that is rolled out.
func (p *play) rolls(change func(*v1alpha1.ModelServingSpec)) *v1alpha1.ModelServing {
	p.t.Helper()
	p.edits(change)
	return p.waits(cluster.Complete)
}

// image sets the image of the roles named; of all if none is.
func image(image string, roles ...string) func(*v1alpha1.ModelServingSpec) {
	return func(s *v1alpha1.ModelServingSpec) {
		for i := range s.Template.Roles {
			r := &s.Template.Roles[i]
			if len(roles) > 0 && r.Name != roles[0] {
				continue
			}
			r.EntryTemplate.Spec.Containers[0].Image = image
			if r.WorkerTemplate != nil {
				r.WorkerTemplate.Spec.Containers[0].Image = image
			}
		}
	}
}

func (p *play) pods() []corev1.Pod {
	p.t.Helper()
	pods, err := p.ServingPods(p.t.Context(), p.name)
	if err != nil {
		p.t.Fatal(err)
	}
	return pods
}

// images counts the Pods of the groups with these ordinals by image.
func (p *play) images(groups ...string) map[string]int {
	out := map[string]int{}
	for _, pod := range p.pods() {
		for _, g := range groups {
			if pod.Labels[v1alpha1.LabelServingGroup] == p.name+"-"+g {
				out[pod.Spec.Containers[0].Image]++
			}
		}
	}
	return out
}

// uids are the Pods of a role by name.
func (p *play) uids(role string) map[string]types.UID {
	out := map[string]types.UID{}
	for _, pod := range p.pods() {
		if pod.Labels[v1alpha1.LabelRole] == role {
			out[pod.Name] = pod.UID
		}
	}
	return out
}

// killLeader deletes the Pod that holds the coordinator's Lease, without a grace period.
func (p *play) killLeader() {
	p.t.Helper()
	lease, err := p.Core.CoordinationV1().Leases(cluster.System).Get(p.t.Context(), cluster.Coordinator, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	pods, err := p.Core.CoreV1().Pods(cluster.System).List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if string(pod.UID) == *lease.Spec.HolderIdentity {
			err := p.Core.CoreV1().Pods(cluster.System).Delete(p.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			if err != nil {
				p.t.Fatal(err)
			}
			return
		}
	}
	p.t.Fatalf("no Pod has the UID %s that leads", *lease.Spec.HolderIdentity)
}

// meddle annotates all objects of the ModelServing again and again, so that whoever read one before
// meets a conflict.
func (p *play) meddle(ctx context.Context, who int) {
	for n := 0; ctx.Err() == nil; n++ {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/meddler-%d":"%d"}}}`, who, n)
		for _, list := range []client.ObjectList{&v1alpha1.ModelServingList{}, &v1alpha1.ServingGroupList{}, &corev1.PodList{}} {
			if p.Objects.List(ctx, list, client.InNamespace(cluster.Namespace)) != nil {
				continue
			}
			_ = meta.EachListItem(list, func(item runtime.Object) error {
				if o := item.(client.Object); strings.HasPrefix(o.GetName(), p.name) {
					_ = p.Objects.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)) // it may be gone
				}
				return nil
			})
		}
	}
}

// verb runs the plugin, and wants its exit code and a text in what it says.
func (p *play) verb(code int, text string, args ...string) {
	p.t.Helper()
	streams, _, out, errs := genericiooptions.NewTestIOStreams()
	got := verb.Execute(p.t.Context(), append(args, "--kubeconfig", p.KubeconfigPath(), "-n", cluster.Namespace), verb.Env{
		Streams: streams, Clock: clock.RealClock{}, Version: "test", Connect: verb.Connect,
		NewID: func() string { return string(uuid.NewUUID()) },
	})
	p.t.Logf("kubectl pitstop %s: exit code %d\n%s%s", strings.Join(args, " "), got, out, errs)
	if got != code || !strings.Contains(out.String(), text) {
		p.t.Errorf("kubectl pitstop %v: exit code %d, want %d and %q", args, got, code, text)
	}
}
