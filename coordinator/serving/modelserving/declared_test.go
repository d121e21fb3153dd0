package modelserving_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

func percent(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }
func count(n int32) *intstr.IntOrString    { return new(intstr.FromInt32(n)) }

// seen makes one pass over a ModelServing that f changes, and returns what the plan was asked.
func seen(t *testing.T, f func(*v1alpha1.ModelServing)) (plan.Snapshot, error) {
	t.Helper()
	ms := declared(1)
	f(ms)
	w := newWorld(t, ms)
	var got plan.Snapshot
	w.decide = func(s plan.Snapshot) plan.Plan {
		got = s
		return plan.Plan{Report: idle()}
	}
	_, err := w.pass()
	return got, err
}

func TestPercentagesAreResolved(t *testing.T) {
	type budget struct{ Unavailable, Surge, Partition int32 }
	for name, tt := range map[string]struct {
		replicas                      int32
		unavailable, surge, partition *intstr.IntOrString
		want                          budget
	}{
		"nothing is set":                          {4, nil, nil, nil, budget{1, 0, 0}},
		"numbers stay":                            {4, count(2), count(3), count(7), budget{2, 3, 7}},
		"zero is not absent":                      {4, count(0), count(0), count(0), budget{0, 0, 0}},
		"maxUnavailable rounds down":              {3, percent("50%"), nil, nil, budget{1, 0, 0}},
		"maxUnavailable rounds down to 0":         {3, percent("25%"), nil, nil, budget{0, 0, 0}},
		"maxSurge rounds up":                      {3, nil, percent("1%"), nil, budget{1, 1, 0}},
		"partition rounds up: half of 3":          {3, nil, nil, percent("50%"), budget{1, 0, 2}},
		"partition rounds up: a hundredth of 10":  {10, nil, nil, percent("1%"), budget{1, 0, 1}},
		"all of them":                             {10, percent("100%"), percent("100%"), percent("100%"), budget{10, 10, 10}},
		"no replicas":                             {0, percent("100%"), percent("50%"), percent("50%"), budget{0, 0, 0}},
		"a third of 10, down, up and up":          {10, percent("33%"), percent("33%"), percent("33%"), budget{3, 4, 4}},
		"none of 5, as a percentage, is not one":  {5, percent("0%"), percent("0%"), percent("0%"), budget{0, 0, 0}},
		"exact percentages are not rounded up":    {4, percent("25%"), percent("25%"), percent("50%"), budget{1, 1, 2}},
		"a partition may be above the replicas":   {2, nil, nil, count(5), budget{1, 0, 5}},
		"a percentage is of today's replicas":     {20, percent("10%"), percent("10%"), nil, budget{2, 2, 0}},
		"the largest number of groups, a percent": {20000, percent("1%"), percent("1%"), percent("1%"), budget{200, 200, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			groups, err := seen(t, func(ms *v1alpha1.ModelServing) {
				ms.Spec.Replicas = &tt.replicas
				ms.Spec.RolloutStrategy.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{
					MaxUnavailable: tt.unavailable, MaxSurge: tt.surge, Partition: tt.partition,
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			s := groups.Serving
			if diff := cmp.Diff(tt.want, budget{s.MaxUnavailable, s.MaxSurge, s.Partition}); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			roles, err := seen(t, func(ms *v1alpha1.ModelServing) {
				ms.Spec.RolloutStrategy.Type = v1alpha1.RoleRollingUpdate
				r := &ms.Spec.Template.Roles[0]
				r.Replicas, r.MaxUnavailable, r.MaxSurge, r.Partition = &tt.replicas, tt.unavailable, tt.surge, tt.partition
			})
			if err != nil {
				t.Fatal(err)
			}
			want := plan.Role{Name: "prefill", Replicas: tt.replicas, MaxUnavailable: tt.want.Unavailable, MaxSurge: tt.want.Surge, Partition: tt.want.Partition}
			if diff := cmp.Diff([]plan.Role{want}, roles.Serving.Roles); diff != "" {
				t.Errorf("roles (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsDeclared(t *testing.T) {
	prefill := plan.Role{Name: "prefill", Replicas: 1, MaxUnavailable: 1}
	for name, tt := range map[string]struct {
		change func(*v1alpha1.ModelServing)
		want   plan.Serving
	}{
		"as little as possible": {
			func(ms *v1alpha1.ModelServing) {
				ms.Spec = v1alpha1.ModelServingSpec{Template: ms.Spec.Template}
				ms.Spec.Template.Roles[0].Replicas = nil
			},
			plan.Serving{
				Name: "ms", Replicas: 1, Type: v1alpha1.ServingGroupRollingUpdate, MaxUnavailable: 1, Deadline: 30 * time.Minute,
				Roles: []plan.Role{prefill},
			},
		},
		"roles are sorted by name": {
			func(ms *v1alpha1.ModelServing) {
				ms.Spec.Template.Roles = append(ms.Spec.Template.Roles, v1alpha1.Role{Name: "decode", Replicas: new(int32(0)), EntryTemplate: template("engine:1")})
			},
			plan.Serving{
				Name: "ms", Replicas: 1, Type: v1alpha1.ServingGroupRollingUpdate, MaxUnavailable: 1, Deadline: 30 * time.Minute,
				Roles: []plan.Role{{Name: "decode", Replicas: 0, MaxUnavailable: 1}, prefill},
			},
		},
		"times and the pause": {
			func(ms *v1alpha1.ModelServing) {
				ms.Spec.Paused = true
				ms.Spec.ProgressDeadlineSeconds = new(int32(60))
				ms.Spec.RolloutStrategy.MinReadySeconds = 5
			},
			plan.Serving{
				Name: "ms", Replicas: 1, Paused: true, Type: v1alpha1.ServingGroupRollingUpdate, MaxUnavailable: 1,
				MinReady: 5 * time.Second, Deadline: time.Minute, Roles: []plan.Role{prefill},
			},
		},
		"a cap on groups that rounds down to none is one": {
			func(ms *v1alpha1.ModelServing) {
				ms.Spec.Replicas = new(int32(3))
				ms.Spec.RolloutStrategy.Type = v1alpha1.RoleRollingUpdate
				ms.Spec.RolloutStrategy.MaxUnavailableGroups = percent("10%")
			},
			plan.Serving{
				Name: "ms", Replicas: 3, Type: v1alpha1.RoleRollingUpdate, MaxUnavailableGroups: 1, Deadline: 30 * time.Minute,
				Roles: []plan.Role{prefill},
			},
		},
		"no cap on groups": {
			func(ms *v1alpha1.ModelServing) { ms.Spec.RolloutStrategy.Type = v1alpha1.RoleRollingUpdate },
			plan.Serving{
				Name: "ms", Replicas: 1, Type: v1alpha1.RoleRollingUpdate, Deadline: 30 * time.Minute,
				Roles: []plan.Role{prefill},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := seen(t, tt.change)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Serving); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPercentageThatIsNoneDecidesNothing(t *testing.T) {
	got, err := seen(t, func(ms *v1alpha1.ModelServing) {
		ms.Spec.RolloutStrategy.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{MaxUnavailable: percent("half")}
	})
	if err == nil || got.Target != "" {
		t.Errorf("error %v, decided on %+v", err, got)
	}
}
