//go:build lab

package deploy_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// group is a ServingGroup with an instance and an open update.
func group(name string) *v1alpha1.ServingGroup {
	return &v1alpha1.ServingGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ServingGroupSpec{
			Ordinal: new(int32(0)), Revision: "ms-1", LastAttempt: 2,
			Instances: []v1alpha1.RoleInstance{{Role: "prefill", Ordinal: new(int32(0))}},
			Updates: []v1alpha1.UnitUpdate{{
				Unit: "", Attempt: 2, Method: v1alpha1.UnitRecreate, Target: "ms-2", Previous: "ms-1", Permit: v1alpha1.PermitDrain,
			}},
		},
	}
}

func (c client) group(ctx context.Context, name string, change func(*v1alpha1.ServingGroupSpec)) (*v1alpha1.ServingGroup, error) {
	sg := group(name)
	change(&sg.Spec)
	var out v1alpha1.ServingGroup
	err := c.orders.Post().Namespace(apps).Resource("servinggroups").Body(sg).Do(ctx).Into(&out)
	return &out, err
}

// regroup writes a ServingGroup anew, or with sub "status" its report.
func (c client) regroup(ctx context.Context, name, sub string, change func(*v1alpha1.ServingGroup)) error {
	var live v1alpha1.ServingGroup
	if err := c.orders.Get().Namespace(apps).Resource("servinggroups").Name(name).Do(ctx).Into(&live); err != nil {
		return err
	}
	change(&live)
	put := c.orders.Put().Namespace(apps).Resource("servinggroups").Name(name)
	if sub != "" {
		put = put.SubResource(sub)
	}
	return put.Body(&live).Do(ctx).Error()
}

func unchanged(*v1alpha1.ServingGroupSpec) {}

// TestSchemaOfAServingGroup creates ServingGroups: a mistake of the coordinator is refused, not
// stored.
func TestSchemaOfAServingGroup(t *testing.T) {
	type spec = v1alpha1.ServingGroupSpec
	for name, tt := range map[string]struct {
		change func(*spec)
		want   string
	}{
		"as it is":                       {unchanged, ""},
		"no ordinal":                     {func(s *spec) { s.Ordinal = nil }, "spec.ordinal"},
		"a negative ordinal":             {func(s *spec) { s.Ordinal = new(int32(-1)) }, "spec.ordinal"},
		"no revision":                    {func(s *spec) { s.Revision = "" }, "spec.revision"},
		"the longest revision":           {func(s *spec) { s.Revision = strings.Repeat("r", 63) }, ""},
		"too long a revision":            {func(s *spec) { s.Revision = strings.Repeat("r", 64) }, "spec.revision"},
		"no instances":                   {func(s *spec) { s.Instances = nil }, ""},
		"an instance with its own pin":   {func(s *spec) { s.Instances[0].Revision = "ms-2" }, ""},
		"an instance twice":              {func(s *spec) { s.Instances = append(s.Instances, s.Instances[0]) }, "Duplicate"},
		"an instance of no role":         {func(s *spec) { s.Instances[0].Role = "" }, "spec.instances[0].role"},
		"an instance without an ordinal": {func(s *spec) { s.Instances[0].Ordinal = nil }, "spec.instances[0].ordinal"},
		"no updates":                     {func(s *spec) { s.Updates = nil }, ""},
		"two units in update":            {func(s *spec) { s.Updates = append(s.Updates, s.Updates[0]); s.Updates[0].Unit = "prefill-0" }, ""},
		"one unit in two updates":        {func(s *spec) { s.Updates = append(s.Updates, s.Updates[0]) }, "Duplicate"},
		"too long a unit":                {func(s *spec) { s.Updates[0].Unit = strings.Repeat("u", 33) }, "spec.updates[0].unit"},
		"no attempt":                     {func(s *spec) { s.Updates[0].Attempt = 0 }, "spec.updates[0].attempt"},
		"a removal":                      {func(s *spec) { s.Updates[0].Method, s.Updates[0].Target = v1alpha1.UnitRemove, "" }, ""},
		"an unknown method":              {func(s *spec) { s.Updates[0].Method = "Hope" }, "spec.updates[0].method"},
		"an unknown permit":              {func(s *spec) { s.Updates[0].Permit = "All" }, "spec.updates[0].permit"},
		"no permit":                      {func(s *spec) { s.Updates[0].Permit = "" }, "spec.updates[0].permit"},
		"a request": {func(s *spec) {
			s.Updates[0].Request = &v1alpha1.UnitRequest{Verb: v1alpha1.VerbRecreate, ID: "1", Wanted: "ms-2"}
		}, ""},
		"a request for no verb":  {func(s *spec) { s.Updates[0].Request = &v1alpha1.UnitRequest{Verb: "dance"} }, "spec.updates[0].request.verb"},
		"a negative lastAttempt": {func(s *spec) { s.LastAttempt = -1 }, "spec.lastAttempt"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plane.coordinator.group(t.Context(), unique("sg", name), tt.change)
			denied(t, err, tt.want)
		})
	}
}

func TestChangesOfAServingGroup(t *testing.T) {
	type spec = v1alpha1.ServingGroupSpec
	for name, tt := range map[string]struct {
		change func(*spec)
		want   string
	}{
		"another revision":     {func(s *spec) { s.Revision = "ms-2" }, ""},
		"another ordinal":      {func(s *spec) { s.Ordinal = new(int32(1)) }, "ordinal is immutable"},
		"a higher lastAttempt": {func(s *spec) { s.LastAttempt = 3 }, ""},
		"a lower lastAttempt":  {func(s *spec) { s.LastAttempt = 1 }, "lastAttempt only grows"},
		"no lastAttempt":       {func(s *spec) { s.LastAttempt = 0 }, "lastAttempt only grows"},
		"the update closed":    {func(s *spec) { s.Updates = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sg := must(plane.coordinator.group(t.Context(), unique("sg-change", name), unchanged))(t)
			err := plane.coordinator.regroup(t.Context(), sg.Name, "", func(sg *v1alpha1.ServingGroup) { tt.change(&sg.Spec) })
			denied(t, err, tt.want)
		})
	}
}

func TestReportOfAServingGroup(t *testing.T) {
	type status = v1alpha1.ServingGroupStatus
	update := v1alpha1.UnitUpdateStatus{Attempt: 2, Stage: v1alpha1.UnitDrained, Since: metav1.Unix(1e9, 0)}
	instance := v1alpha1.InstanceStatus{Role: "prefill", Ordinal: new(int32(0)), Phase: v1alpha1.InstanceRunning}
	for name, tt := range map[string]struct {
		change func(*status)
		want   string
	}{
		"an update":          {func(s *status) { s.Updates = []v1alpha1.UnitUpdateStatus{update} }, ""},
		"an update twice":    {func(s *status) { s.Updates = []v1alpha1.UnitUpdateStatus{update, update} }, "Duplicate"},
		"an unknown stage":   {func(s *status) { s.Updates = []v1alpha1.UnitUpdateStatus{update}; s.Updates[0].Stage = "Lost" }, "status.updates[0].stage"},
		"an instance":        {func(s *status) { s.Instances = []v1alpha1.InstanceStatus{instance} }, ""},
		"an instance twice":  {func(s *status) { s.Instances = []v1alpha1.InstanceStatus{instance, instance} }, "Duplicate"},
		"an unknown phase":   {func(s *status) { s.Instances = []v1alpha1.InstanceStatus{instance}; s.Instances[0].Phase = "Lost" }, "status.instances[0].phase"},
		"a number below nil": {func(s *status) { s.LivePods = -1 }, "status.livePods"},
	} {
		t.Run(name, func(t *testing.T) {
			sg := must(plane.coordinator.group(t.Context(), unique("sg-report", name), unchanged))(t)
			err := plane.coordinator.regroup(t.Context(), sg.Name, "status", func(sg *v1alpha1.ServingGroup) { tt.change(&sg.Status) })
			denied(t, err, tt.want)
		})
	}
}

// TestServingGroupsAreTheCoordinators: not even an administrator writes their spec.
func TestServingGroupsAreTheCoordinators(t *testing.T) {
	ctx := t.Context()
	const want = "is written by the coordinator only"
	_, err := plane.admin.group(ctx, "sg-by-hand", unchanged)
	denied(t, err, want)
	sg := must(plane.coordinator.group(ctx, "sg-policy", unchanged))(t)
	denied(t, plane.admin.regroup(ctx, sg.Name, "", func(sg *v1alpha1.ServingGroup) { sg.Spec.Updates[0].Permit = v1alpha1.PermitServe }), want)
	denied(t, plane.coordinator.regroup(ctx, sg.Name, "", func(sg *v1alpha1.ServingGroup) { sg.Spec.Updates[0].Permit = v1alpha1.PermitSwap }), "")
	denied(t, plane.admin.regroup(ctx, sg.Name, "", func(sg *v1alpha1.ServingGroup) {
		sg.Annotations, sg.Finalizers = map[string]string{"pitstop.dev/do.retry": "1"}, []string{v1alpha1.FinalizerOrdinal}
	}), "")
	denied(t, plane.admin.orders.Delete().Namespace(apps).Resource("servinggroups").Name(sg.Name).Do(ctx).Error(), "")
	drop := []byte(`{"metadata":{"finalizers":null}}`)
	denied(t, plane.admin.orders.Patch(types.MergePatchType).Namespace(apps).Resource("servinggroups").Name(sg.Name).Body(drop).Do(ctx).Error(), "")
}
