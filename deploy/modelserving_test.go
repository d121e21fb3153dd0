//go:build lab

package deploy_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pitstop.dev/api/v1alpha1"
)

// serving makes a ModelServing of one role, after change, which may be nil.
func (c client) serving(ctx context.Context, change func(*v1alpha1.ModelServing)) (*v1alpha1.ModelServing, error) {
	ms := &v1alpha1.ModelServing{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ms-"},
		Spec: v1alpha1.ModelServingSpec{Template: v1alpha1.ServingGroupTemplate{Roles: []v1alpha1.Role{
			{Name: "prefill", EntryTemplate: podTemplate()},
		}}},
	}
	if change != nil {
		change(ms)
	}
	var out v1alpha1.ModelServing
	err := c.orders.Post().Namespace(apps).Resource("modelservings").Body(ms).Do(ctx).Into(&out)
	return &out, err
}

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "llm"}, Annotations: map[string]string{"example.com/note": "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: "engine:1"}}},
	}
}

// change writes a ModelServing anew, or with sub "status" its report.
func (c client) change(ctx context.Context, ms *v1alpha1.ModelServing, sub string, change func(*v1alpha1.ModelServing)) error {
	var live v1alpha1.ModelServing
	if err := c.orders.Get().Namespace(apps).Resource("modelservings").Name(ms.Name).Do(ctx).Into(&live); err != nil {
		return err
	}
	change(&live)
	put := c.orders.Put().Namespace(apps).Resource("modelservings").Name(ms.Name)
	if sub != "" {
		put = put.SubResource(sub)
	}
	return put.Body(&live).Do(ctx).Error()
}

// TestSchemaOfAModelServing creates ModelServings: each rule of the schema with one that is
// accepted, by the webhook too, and one that is not.
func TestSchemaOfAModelServing(t *testing.T) {
	type change = func(*v1alpha1.ModelServing)
	spec := func(f func(*v1alpha1.ModelServingSpec)) change {
		return func(ms *v1alpha1.ModelServing) { f(&ms.Spec) }
	}
	strategy := func(f func(*v1alpha1.RolloutStrategy)) change {
		return func(ms *v1alpha1.ModelServing) { f(&ms.Spec.RolloutStrategy) }
	}
	role := func(f func(*v1alpha1.Role)) change {
		return func(ms *v1alpha1.ModelServing) { f(&ms.Spec.Template.Roles[0]) }
	}
	roles := func(n int) change {
		return func(ms *v1alpha1.ModelServing) {
			for i := 1; i < n; i++ {
				r := ms.Spec.Template.Roles[0]
				r.Name = "r" + string(rune('0'+i))
				ms.Spec.Template.Roles = append(ms.Spec.Template.Roles, r)
			}
		}
	}
	named := func(name string) change { return role(func(r *v1alpha1.Role) { r.Name = name }) }
	parsed := func(v string) *intstr.IntOrString { return new(intstr.Parse(v)) }
	byRole := func(f func(*v1alpha1.ModelServing)) change {
		return func(ms *v1alpha1.ModelServing) {
			ms.Spec.RolloutStrategy.Type = v1alpha1.RoleRollingUpdate
			f(ms)
		}
	}
	type row struct {
		change change
		want   string
	}
	rows := map[string]row{
		"as it is":                    {func(*v1alpha1.ModelServing) {}, ""},
		"no ServingGroups":            {spec(func(s *v1alpha1.ModelServingSpec) { s.Replicas = new(int32(0)) }), ""},
		"a negative number":           {spec(func(s *v1alpha1.ModelServingSpec) { s.Replicas = new(int32(-1)) }), "spec.replicas"},
		"the most ServingGroups":      {spec(func(s *v1alpha1.ModelServingSpec) { s.Replicas = new(int32(20000)) }), ""},
		"too many ServingGroups":      {spec(func(s *v1alpha1.ModelServingSpec) { s.Replicas = new(int32(20001)) }), "spec.replicas"},
		"too long a scheduler":        {spec(func(s *v1alpha1.ModelServingSpec) { s.SchedulerName = strings.Repeat("s", 254) }), "spec.schedulerName"},
		"no history":                  {spec(func(s *v1alpha1.ModelServingSpec) { s.RevisionHistoryLimit = new(int32(0)) }), ""},
		"a negative history":          {spec(func(s *v1alpha1.ModelServingSpec) { s.RevisionHistoryLimit = new(int32(-1)) }), "spec.revisionHistoryLimit"},
		"too long a history":          {spec(func(s *v1alpha1.ModelServingSpec) { s.RevisionHistoryLimit = new(int32(1001)) }), "spec.revisionHistoryLimit"},
		"recovery of nothing else":    {spec(func(s *v1alpha1.ModelServingSpec) { s.RecoveryPolicy = v1alpha1.RecoverNone }), ""},
		"an unknown recovery":         {spec(func(s *v1alpha1.ModelServingSpec) { s.RecoveryPolicy = "Pray" }), "spec.recoveryPolicy"},
		"the shortest deadline":       {spec(func(s *v1alpha1.ModelServingSpec) { s.ProgressDeadlineSeconds = new(int32(1)) }), ""},
		"no deadline":                 {spec(func(s *v1alpha1.ModelServingSpec) { s.ProgressDeadlineSeconds = new(int32(0)) }), "spec.progressDeadlineSeconds"},
		"too long a deadline":         {spec(func(s *v1alpha1.ModelServingSpec) { s.ProgressDeadlineSeconds = new(int32(604801)) }), "spec.progressDeadlineSeconds"},
		"an unknown type":             {strategy(func(s *v1alpha1.RolloutStrategy) { s.Type = "All" }), "spec.rolloutStrategy.type"},
		"an unknown method":           {strategy(func(s *v1alpha1.RolloutStrategy) { s.UpdateMethod = "Hope" }), "spec.rolloutStrategy.updateMethod"},
		"ready for a minute":          {strategy(func(s *v1alpha1.RolloutStrategy) { s.MinReadySeconds = 60 }), ""},
		"ready for less than nothing": {strategy(func(s *v1alpha1.RolloutStrategy) { s.MinReadySeconds = -1 }), "spec.rolloutStrategy.minReadySeconds"},
		"an unknown drain":            {strategy(func(s *v1alpha1.RolloutStrategy) { s.Drain.Mode = "Hope" }), "spec.rolloutStrategy.drain.mode"},
		"a budget of groups": {strategy(func(s *v1alpha1.RolloutStrategy) {
			s.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{}
		}), ""},
		"a budget of groups by role": {byRole(strategy(func(s *v1alpha1.RolloutStrategy) {
			s.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{}
		})), "belongs to type ServingGroupRollingUpdate"},
		"a cap over groups by role":           {byRole(strategy(func(s *v1alpha1.RolloutStrategy) { s.MaxUnavailableGroups = parsed("1") })), ""},
		"a cap over groups in percent":        {byRole(strategy(func(s *v1alpha1.RolloutStrategy) { s.MaxUnavailableGroups = parsed("100%") })), ""},
		"a cap over groups of nothing":        {byRole(strategy(func(s *v1alpha1.RolloutStrategy) { s.MaxUnavailableGroups = parsed("0") })), "must be 1 or more"},
		"a cap over groups of nothing at all": {byRole(strategy(func(s *v1alpha1.RolloutStrategy) { s.MaxUnavailableGroups = parsed("0%") })), "spec.rolloutStrategy.maxUnavailableGroups"},
		"a cap over groups":                   {strategy(func(s *v1alpha1.RolloutStrategy) { s.MaxUnavailableGroups = parsed("1") }), "belongs to type RoleRollingUpdate"},
		"a negative grace":                    {spec(func(s *v1alpha1.ModelServingSpec) { s.Template.RestartGracePeriodSeconds = -1 }), "spec.template.restartGracePeriodSeconds"},
		"no roles":                            {spec(func(s *v1alpha1.ModelServingSpec) { s.Template.Roles = nil }), "spec.template.roles"},
		"eight roles":                         {roles(8), ""},
		"nine roles":                          {roles(9), "spec.template.roles"},
		"a role twice":                        {func(ms *v1alpha1.ModelServing) { roles(2)(ms); ms.Spec.Template.Roles[1].Name = "prefill" }, "Duplicate"},
		"the longest name of a role":          {named("abcdefghij-0"), ""},
		"too long a name of a role":           {named("abcdefghij-01"), "spec.template.roles[0].name"},
		"no name of a role":                   {named(""), "spec.template.roles[0].name"},
		"an upper-case role":                  {named("Prefill"), "must start with a lower-case letter"},
		"a role with a digit in front":        {named("1a"), "must start with a lower-case letter"},
		"a role with a dash at its end":       {named("a-"), "must start with a lower-case letter"},
		"a role of no instances":              {role(func(r *v1alpha1.Role) { r.Replicas = new(int32(0)) }), ""},
		"a role of less":                      {role(func(r *v1alpha1.Role) { r.Replicas = new(int32(-1)) }), "spec.template.roles[0].replicas"},
		"a role of too many":                  {role(func(r *v1alpha1.Role) { r.Replicas = new(int32(1001)) }), "spec.template.roles[0].replicas"},
		"workers":                             {role(func(r *v1alpha1.Role) { r.WorkerReplicas, r.WorkerTemplate = 1, new(podTemplate()) }), ""},
		"workers without a template":          {role(func(r *v1alpha1.Role) { r.WorkerReplicas = 1 }), "is required where workerReplicas is more than 0"},
		"a template without workers":          {role(func(r *v1alpha1.Role) { r.WorkerTemplate = new(podTemplate()) }), ""},
		"fewer workers than none":             {role(func(r *v1alpha1.Role) { r.WorkerReplicas = -1 }), "spec.template.roles[0].workerReplicas"},
		"too many workers":                    {role(func(r *v1alpha1.Role) { r.WorkerReplicas, r.WorkerTemplate = 1001, new(podTemplate()) }), "spec.template.roles[0].workerReplicas"},
	}
	const groupLevel, roleLevel = "spec.rolloutStrategy.rollingUpdateConfiguration.", "spec.template.roles[0]."
	for _, f := range []struct {
		name string
		set  func(*v1alpha1.RollingUpdateConfiguration, *intstr.IntOrString)
		role func(*v1alpha1.Role, *intstr.IntOrString)
	}{
		{
			"maxUnavailable",
			func(c *v1alpha1.RollingUpdateConfiguration, v *intstr.IntOrString) { c.MaxUnavailable = v },
			func(r *v1alpha1.Role, v *intstr.IntOrString) { r.MaxUnavailable = v },
		},
		{
			"maxSurge",
			func(c *v1alpha1.RollingUpdateConfiguration, v *intstr.IntOrString) { c.MaxSurge = v },
			func(r *v1alpha1.Role, v *intstr.IntOrString) { r.MaxSurge = v },
		},
		{
			"partition",
			func(c *v1alpha1.RollingUpdateConfiguration, v *intstr.IntOrString) { c.Partition = v },
			func(r *v1alpha1.Role, v *intstr.IntOrString) { r.Partition = v },
		},
	} {
		for value, ok := range map[string]bool{"1": true, "100%": true, "-1": false, "101%": false, "-5%": false, "05%": false, "1.5%": false, "some": false, "%": false} {
			want, wantRole := groupLevel+f.name, roleLevel+f.name
			if ok {
				want, wantRole = "", ""
			}
			rows[f.name+" "+value] = row{strategy(func(s *v1alpha1.RolloutStrategy) {
				s.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{}
				f.set(s.RollingUpdateConfiguration, parsed(value))
			}), want}
			rows[f.name+" "+value+" of a role"] = row{byRole(role(func(r *v1alpha1.Role) { f.role(r, parsed(value)) })), wantRole}
		}
	}
	for name, tt := range rows {
		t.Run(name, func(t *testing.T) {
			_, err := plane.admin.serving(t.Context(), tt.change)
			denied(t, err, tt.want)
		})
	}
}

func TestDefaultsOfAModelServing(t *testing.T) {
	ms := must(plane.admin.serving(t.Context(), func(ms *v1alpha1.ModelServing) {
		ms.Spec.RolloutStrategy.RollingUpdateConfiguration = &v1alpha1.RollingUpdateConfiguration{}
	}))(t)
	s := ms.Spec
	strategy, budget, role := s.RolloutStrategy, s.RolloutStrategy.RollingUpdateConfiguration, s.Template.Roles[0]
	if *s.Replicas != 1 || *s.RevisionHistoryLimit != 10 || s.RecoveryPolicy != v1alpha1.RecoverRole || *s.ProgressDeadlineSeconds != 1800 {
		t.Errorf("defaults %+v", s)
	}
	if strategy.Type != v1alpha1.ServingGroupRollingUpdate || strategy.UpdateMethod != v1alpha1.UpdateRecreate ||
		strategy.Drain.Mode != v1alpha1.DrainEngineMetrics || *strategy.Drain.TimeoutSeconds != 300 {
		t.Errorf("defaults %+v", strategy)
	}
	if budget.MaxUnavailable.String() != "1" || budget.MaxSurge.String() != "0" || budget.Partition.String() != "0" {
		t.Errorf("defaults %+v", budget)
	}
	if *role.Replicas != 1 || role.WorkerReplicas != 0 || role.MaxUnavailable != nil {
		t.Errorf("defaults %+v", role)
	}
	if role.EntryTemplate.Labels["app"] != "llm" || role.EntryTemplate.Annotations["example.com/note"] != "x" {
		t.Errorf("the template's metadata is not stored: %+v", role.EntryTemplate.ObjectMeta)
	}
}

// TestTheCoordinatorOnlyTakesRequestsFromAModelServing: all else of it is its users'.
func TestTheCoordinatorOnlyTakesRequestsFromAModelServing(t *testing.T) {
	request := v1alpha1.VerbRetry.Annotation()
	for name, tt := range map[string]struct {
		patch, want string
	}{
		"a request that is answered": {`{"metadata":{"annotations":{"` + request + `":null}}}`, ""},
		"another request":            {`{"metadata":{"annotations":{"` + request + `":"2"}}}`, "may only remove"},
		"an annotation of a user":    {`{"metadata":{"annotations":{"team":null}}}`, "may only remove"},
		"a new annotation":           {`{"metadata":{"annotations":{"mine":"x"}}}`, "may only remove"},
		"the spec":                   {`{"spec":{"replicas":3}}`, "may not change the spec"},
		"a label":                    {`{"metadata":{"labels":{"team":"y"}}}`, "may not change labels"},
		"a finalizer":                {`{"metadata":{"finalizers":["example.com/f"]}}`, "may not change labels, finalizers"},
	} {
		t.Run(name, func(t *testing.T) {
			ms := must(plane.admin.serving(t.Context(), func(ms *v1alpha1.ModelServing) {
				ms.Annotations = map[string]string{request: "1", "team": "x"}
			}))(t)
			err := plane.coordinator.orders.Patch(types.MergePatchType).Namespace(apps).Resource("modelservings").Name(ms.Name).
				Body([]byte(tt.patch)).Do(t.Context()).Error()
			denied(t, err, tt.want)
		})
	}
}
