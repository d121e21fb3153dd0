package history

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"pitstop.dev/test/sim/cluster"
)

// What the coordinator writes in its histories is what its ClusterRole lets it write, no less and no more.
func TestTheCoordinatorHasTheRightsThatItUses(t *testing.T) {
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	build := func(d Deps) (Reconcilers, error) {
		d.Client = writes{d.Client, used}
		return Real(d)
	}
	const histories = 300 // the rarest write comes once in a hundred: a Service is given its labels back
	for seed := range uint64(histories) {
		if _, err := Run(t.Context(), Options{Seed: seed + 1, Build: build, Scheme: scheme}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(granted(t), slices.Sorted(maps.Keys(used))); diff != "" {
		t.Errorf("writes of the coordinator (-granted +used):\n%s", diff)
	}
}

// granted are the writes that the ClusterRole grants, but for those that no history has: events, the webhook's
// configuration, and the finalizers that an owner reference asks for.
func granted(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/base/coordinator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil || role.Kind != "ClusterRole" {
			continue
		}
		for _, rule := range role.Rules {
			out = append(out, writesOf(rule)...)
		}
	}
	slices.Sort(out)
	return out
}

func writesOf(rule rbacv1.PolicyRule) (out []string) {
	for _, resource := range rule.Resources {
		if strings.HasSuffix(resource, "/finalizers") || resource == "events" || resource == "validatingwebhookconfigurations" {
			continue
		}
		for _, verb := range rule.Verbs {
			if !slices.Contains([]string{"get", "list", "watch"}, verb) {
				out = append(out, verb+" "+resource)
			}
		}
	}
	return out
}

// writes notes what is written through a client.
type writes struct {
	client.Client
	used map[string]bool
}

func (w writes) note(verb string, o client.Object, sub string) {
	kind, err := apiutil.GVKForObject(o, w.Scheme())
	if err != nil {
		panic(err)
	}
	w.used[verb+" "+strings.ToLower(kind.Kind)+"s"+sub] = true
}

func (w writes) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	w.note("create", o, "")
	return w.Client.Create(ctx, o, opts...)
}

func (w writes) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	w.note("update", o, "")
	return w.Client.Update(ctx, o, opts...)
}

func (w writes) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	w.note("patch", o, "")
	return w.Client.Patch(ctx, o, p, opts...)
}

func (w writes) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	w.note("delete", o, "")
	return w.Client.Delete(ctx, o, opts...)
}

func (w writes) Status() client.SubResourceWriter { return statusWrites{w.Client.Status(), w} }

type statusWrites struct {
	client.SubResourceWriter
	w writes
}

func (s statusWrites) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	s.w.note("update", o, "/status")
	return s.SubResourceWriter.Update(ctx, o, opts...)
}

func (s statusWrites) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	if _, pod := o.(*corev1.Pod); !pod {
		panic("no patch but that of a Pod")
	}
	s.w.note("patch", o, "/status")
	return s.SubResourceWriter.Patch(ctx, o, p, opts...)
}
