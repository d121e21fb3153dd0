package revision

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"pitstop.dev/api/v1alpha1"
)

// TestObstaclesInAPod has the bodies of a Pod's spec before and after.
func TestObstaclesInAPod(t *testing.T) {
	const at = "role engine: entryTemplate.spec."
	for name, tt := range map[string]struct {
		from, to string
		want     []string
	}{
		"nothing":  {`containers: [{name: e, image: "e:1"}]`, `containers: [{name: e, image: "e:1"}]`, nil},
		"an image": {`containers: [{name: e, image: "e:1"}]`, `containers: [{name: e, image: "e:2"}]`, nil},
		"images of two containers of three": {
			`containers: [{name: e, image: "e:1"}, {name: f, image: "f:1"}, {name: g, image: "g:1"}]`,
			`containers: [{name: e, image: "e:2"}, {name: f, image: "f:1"}, {name: g, image: "g:2"}]`, nil,
		},
		"an image, and the policy of its tag written down": {
			`containers: [{name: e, image: "e:1"}]`,
			`containers: [{name: e, image: "e:2", imagePullPolicy: IfNotPresent}]`, nil,
		},
		"an image of the policy Never": {
			`containers: [{name: e, image: "e:1", imagePullPolicy: Never}]`,
			`containers: [{name: e, image: "e:2", imagePullPolicy: Never}]`, nil,
		},
		"a tag latest that is not asked for again": {
			`containers: [{name: e, image: "e:1", imagePullPolicy: IfNotPresent}]`,
			`containers: [{name: e, image: "e:latest", imagePullPolicy: IfNotPresent}]`, nil,
		},
		"an image of the policy Always": {
			`containers: [{name: e, image: "e:1", imagePullPolicy: Always}]`,
			`containers: [{name: e, image: "e:2", imagePullPolicy: Always}]`,
			[]string{at + `containers[e].imagePullPolicy is Always: kubelet would stop the container and only then ask the registry for "e:2"`},
		},
		"a container of the policy Always, and another's image": {
			`containers: [{name: e, image: "e:latest"}, {name: f, image: "f:1"}]`,
			`containers: [{name: e, image: "e:latest"}, {name: f, image: "f:2"}]`, nil,
		},
		"from a tag to latest": {
			`containers: [{name: e, image: "e:1"}]`, `containers: [{name: e, image: e}]`,
			[]string{at + `containers[e].imagePullPolicy changes from "IfNotPresent" to "Always": it follows from the tags of "e:1" and "e", and stays in the Pod`},
		},
		"from latest to a tag": {
			`containers: [{name: e, image: "e:latest"}]`, `containers: [{name: e, image: "e:1"}]`,
			[]string{at + `containers[e].imagePullPolicy changes from "Always" to "IfNotPresent": it follows from the tags of "e:latest" and "e:1", and stays in the Pod`},
		},
		"a policy": {
			`containers: [{name: e, image: "e:1"}]`, `containers: [{name: e, image: "e:1", imagePullPolicy: Never}]`,
			[]string{at + `containers[e].imagePullPolicy changes from "IfNotPresent" to "Never"`},
		},
		"images of a Pod that does not restart": {
			`{restartPolicy: OnFailure, containers: [{name: e, image: "e:1"}]}`, `{restartPolicy: OnFailure, containers: [{name: e, image: "e:2"}]}`,
			[]string{at + `restartPolicy is OnFailure: kubelet would not start containers with other images`},
		},
		"nothing, in a Pod that does not restart": {
			`{restartPolicy: OnFailure, containers: [{name: e, image: "e:1"}]}`, `{restartPolicy: OnFailure, containers: [{name: e, image: "e:1"}]}`, nil,
		},
		"the image of a container that does not restart": {
			`containers: [{name: e, image: "e:1", restartPolicy: Never}]`, `containers: [{name: e, image: "e:2", restartPolicy: Never}]`,
			[]string{at + `containers[e].restartPolicy is Never: kubelet would not start the container with "e:2"`},
		},
		"the image of a container that is said to restart": {
			`containers: [{name: e, image: "e:1", restartPolicy: Always}]`, `containers: [{name: e, image: "e:2", restartPolicy: Always}]`, nil,
		},
		"the image of an init container": {
			`initContainers: [{name: i, image: "i:1"}]`, `initContainers: [{name: i, image: "i:2"}]`,
			[]string{at + `initContainers[i].image changes from "i:1" to "i:2"`},
		},
		"the image of a sidecar, with the policy of its tag": {
			`initContainers: [{name: i, image: "i:1", restartPolicy: Always, imagePullPolicy: IfNotPresent}]`,
			`initContainers: [{name: i, image: i, restartPolicy: Always, imagePullPolicy: IfNotPresent}]`,
			[]string{at + `initContainers[i].image changes from "i:1" to "i"`},
		},
		"one image more": {
			`containers: [{name: e, image: "e:1"}, {name: g, image: "g:1"}]`,
			`containers: [{name: e, image: "e:1"}, {name: f, image: "f:1"}, {name: g, image: "g:2"}]`,
			[]string{at + `containers[f] is added: {"image":"f:1","name":"f"}`},
		},
		"one image less": {
			`containers: [{name: e, image: "e:1"}, {name: g, image: "g:1"}]`, `containers: [{name: g, image: "g:2"}]`,
			[]string{at + `containers[e] is removed: {"image":"e:1","name":"e"}`},
		},
		"containers in another order": {
			`containers: [{name: e, image: "e:1"}, {name: g, image: "g:1"}]`, `containers: [{name: g, image: "g:1"}, {name: e, image: "e:2"}]`,
			[]string{`role engine: the order of entryTemplate.spec.containers changes from ["e","g"] to ["g","e"]`},
		},
		"a flag": {
			`containers: [{name: e, image: "e:1", args: [serve, --port=1, --tp=1]}]`, `containers: [{name: e, image: "e:2", args: [serve, --port=2, --tp=1]}]`,
			[]string{at + `containers[e].args[1] changes from "--port=1" to "--port=2"`},
		},
		"a flag more": {
			`containers: [{name: e, args: [serve, --tp=1]}]`, `containers: [{name: e, args: [serve, --port=2, --tp=1]}]`,
			[]string{at + `containers[e].args[1] is added: "--port=2"`},
		},
		"flags where there were none": {
			`containers: [{name: e}]`, `containers: [{name: e, args: [--a, --b]}]`,
			[]string{at + `containers[e].args is added: ["--a","--b"]`},
		},
		"variables where there were none": {
			`containers: [{name: e}]`, `containers: [{name: e, env: [{name: A, value: a}, {name: B, value: b}]}]`,
			[]string{at + `containers[e].env[A] is added: {"name":"A","value":"a"}`, at + `containers[e].env[B] is added: {"name":"B","value":"b"}`},
		},
		"two flags for one": {
			`containers: [{name: e, args: [serve, --port=1, --tp=1]}]`, `containers: [{name: e, args: [serve, --a, --b, --tp=1]}]`,
			[]string{at + `containers[e].args changes from ["--port=1"] to ["--a","--b"]`},
		},
		"variables": {
			`containers: [{name: e, env: [{name: A, value: a}, {name: B, value: b}, {name: C, value: c}]}]`,
			`containers: [{name: e, env: [{name: B, value: x}, {name: D, value: d}, {name: E, value: c}]}]`,
			[]string{
				at + `containers[e].env[B].value changes from "b" to "x"`,
				at + `containers[e].env[A] is removed: {"name":"A","value":"a"}`,
				at + `containers[e].env[C].name changes from "C" to "E"`,
				at + `containers[e].env[D] is added: {"name":"D","value":"d"}`,
			},
		},
		"limits, with requests as before": {
			`containers: [{name: e, resources: {limits: {cpu: 1, nvidia.com/gpu: 1}, requests: {cpu: 1}}}]`,
			`containers: [{name: e, resources: {limits: {cpu: 2, nvidia.com/gpu: 2}, requests: {cpu: 1}}}]`,
			[]string{
				at + `containers[e].resources.limits.cpu changes from "1" to "2"`,
				at + `containers[e].resources.limits[nvidia.com/gpu] changes from "1" to "2"`,
			},
		},
		"a toleration of three": {
			`tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}, {key: c, operator: Exists}]`,
			`tolerations: [{key: a, operator: Exists}, {key: z, operator: Exists}, {key: c, operator: Exists}]`,
			[]string{at + `tolerations[1].key changes from "b" to "z"`},
		},
		"the image of a volume, with the policy of its tag": {
			`volumes: [{name: v, image: {reference: "v:1", pullPolicy: IfNotPresent}}]`,
			`volumes: [{name: v, image: {reference: "v", pullPolicy: IfNotPresent}}]`,
			[]string{at + `volumes[v].image.reference changes from "v:1" to "v"`},
		},
		"the scheduler, and nothing by it": {
			`containers: [{name: e, image: "e:1"}]`, `{schedulerName: volcano, containers: [{name: e, image: "e:2"}]}`, nil,
		},
		"a long value": {
			`containers: [{name: e, command: [sh, -c, "exec python -m engine --model /models/llama --tensor-parallel-size 1 --host 0.0.0.0 --port 8000 --log-level info --trace none"]}]`,
			`containers: [{name: e, command: [sh, -c, "exec python -m engine --model /models/llama --tensor-parallel-size 2 --host 0.0.0.0 --port 8000 --log-level info --trace none"]}]`,
			[]string{at + `containers[e].command[2] changes from ...r-parallel-size 1 --host 0.0.0.0 --port 8000 --log-level info --trace none"` +
				` to ...r-parallel-size 2 --host 0.0.0.0 --port 8000 --log-level info --trace none"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := project(t, pod(t, tt.from)), project(t, pod(t, tt.to))
			if diff := cmp.Diff(tt.want, Obstacles(from, to)); diff != "" {
				t.Errorf("obstacles (-want +got):\n%s", diff)
			}
		})
	}
}

// TestObstaclesBesidePods has specs before and after.
func TestObstaclesBesidePods(t *testing.T) {
	const pods = `entryTemplate: {spec: {containers: [{name: e, image: "e:1"}]}}, workerTemplate: {spec: {containers: [{name: e, image: "e:1"}]}}`
	for name, tt := range map[string]struct {
		from, to string
		want     []string
	}{
		"roles": {
			`{template: {roles: [{name: a, ` + pods + `}, {name: b, ` + pods + `}]}}`,
			`{template: {roles: [{name: c, ` + pods + `}, {name: b, ` + pods + `}]}}`,
			[]string{"role a is removed", "role c is added"},
		},
		"workers": {
			`{template: {roles: [{name: a, ` + pods + `}, {name: b, workerReplicas: 1, ` + pods + `}, {name: c, workerReplicas: 1, ` + pods + `}]}}`,
			`{template: {roles: [{name: a, workerReplicas: 1, ` + pods + `}, {name: b, workerReplicas: 2, ` + pods + `}, {name: c, ` + pods + `}]}}`,
			[]string{
				"role a: workerReplicas changes from 0 to 1", "role b: workerReplicas changes from 1 to 2",
				"role c: workerReplicas changes from 1 to 0",
			},
		},
		"a worker's image and label": {
			`{template: {roles: [{name: a, workerReplicas: 1, ` + pods + `}]}}`,
			`{template: {roles: [{name: a, workerReplicas: 1, entryTemplate: {spec: {containers: [{name: e, image: "e:2"}]}},
				workerTemplate: {metadata: {labels: {x.y/z: w}}, spec: {containers: [{name: e, image: "e:2"}]}}}]}}`,
			[]string{`role a: workerTemplate.metadata.labels[x.y/z] is added: "w"`},
		},
		"the scheduler": {
			`{template: {roles: [{name: a, ` + pods + `}]}}`, `{schedulerName: volcano, template: {roles: [{name: a, ` + pods + `}]}}`,
			[]string{`schedulerName changes from "default-scheduler" to "volcano"`},
		},
		"the scheduler, named by a template before": {
			`{template: {roles: [{name: a, entryTemplate: {spec: {schedulerName: volcano}}}]}}`,
			`{schedulerName: volcano, template: {roles: [{name: a, entryTemplate: {}}]}}`,
			[]string{`schedulerName changes from "default-scheduler" to "volcano"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := project(t, spec(t, tt.from)), project(t, spec(t, tt.to))
			if diff := cmp.Diff(tt.want, Obstacles(from, to)); diff != "" {
				t.Errorf("obstacles (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryFieldOfATemplateIsAnObstacle changes every field that Kubernetes has in a Pod's template, one
// at a time: each is one obstacle of its name, but for the image of a regular container, and what no
// revision holds.
func TestEveryFieldOfATemplateIsAnObstacle(t *testing.T) {
	elements := regexp.MustCompile(`\[[^]]*\]`)
	s := spec(t, `{template: {roles: [{name: a, entryTemplate: {}}]}}`)
	fields, obstacles := 0, 0
	check := func(path string, change func(int)) {
		fields++
		change(1)
		from := project(t, s)
		change(2)
		to := project(t, s)
		got := Obstacles(from, to)
		obstacles += len(got)
		if string(encode(t, from)) == string(encode(t, to)) {
			if got != nil {
				t.Errorf("%s: is not versioned, got %q", path, got)
			}
			return
		}
		switch path {
		case "spec.containers[].image":
			path = "spec.containers[].imagePullPolicy" // without a tag it is latest
		case "spec.serviceAccount":
			path = "spec.serviceAccountName"
		case "spec.volumes[].ephemeral.volumeClaimTemplate.metadata.managedFields[].fieldsV1":
			return // has fields of its own, one of which goes and one comes
		}
		want := "role a: entryTemplate." + elements.ReplaceAllString(strings.ReplaceAll(path, "{}", ".key"), "")
		if len(got) != 1 || !strings.HasPrefix(elements.ReplaceAllString(got[0], "")+" ", want+" ") {
			t.Errorf("%s: got %q, want %s", path, got, want)
		}
	}
	template := reflect.ValueOf(&s.Template.Roles[0].EntryTemplate).Elem()
	eachField(t, template.FieldByName("ObjectMeta"), "metadata", check)
	eachField(t, template.FieldByName("Spec"), "spec", check)
	if fields < 800 || obstacles < 800 {
		t.Errorf("%d fields, %d obstacles", fields, obstacles)
	}
}

// TestPropertyOfObstacles changes images of regular containers at random, which is none, and then one
// other field, which is one.
func TestPropertyOfObstacles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		from := mustProject(t, s)
		if got := Obstacles(from, mustProject(t, s)); got != nil {
			t.Fatalf("with itself: %q", got)
		}
		regular := eligible(s)
		from = mustProject(t, s)
		for _, c := range regular {
			if rapid.Bool().Draw(t, "changes") {
				c.Image = rapid.SampledFrom([]string{"e:1", "e:2", "e", "e:latest", "e@sha256:1"}).Draw(t, "image")
			}
		}
		if got := Obstacles(from, mustProject(t, s)); got != nil {
			t.Fatalf("images: %q", got)
		}
		shuffle(t, s)
		want := changeOne(t, s)
		got := Obstacles(from, mustProject(t, s))
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Fatalf("got %q, want %s", got, want)
		}
		if again := Obstacles(from, mustProject(t, s)); cmp.Diff(got, again) != "" {
			t.Fatalf("%q, then %q", got, again)
		}
	})
}

// eligible takes from a spec what keeps its images from being changed in place, and returns its
// regular containers.
func eligible(s *v1alpha1.ModelServingSpec) []*corev1.Container {
	var out []*corev1.Container
	for i := range s.Template.Roles {
		for _, template := range []*corev1.PodTemplateSpec{&s.Template.Roles[i].EntryTemplate, s.Template.Roles[i].WorkerTemplate} {
			if template == nil {
				continue
			}
			template.Spec.RestartPolicy = corev1.RestartPolicyAlways
			for j := range template.Spec.Containers {
				c := &template.Spec.Containers[j]
				c.ImagePullPolicy, c.RestartPolicy = corev1.PullIfNotPresent, nil
				out = append(out, c)
			}
		}
	}
	return out
}

// changeOne changes one field of a spec to what drawSpec never gives it, and returns its name.
func changeOne(t *rapid.T, s *v1alpha1.ModelServingSpec) string {
	t.Helper()
	r := &s.Template.Roles[rapid.IntRange(0, len(s.Template.Roles)-1).Draw(t, "role")]
	type change struct {
		name string
		do   func(*v1alpha1.Role)
	}
	c := rapid.SampledFrom([]change{
		{"entryTemplate.spec.nodeName", func(r *v1alpha1.Role) { r.EntryTemplate.Spec.NodeName = "z" }},
		{"entryTemplate.spec.priorityClassName", func(r *v1alpha1.Role) { r.EntryTemplate.Spec.PriorityClassName = "z" }},
		{"entryTemplate.metadata.labels.z", func(r *v1alpha1.Role) {
			if r.EntryTemplate.Labels == nil {
				r.EntryTemplate.Labels = map[string]string{}
			}
			r.EntryTemplate.Labels["z"] = "z"
		}},
		{"entryTemplate.spec.containers[", func(r *v1alpha1.Role) {
			p := &r.EntryTemplate.Spec
			p.Containers = append(p.Containers, corev1.Container{Name: "z", Image: "z"})
		}},
		{"entryTemplate.spec.restartPolicy", func(r *v1alpha1.Role) { r.EntryTemplate.Spec.RestartPolicy = "z" }},
	}).Draw(t, "change")
	c.do(r)
	return "role " + r.Name + ": " + c.name
}
