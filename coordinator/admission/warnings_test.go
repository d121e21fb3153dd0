package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/admission"
)

func TestWarnings(t *testing.T) {
	wholeGroup := func(ms *v1alpha1.ModelServing) { ms.Spec.RecoveryPolicy = v1alpha1.RecoverServingGroup }
	pull := func(p corev1.PullPolicy) change {
		return engine(func(c *corev1.Container) { c.ImagePullPolicy = p })
	}
	const configuration = "spec.rolloutStrategy.rollingUpdateConfiguration."
	const container = "spec.template.roles[1].entryTemplate.spec.containers[0]."
	for name, tt := range map[string]struct {
		change []change
		want   []string // in order, a part of each
	}{
		"nothing is odd": {nil, nil},
		"recovery of the whole group with a rollout of groups": {[]change{wholeGroup}, nil},
		"recovery of the whole group with a rollout of roles":  {[]change{wholeGroup, byRole}, []string{"spec.recoveryPolicy: ServingGroupRecreate with"}},
		"as many unavailable as there are":                     {[]change{groups("4")}, nil},
		"more unavailable than there are":                      {[]change{groups("5")}, []string{configuration + "maxUnavailable: 5 is more than replicas, 4"}},
		"a partition below":                                    {[]change{groups("1", "0", "3")}, nil},
		"a partition of all":                                   {[]change{groups("1", "0", "4")}, []string{configuration + "partition: 4 protects all 4"}},
		"a partition in percent that rounds up to all":         {[]change{groups("1", "0", "76%")}, []string{"partition: 4 protects all 4"}},
		"a partition of nothing":                               {[]change{groups("1", "0", "4"), replicas(0)}, nil},
		"a role's partition of all":                            {[]change{byRole, instances(4, "", "", "100%")}, []string{"spec.template.roles[0].partition: 4 protects all 4 instances"}},
		"a role's partition below":                             {[]change{byRole, instances(4, "", "", "3")}, nil},
		"a percentage that comes to nothing when scaled":       {[]change{groups("30%")}, []string{configuration + "maxUnavailable: 30% is 0 of fewer than 4 replicas"}},
		"a percentage with a surge":                            {[]change{groups("30%", "1")}, nil},
		"all, in percent":                                      {[]change{groups("100%")}, nil},
		"imagePullPolicy Always":                               {[]change{pull(corev1.PullAlways)}, []string{container + "imagePullPolicy: Always keeps container engine"}},
		"imagePullPolicy IfNotPresent with latest":             {[]change{pull(corev1.PullIfNotPresent), image("vllm")}, nil},
		"latest":              {[]change{image("registry:5000/vllm:latest")}, []string{container + "imagePullPolicy: is Always where"}},
		"no tag":              {[]change{image("registry:5000/vllm")}, []string{container + "imagePullPolicy: is Always where"}},
		"no tag and a digest": {[]change{image("vllm@sha256:" + strings.Repeat("a", 64))}, nil},
		"a worker": {[]change{func(ms *v1alpha1.ModelServing) {
			ms.Spec.Template.Roles[0].WorkerTemplate.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
		}}, []string{"spec.template.roles[0].workerTemplate.spec.containers[0].imagePullPolicy"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := admission.Validate(nil, serving(tt.change...))
			if err := errs.ToAggregate(); err != nil {
				t.Fatal(err)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("warnings %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.Contains(got[i], tt.want[i]) {
					t.Errorf("warning %q, want %q", got[i], tt.want[i])
				}
			}
		})
	}
}

func TestAStoredMistakeIsAWarning(t *testing.T) {
	stored := serving(image("a b:1"))
	warnings, errs := admission.Validate(stored, stored)
	if len(errs) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], `"a b:1"`) || !strings.Contains(warnings[0], "stored so before") {
		t.Errorf("errors %v, warnings %q", errs, warnings)
	}
}
