//go:build lab

package deploy_test

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
)

type spec = v1alpha1.InPlaceUpdateSpec

// TestSchemaOfAnOrder creates orders: each rule with one that is accepted and one that is not.
func TestSchemaOfAnOrder(t *testing.T) {
	images := func(refs ...string) func(*spec) {
		return func(s *spec) {
			s.Containers = nil
			for i, ref := range refs {
				s.Containers = append(s.Containers, v1alpha1.ContainerImage{Name: "c" + string(rune('0'+i)), Image: ref})
			}
		}
	}
	longest := strings.Repeat("l", 63)
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for name, tt := range map[string]struct {
		change func(*spec)
		want   string
	}{
		"as it is":                        {func(*spec) {}, ""},
		"no Pod":                          {func(s *spec) { s.PodUID = "" }, "spec.podUID"},
		"no node":                         {func(s *spec) { s.NodeName = "" }, "spec.nodeName"},
		"a long node":                     {func(s *spec) { s.NodeName = strings.Repeat("n", 253) }, ""},
		"too long a node":                 {func(s *spec) { s.NodeName = strings.Repeat("n", 254) }, "spec.nodeName"},
		"no attempt":                      {func(s *spec) { s.Attempt = 0 }, "spec.attempt"},
		"a negative attempt":              {func(s *spec) { s.Attempt = -1 }, "spec.attempt"},
		"no containers":                   {images(), ""},
		"two containers":                  {images("a:1", "b:1"), ""},
		"one container twice":             {func(s *spec) { s.Containers = append(s.Containers, s.Containers[0]) }, "Duplicate"},
		"a container without a name":      {func(s *spec) { s.Containers[0].Name = "" }, "name"},
		"a container without an image":    {func(s *spec) { s.Containers[0].Image = "" }, "image"},
		"a repository":                    {images("engine"), ""},
		"a registry with a port":          {images("127.0.0.1:5000/team/engine"), ""},
		"a registry with an IPv6 address": {images("[2001:db8::1]:5000/engine:v1"), ""},
		"a tag":                           {images("registry.example.com/llm/vllm-openai:v0.9.1_cu128"), ""},
		"a digest":                        {images("registry.example.com/llm/engine" + digest), ""},
		"a tag and a digest":              {images("registry.example.com/llm/engine:v1" + digest), ""},
		"two separators":                  {images("registry.example.com/a__b/c--d:v1"), ""},
		"an upper-case repository":        {images("Engine:v1"), "image"},
		"a space":                         {images("engine:v 1"), "image"},
		"a URL":                           {images("https://registry.example.com/engine:v1"), "image"},
		"an empty tag":                    {images("engine:"), "image"},
		"a digest cut short":              {images("engine@sha256:0123"), "image"},
		"a label of ours": {func(s *spec) {
			s.Labels = map[string]v1alpha1.LabelValue{"pitstop.dev/canary": "true", "pitstop.dev/stable": ""}
		}, ""},
		"a label of others":               {func(s *spec) { s.Labels = map[string]v1alpha1.LabelValue{"app": "x"} }, "only labels under pitstop.dev/"},
		"a label that no Pod can have":    {func(s *spec) { s.Labels = map[string]v1alpha1.LabelValue{"pitstop.dev/": "x"} }, "a label is pitstop.dev/ and"},
		"a label of two parts":            {func(s *spec) { s.Labels = map[string]v1alpha1.LabelValue{"pitstop.dev/a/b": "x"} }, "a label is pitstop.dev/ and"},
		"the longest label":               {func(s *spec) { s.Labels = map[string]v1alpha1.LabelValue{"pitstop.dev/" + longest: "x"} }, ""},
		"too long a label":                {func(s *spec) { s.Labels = map[string]v1alpha1.LabelValue{"pitstop.dev/a" + longest: "x"} }, "a label is pitstop.dev/ and"},
		"a label value that no Pod has":   {func(s *spec) { s.Labels = map[string]v1alpha1.LabelValue{"pitstop.dev/canary": "no space"} }, "label"},
		"a revision":                      {func(s *spec) { s.Revision = "demo-7d9f" }, ""},
		"too long a revision":             {func(s *spec) { s.Revision = strings.Repeat("r", 64) }, "spec.revision"},
		"a revision that no label can be": {func(s *spec) { s.Revision = "a b" }, "revision"},
		"permit Prepare":                  {func(s *spec) { s.Permit = v1alpha1.PermitPrepare }, ""},
		"an unknown permit":               {func(s *spec) { s.Permit = "All" }, "spec.permit"},
		"openAt Verified":                 {func(s *spec) { s.OpenAt = v1alpha1.OpenAtVerified }, ""},
		"an unknown openAt":               {func(s *spec) { s.OpenAt = "Never" }, "spec.openAt"},
		"a drain":                         {func(s *spec) { s.Drain = &v1alpha1.Drain{Mode: v1alpha1.DrainDelay, TimeoutSeconds: ptr.To[int32](0)} }, ""},
		"a drain by the router":           {func(s *spec) { s.Drain = &v1alpha1.Drain{Mode: v1alpha1.DrainRouter} }, ""},
		"an unknown drain":                {func(s *spec) { s.Drain = &v1alpha1.Drain{Mode: "Hope"} }, "spec.drain.mode"},
		"a negative drain":                {func(s *spec) { s.Drain = &v1alpha1.Drain{TimeoutSeconds: ptr.To[int32](-1)} }, "spec.drain.timeoutSeconds"},
		"too long a drain":                {func(s *spec) { s.Drain = &v1alpha1.Drain{TimeoutSeconds: ptr.To[int32](86401)} }, "spec.drain.timeoutSeconds"},
		"no propagation":                  {func(s *spec) { s.PropagationSeconds = ptr.To[int32](0) }, ""},
		"a negative propagation":          {func(s *spec) { s.PropagationSeconds = ptr.To[int32](-1) }, "spec.propagationSeconds"},
		"too long a propagation":          {func(s *spec) { s.PropagationSeconds = ptr.To[int32](3601) }, "spec.propagationSeconds"},
		"the shortest stop":               {func(s *spec) { s.StopTimeoutSeconds = ptr.To[int32](1) }, ""},
		"no stop":                         {func(s *spec) { s.StopTimeoutSeconds = ptr.To[int32](0) }, "spec.stopTimeoutSeconds"},
		"too long a stop":                 {func(s *spec) { s.StopTimeoutSeconds = ptr.To[int32](86401) }, "spec.stopTimeoutSeconds"},
		"the shortest deadline":           {func(s *spec) { s.ProgressDeadlineSeconds = ptr.To[int32](1) }, ""},
		"no deadline":                     {func(s *spec) { s.ProgressDeadlineSeconds = ptr.To[int32](0) }, "spec.progressDeadlineSeconds"},
		"too long a deadline":             {func(s *spec) { s.ProgressDeadlineSeconds = ptr.To[int32](604801) }, "spec.progressDeadlineSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plane.admin.order(t.Context(), unique("schema", name), tt.change)
			denied(t, err, tt.want)
		})
	}
}

// unique makes a Pod's name out of a sentence.
func unique(prefix, sentence string) string {
	return prefix + "-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(sentence)) + "-x"
}

func TestDefaultsOfAnOrder(t *testing.T) {
	got := must(plane.admin.order(t.Context(), "defaults", func(s *spec) { s.Drain = &v1alpha1.Drain{} }))(t).Spec
	if got.OpenAt != v1alpha1.OpenAtProved || got.Permit != v1alpha1.PermitServe ||
		*got.PropagationSeconds != 3 || *got.StopTimeoutSeconds != 30 || *got.ProgressDeadlineSeconds != 1800 ||
		got.Drain.Mode != v1alpha1.DrainEngineMetrics || *got.Drain.TimeoutSeconds != 300 {
		t.Errorf("defaults %+v", got)
	}
}

// TestChangesOfAnOrder changes orders: each rule with one change that is accepted and one that is
// not. The order has every field, at permit Drain and attempt 3.
func TestChangesOfAnOrder(t *testing.T) {
	full := func(s *spec) {
		s.Attempt, s.Permit, s.Revision = 3, v1alpha1.PermitDrain, "a"
		s.Labels = map[string]v1alpha1.LabelValue{"pitstop.dev/canary": "true"}
		s.Drain = &v1alpha1.Drain{}
	}
	next := func(change func(*spec)) func(*spec) {
		return func(s *spec) { s.Attempt++; change(s) }
	}
	changes := map[string]func(*spec){
		"containers": func(s *spec) { s.Containers[0].Image = "engine:3" },
		"revision":   func(s *spec) { s.Revision = "b" },
		"labels":     func(s *spec) { s.Labels["pitstop.dev/canary"] = "" },
		"drain":      func(s *spec) { s.Drain.TimeoutSeconds = ptr.To[int32](1) },
		"openAt":     func(s *spec) { s.OpenAt = v1alpha1.OpenAtVerified },
		"propagationSeconds, stopTimeoutSeconds and progressDeadlineSeconds": func(s *spec) { s.StopTimeoutSeconds = ptr.To[int32](1) },
	}
	type row struct {
		change func(*spec)
		want   string
	}
	rows := map[string]row{
		"nothing":                           {func(*spec) {}, ""},
		"another Pod":                       {func(s *spec) { s.PodUID = "other" }, "podUID is immutable"},
		"another Pod, next attempt":         {next(func(s *spec) { s.PodUID = "other" }), "podUID is immutable"},
		"another node":                      {func(s *spec) { s.NodeName = "other" }, "nodeName is immutable"},
		"another node, next attempt":        {next(func(s *spec) { s.NodeName = "other" }), "nodeName is immutable"},
		"a group":                           {func(s *spec) { s.ServingGroupUID = "g" }, "servingGroupUID"},
		"a lower attempt":                   {func(s *spec) { s.Attempt = 2 }, "attempt only grows"},
		"a much higher attempt":             {func(s *spec) { s.Attempt = 1 << 30 }, ""},
		"an attempt that has no successor":  {func(s *spec) { s.Attempt = 1 << 31 }, "less than or equal to 2147483647"},
		"a higher permit":                   {func(s *spec) { s.Permit = v1alpha1.PermitSwap }, ""},
		"the highest permit":                {func(s *spec) { s.Permit = v1alpha1.PermitServe }, ""},
		"a lower permit":                    {func(s *spec) { s.Permit = v1alpha1.PermitPrepare }, "permit only rises"},
		"a lower permit, next attempt":      {next(func(s *spec) { s.Permit = v1alpha1.PermitPrepare }), ""},
		"no permit, which is the highest":   {func(s *spec) { s.Permit = "" }, ""},
		"no containers":                     {func(s *spec) { s.Containers = nil }, "containers may change only"},
		"no containers, next attempt":       {next(func(s *spec) { s.Containers = nil }), ""},
		"no revision":                       {func(s *spec) { s.Revision = "" }, "revision may change only"},
		"no labels":                         {func(s *spec) { s.Labels = nil }, "labels may change only"},
		"no drain":                          {func(s *spec) { s.Drain = nil }, "drain may change only"},
		"another propagation":               {func(s *spec) { s.PropagationSeconds = ptr.To[int32](0) }, "propagationSeconds"},
		"another deadline":                  {func(s *spec) { s.ProgressDeadlineSeconds = ptr.To[int32](9) }, "progressDeadlineSeconds"},
		"a propagation left to its default": {func(s *spec) { s.PropagationSeconds = nil }, ""},
	}
	for field, change := range changes {
		rows[field] = row{change, field + " may change only with a higher attempt"}
		rows[field+", next attempt"] = row{next(change), ""}
	}
	for name, tt := range rows {
		t.Run(name, func(t *testing.T) {
			u, err := plane.admin.order(t.Context(), unique("change", name), full)
			if err != nil {
				t.Fatal(err)
			}
			err = plane.admin.reorder(t.Context(), u, "", func(u *v1alpha1.InPlaceUpdate) { tt.change(&u.Spec) })
			denied(t, err, tt.want)
		})
	}
}

// TestReportOfAnOrder writes reports: an agent's mistake is refused, not stored.
func TestReportOfAnOrder(t *testing.T) {
	long := strings.Repeat("m", 1025)
	for name, tt := range map[string]struct {
		change func(*v1alpha1.InPlaceUpdateStatus)
		want   string
	}{
		"a stage":            {func(s *v1alpha1.InPlaceUpdateStatus) { s.Stage = v1alpha1.StageDrained }, ""},
		"an unknown stage":   {func(s *v1alpha1.InPlaceUpdateStatus) { s.Stage = "Lost" }, "status.stage"},
		"too long a message": {func(s *v1alpha1.InPlaceUpdateStatus) { s.Message = long }, "status.message"},
		"a container":        {func(s *v1alpha1.InPlaceUpdateStatus) { s.Containers = []v1alpha1.ContainerReport{{Name: "a"}} }, ""},
		"a container twice": {func(s *v1alpha1.InPlaceUpdateStatus) {
			s.Containers = []v1alpha1.ContainerReport{{Name: "a"}, {Name: "a"}}
		}, "Duplicate"},
		"a negative number":      {func(s *v1alpha1.InPlaceUpdateStatus) { s.Timings = &v1alpha1.Timings{Drain: ptr.To[int64](-1)} }, "status.timings.drain"},
		"negative requests":      {func(s *v1alpha1.InPlaceUpdateStatus) { s.RequestsCut = ptr.To[int64](-1) }, "status.requestsCut"},
		"a GPU without identity": {func(s *v1alpha1.InPlaceUpdateStatus) { s.GPUs = []v1alpha1.GPUReport{{}} }, "uuid"},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := plane.admin.order(t.Context(), unique("report", name), func(*spec) {})
			if err != nil {
				t.Fatal(err)
			}
			err = plane.admin.reorder(t.Context(), u, "status", func(u *v1alpha1.InPlaceUpdate) { tt.change(&u.Status) })
			denied(t, err, tt.want)
		})
	}
}
