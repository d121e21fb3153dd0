package revision

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
)

// TestProjectTellsApart has pairs that look alike and are not: the body of a Pod's spec each.
func TestProjectTellsApart(t *testing.T) {
	for name, tt := range map[string]struct{ a, b string }{
		"another image": {
			`containers: [{name: a, image: "e:1"}]`,
			`containers: [{name: a, image: "e:2"}]`,
		},
		"the order in which containers start": {
			`containers: [{name: a}, {name: b}]`,
			`containers: [{name: b}, {name: a}]`,
		},
		"the order in which init containers run": {
			`initContainers: [{name: a}, {name: b}]`,
			`initContainers: [{name: b}, {name: a}]`,
		},
		"the order of arguments": {
			`containers: [{name: a, args: [x, z]}]`,
			`containers: [{name: a, args: [z, x]}]`,
		},
		"the order of variables": {
			`containers: [{name: a, env: [{name: A, value: $(B)}, {name: B, value: b}]}]`,
			`containers: [{name: a, env: [{name: B, value: b}, {name: A, value: $(B)}]}]`,
		},
		"the order in which variables are overridden": {
			`containers: [{name: a, envFrom: [{secretRef: {name: a}}, {secretRef: {name: b}}]}]`,
			`containers: [{name: a, envFrom: [{secretRef: {name: b}}, {secretRef: {name: a}}]}]`,
		},
		"the order of rules of which the first wins": {
			`containers: [{name: a, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}, {action: Restart, exitCodes: {operator: NotIn, values: [1]}}]}]`,
			`containers: [{name: a, restartPolicyRules: [{action: Restart, exitCodes: {operator: NotIn, values: [1]}}, {action: Restart, exitCodes: {operator: In, values: [1]}}]}]`,
		},
		"the order of search domains": {
			`dnsConfig: {searches: [a, b]}`,
			`dnsConfig: {searches: [b, a]}`,
		},
		"the order of addresses of one host": {
			`hostAliases: [{ip: 10.0.0.1, hostnames: [a]}, {ip: 10.0.0.2, hostnames: [a]}]`,
			`hostAliases: [{ip: 10.0.0.2, hostnames: [a]}, {ip: 10.0.0.1, hostnames: [a]}]`,
		},
		"the order of two files of one path": {
			`volumes: [{name: a, configMap: {name: a, items: [{key: a, path: x}, {key: b, path: x}]}}]`,
			`volumes: [{name: a, configMap: {name: a, items: [{key: b, path: x}, {key: a, path: x}]}}]`,
		},
		"the order of sources that write over each other": {
			`volumes: [{name: a, projected: {sources: [{secret: {name: a}}, {secret: {name: b}}]}}]`,
			`volumes: [{name: a, projected: {sources: [{secret: {name: b}}, {secret: {name: a}}]}}]`,
		},
		"a selector of everything and one of nothing": {
			`topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]`,
			`topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]`,
		},
		"all namespaces and the Pod's own": {
			`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, namespaceSelector: {}}]}}`,
			`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}`,
		},
		"an empty downward API and an emptyDir": {
			`volumes: [{name: a, downwardAPI: {}}]`,
			`volumes: [{name: a}]`,
		},
		"a container without the Pod's SELinux options": {
			`{securityContext: {seLinuxOptions: {level: a}}, containers: [{name: a, securityContext: {seLinuxOptions: {}}}]}`,
			`{securityContext: {seLinuxOptions: {level: a}}, containers: [{name: a}]}`,
		},
		"no storage class and the default one": {
			`volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: ""}}}}]`,
			`volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {}}}}]`,
		},
		"false, where true is inherited": {
			`{securityContext: {runAsNonRoot: true}, containers: [{name: a, securityContext: {runAsNonRoot: false}}]}`,
			`{securityContext: {runAsNonRoot: true}, containers: [{name: a}]}`,
		},
		"root and the image's user": {
			`securityContext: {runAsUser: 0}`,
			`securityContext: {}`,
		},
		"no requests and those of the limits": {
			`containers: [{name: a, resources: {limits: {cpu: 1}, requests: {cpu: 0}}}]`,
			`containers: [{name: a, resources: {limits: {cpu: 1}}}]`,
		},
		"a pull policy that the tag does not give": {
			`containers: [{name: a, image: "e:1", imagePullPolicy: Always}]`,
			`containers: [{name: a, image: "e:1"}]`,
		},
		"an integer that a float64 cannot hold": {
			`securityContext: {runAsUser: 9007199254740993}`,
			`securityContext: {runAsUser: 9007199254740992}`,
		},
		"the default scheduler, where the ModelServing names another": {
			`schedulerName: default-scheduler`,
			`{}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := encode(t, project(t, pod(t, tt.a))), encode(t, project(t, pod(t, tt.b)))
			if string(a) == string(b) {
				t.Errorf("both are %s", a)
			}
		})
	}
}

// TestProjectTakesForOne has pairs beside those of testdata/same.
func TestProjectTakesForOne(t *testing.T) {
	for name, tt := range map[string]struct{ a, b string }{
		"the scheduler of the ModelServing, named again": {`schedulerName: volcano`, `{}`},
		"the policy of latest":                           {`containers: [{name: a, image: "e:latest", imagePullPolicy: Always}]`, `containers: [{name: a, image: "e:latest"}]`},
		"the policy of no tag":                           {`containers: [{name: a, image: "h:5000/e", imagePullPolicy: Always}]`, `containers: [{name: a, image: "h:5000/e"}]`},
		"the policy of a digest":                         {`containers: [{name: a, image: "e@sha256:0", imagePullPolicy: IfNotPresent}]`, `containers: [{name: a, image: "e@sha256:0"}]`},
		"the policy of latest and a digest":              {`containers: [{name: a, image: "e:latest@sha256:0", imagePullPolicy: Always}]`, `containers: [{name: a, image: "e:latest@sha256:0"}]`},
		"the two names of a service account":             {`{serviceAccountName: a, serviceAccount: b}`, `serviceAccount: a`},
		"less than nothing of grace":                     {`terminationGracePeriodSeconds: -7`, `terminationGracePeriodSeconds: 1`},
		"less than a thousandth":                         {`containers: [{name: a, resources: {limits: {cpu: 100u}}}]`, `containers: [{name: a, resources: {limits: {cpu: 1m}}}]`},
		"more than an int64":                             {`containers: [{name: a, resources: {limits: {a/b: 16Ei}}}]`, `containers: [{name: a, resources: {limits: {a/b: 16384Pi}}}]`},
		"a divisor in two ways":                          {`containers: [{name: a, env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}]}]`, `containers: [{name: a, env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1048576}}}]}]`},
		"an overhead in two ways":                        {`overhead: {memory: 1Gi}`, `overhead: {memory: 1073741824}`},
		"resources of the whole Pod in two ways":         {`resources: {limits: {memory: 1Gi}, requests: {memory: 1Mi}}`, `resources: {limits: {memory: 1073741824}, requests: {memory: 1048576}}`},
		"the older protocol of HTTP":                     {`containers: [{name: a, livenessProbe: {httpGet: {port: 1, protocol: HTTP1}}}]`, `containers: [{name: a, livenessProbe: {httpGet: {port: 1}}}]`},
		"zero in two ways":                               {`containers: [{name: a, resources: {limits: {cpu: 0.0, memory: 0Gi}}}]`, `containers: [{name: a, resources: {limits: {cpu: 0m, memory: 0}}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := encode(t, project(t, pod(t, tt.a))), encode(t, project(t, pod(t, tt.b)))
			if diff := cmp.Diff(string(a), string(b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// pod returns a spec of one role with the given Pod's spec, under the scheduler volcano.
func pod(t *testing.T, body string) *v1alpha1.ModelServingSpec {
	t.Helper()
	indented := strings.ReplaceAll(body, "\n", "\n      ")
	if !strings.HasPrefix(indented, "{") {
		indented = "{" + indented + "}"
	}
	return spec(t, "schedulerName: volcano\ntemplate:\n  roles:\n  - name: engine\n    entryTemplate:\n      spec: "+indented)
}

func TestLabelsMayHaveAnyName(t *testing.T) {
	labels := `{resourceFieldRef: a, divisor: "0", volumes: b, emptyDir: "", labels: c}`
	d := project(t, spec(t, `{template: {roles: [{name: a, entryTemplate: {metadata: {labels: `+labels+`}}}]}}`))
	want := map[string]string{"resourceFieldRef": "a", "divisor": "0", "volumes": "b", "emptyDir": "", "labels": "c"}
	if diff := cmp.Diff(want, d.Roles[0].EntryTemplate.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestProjectRefusesWhatAdmissionDoes(t *testing.T) {
	for name, text := range map[string]string{
		"two roles of one name":      `{template: {roles: [{name: a}, {name: a}]}}`,
		"a role without a name":      `{template: {roles: [{}]}}`,
		"workers without a template": `{template: {roles: [{name: a, workerReplicas: 1}]}}`,
		"less than no workers":       `{template: {roles: [{name: a, workerReplicas: -1, workerTemplate: {}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if d, err := Project(spec(t, text)); err == nil {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestRoleDigestIsOfTheRoleAlone(t *testing.T) {
	const other = `{name: other, entryTemplate: {spec: {hostname: a}}}`
	digest := func(scheduler, role string) string {
		return project(t, spec(t, `{schedulerName: "`+scheduler+`", template: {roles: [`+other+`, `+role+`]}}`)).RoleDigest("a")
	}
	base := digest("s", `{name: a, entryTemplate: {spec: {hostname: a}}}`)
	for name, tt := range map[string]struct {
		got  string
		same bool
	}{
		"replicas do not count":      {digest("s", `{name: a, replicas: 9, entryTemplate: {spec: {hostname: a}}}`), true},
		"the template counts":        {digest("s", `{name: a, entryTemplate: {spec: {hostname: b}}}`), false},
		"the scheduler counts":       {digest("", `{name: a, entryTemplate: {spec: {hostname: a}}}`), false},
		"workers count":              {digest("s", `{name: a, workerReplicas: 1, workerTemplate: {}, entryTemplate: {spec: {hostname: a}}}`), false},
		"their template counts":      {digest("s", `{name: a, workerReplicas: 1, workerTemplate: {spec: {hostname: c}}, entryTemplate: {spec: {hostname: a}}}`), false},
		"no such role has no digest": {digest("s", `{name: b}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			if (tt.got == base) != tt.same {
				t.Errorf("%q, at first %q", tt.got, base)
			}
		})
	}
	if got := (Data{}).RoleDigest("a"); got != "" {
		t.Errorf("of no role: %q", got)
	}
}

func TestDecodeRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                       ``,
		"null":                          `null`,
		"no object":                     `[]`,
		"half of an object":             `{"version":"v1","roles":[`,
		"another's data":                `{"spec":{"template":{}}}`,
		"a later version":               `{"version":"v2","roles":[{"name":"a","entryTemplate":{}}]}`,
		"a field of a later build":      `{"version":"v1","priority":1,"roles":[{"name":"a","entryTemplate":{}}]}`,
		"a field of a later Kubernetes": `{"version":"v1","roles":[{"name":"a","entryTemplate":{"spec":{"antigravity":true}}}]}`,
		"a name in other letters":       `{"version":"v1","Roles":[]}`,
		"a value of another type":       `{"version":"v1","roles":[{"name":"a","entryTemplate":{"spec":{"hostname":1}}}]}`,
		"no template":                   `{"version":"v1","roles":[{"name":"a"}]}`,
		"one role twice":                `{"version":"v1","roles":[{"name":"a","entryTemplate":{}},{"name":"a","entryTemplate":{}}]}`,
		"one key twice":                 `{"version":"v1","roles":[],"roles":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			cr := holding([]byte(text))
			if d, err := Decode(cr); !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "stored") {
				t.Errorf("%+v, %v", d, err)
			}
			if got := Compare(cr, cr); got != Unknown {
				t.Errorf("compared with itself: %s", got)
			}
		})
	}
}

func TestDecodeBringsOlderDataUpToDate(t *testing.T) {
	older := `{"version":"v1","roles":[{"name":"b","entryTemplate":{"spec":{"dnsPolicy":"ClusterFirst"}}},{"name":"a","entryTemplate":{"spec":{"volumes":[{"name":"z"},{"name":"a","emptyDir":{}}]}}}]}`
	want := project(t, spec(t, `{template: {roles: [{name: a, entryTemplate: {spec: {volumes: [{name: a}, {name: z}]}}}, {name: b}]}}`))
	got, err := Decode(holding([]byte(older)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	canonical := `{"roles":[{"entryTemplate":{"spec":{"hostname":"a"}},"name":"a"}],"version":"v1"}`
	for name, tt := range map[string]struct {
		a, b string
		want Equality
	}{
		"the same bytes": {canonical, canonical, Same},
		"what an older build left in": {
			canonical,
			`{"version":"v1","schedulerName":"default-scheduler","roles":[{"name":"a","workerReplicas":0,"entryTemplate":{"metadata":{"creationTimestamp":null},"spec":{"hostname":"a","restartPolicy":"Always","containers":null}}}]}`,
			Same,
		},
		"another content": {canonical, `{"roles":[{"entryTemplate":{"spec":{"hostname":"b"}},"name":"a"}],"version":"v1"}`, Different},
		"one unreadable":  {canonical, `{"version":"v2"}`, Unknown},
		"one empty":       {canonical, ``, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := holding([]byte(tt.a)), holding([]byte(tt.b))
			b.Name = "another" // names and labels prove nothing
			for _, got := range []Equality{Compare(a, b), Compare(b, a)} {
				if got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			}
		})
	}
	if got := Compare(&appsv1.ControllerRevision{}, &appsv1.ControllerRevision{}); got != Unknown {
		t.Errorf("of nothing: %s", got)
	}
}

func TestApply(t *testing.T) {
	today := spec(t, `
replicas: 7
paused: true
schedulerName: new
template:
  restartGracePeriodSeconds: 5
  roles:
  - {name: gone, entryTemplate: {spec: {hostname: x}}}
  - {name: kept, replicas: 9, maxUnavailable: 2, partition: 1, workerReplicas: 3, entryTemplate: {spec: {hostname: new}}, workerTemplate: {spec: {hostname: new}}}
  - {name: idle, replicas: 2, entryTemplate: {spec: {hostname: new}}, workerTemplate: {spec: {hostname: dormant}}}
`)
	old := project(t, spec(t, `
schedulerName: old
template:
  roles:
  - {name: kept, replicas: 1, workerReplicas: 1, entryTemplate: {metadata: {labels: {a: old}}, spec: {hostname: old}}, workerTemplate: {metadata: {labels: {a: old}}}}
  - {name: idle, entryTemplate: {spec: {hostname: old}}}
  - {name: back, replicas: 8, maxSurge: 1, entryTemplate: {spec: {hostname: old}}}
`))
	want := spec(t, `
replicas: 7
paused: true
schedulerName: old
template:
  restartGracePeriodSeconds: 5
  roles:
  - {name: kept, replicas: 9, maxUnavailable: 2, partition: 1, workerReplicas: 1, entryTemplate: {metadata: {labels: {a: old}}, spec: {hostname: old}}, workerTemplate: {metadata: {labels: {a: old}}}}
  - {name: idle, replicas: 2, entryTemplate: {spec: {hostname: old}}, workerTemplate: {spec: {hostname: dormant}}}
  - {name: back, replicas: 1, entryTemplate: {spec: {hostname: old}}}
`)
	old.Apply(today)
	if diff := cmp.Diff(want, today); diff != "" {
		t.Errorf("Apply (-want +got):\n%s", diff)
	}
	today.Template.Roles[0].EntryTemplate.Labels["a"] = "changed"
	today.Template.Roles[0].WorkerTemplate.Labels["a"] = "changed"
	if kept, _ := old.Role("kept"); kept.EntryTemplate.Labels["a"] != "old" || kept.WorkerTemplate.Labels["a"] != "old" {
		t.Error("the spec shares the revision's templates")
	}
	if diff := cmp.Diff(old, project(t, want)); diff != "" {
		t.Errorf("projected again (-want +got):\n%s", diff)
	}
}

// TestProjectSharesNothing guards the copies: a spec comes from a cache.
func TestProjectSharesNothing(t *testing.T) {
	s := pod(t, `containers: [{name: a, env: [{name: GROUP_SIZE}, {name: A}], ports: [{containerPort: 2}, {containerPort: 1}]}]`)
	d := project(t, s)
	d.Roles[0].EntryTemplate.Spec.Containers[0].Name = "changed"
	want := []corev1.ContainerPort{{ContainerPort: 2}, {ContainerPort: 1}}
	c := s.Template.Roles[0].EntryTemplate.Spec.Containers[0]
	if diff := cmp.Diff(want, c.Ports); diff != "" || c.Name != "a" || len(c.Env) != 2 {
		t.Errorf("the spec has changed: %s %+v", diff, c)
	}
}
