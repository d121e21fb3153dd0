package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pitstop.dev/api/v1alpha1"
)

type change = func(*v1alpha1.ModelServing)

// TestRulesOfARollout holds what takes arithmetic: each rule with one object that is accepted and
// one that is refused, by field, value and what would be right.
func TestRulesOfARollout(t *testing.T) {
	const groupLevel = "spec.rolloutStrategy.rollingUpdateConfiguration.maxUnavailable"
	const roleLevel = "spec.template.roles[0].maxUnavailable"
	for name, tt := range map[string]struct {
		change []change
		want   []string
	}{
		"as it is":          {nil, nil},
		"without a budget":  {[]change{replicas(1)}, nil},
		"surge only":        {[]change{groups("0", "1")}, nil},
		"unavailable only":  {[]change{groups("1", "0")}, nil},
		"nothing may move":  {[]change{groups("0", "0")}, []string{groupLevel, `"0"`, "is 0 of 4 replicas", "maxSurge 0", "at least 1 or 25%"}},
		"a percentage of 4": {[]change{groups("25%")}, nil},
		"a percentage that rounds down to nothing":       {[]change{groups("25%"), replicas(3)}, []string{groupLevel, `"25%"`, "is 0 of 3 replicas", "at least 1 or 34%"}},
		"a surge that rounds up to one":                  {[]change{groups("0", "1%"), replicas(3)}, nil},
		"nothing may move, and nothing has to":           {[]change{groups("0", "0", "4")}, nil},
		"nothing may move outside the partition":         {[]change{groups("0", "0", "3")}, []string{groupLevel}},
		"a partition that rounds up to all":              {[]change{groups("0", "0", "76%")}, nil},
		"nothing may move, and there is nothing":         {[]change{groups("0", "0"), replicas(0)}, nil},
		"more unavailable than there are groups":         {[]change{groups("9")}, nil},
		"a pause by partition":                           {[]change{groups("1", "0", "100%")}, nil},
		"roles with budgets":                             {[]change{byRole, instances(4, "2", "1", "1")}, nil},
		"roles without budgets":                          {[]change{byRole}, nil},
		"surge of instances only":                        {[]change{byRole, instances(4, "0", "1")}, nil},
		"no instance may move":                           {[]change{byRole, instances(4, "0")}, []string{roleLevel, `"0"`, "is 0 of 4 instances of the role", "at least 1 or 25%"}},
		"instances in percent":                           {[]change{byRole, instances(4, "25%")}, nil},
		"instances in percent that round down":           {[]change{byRole, instances(3, "25%")}, []string{roleLevel, `"25%"`, "34%"}},
		"no instance may move or has to":                 {[]change{byRole, instances(4, "0", "0", "4")}, nil},
		"no instance may move outside the partition":     {[]change{byRole, instances(4, "0", "0", "3")}, []string{roleLevel}},
		"a role with no instances":                       {[]change{byRole, instances(0, "0")}, nil},
		"a role with no instances and a budget":          {[]change{byRole, instances(0, "3")}, nil},
		"as many unavailable as there are instances":     {[]change{byRole, instances(4, "4")}, nil},
		"more unavailable than there are instances":      {[]change{byRole, instances(4, "5")}, []string{roleLevel, "5", "no more than the role's replicas, 4"}},
		"a role's maxUnavailable in a rollout of groups": {[]change{instances(4, "1")}, []string{roleLevel, "1 belongs to rolloutStrategy.type RoleRollingUpdate", "rollingUpdateConfiguration.maxUnavailable"}},
		"a role's maxSurge in a rollout of groups":       {[]change{instances(4, "", "10%")}, []string{"spec.template.roles[0].maxSurge", "10% belongs to", "rollingUpdateConfiguration.maxSurge"}},
		"a role's partition in a rollout of groups":      {[]change{instances(4, "", "", "2")}, []string{"spec.template.roles[0].partition", "2 belongs to", "rollingUpdateConfiguration.partition"}},
		"as many instances as a group holds":             {[]change{byRole, instances(7998)}, nil},
		"more instances than a group holds":              {[]change{byRole, instances(7998, "", "1")}, []string{"spec.template.roles", "8001", "no more than 8000"}},
		"recovery of the whole group under a rollout of roles": {[]change{byRole, func(ms *v1alpha1.ModelServing) {
			ms.Spec.RecoveryPolicy = v1alpha1.RecoverServingGroup
		}}, nil},
	} {
		t.Run(name, func(t *testing.T) { judge(t, nil, serving(tt.change...), tt.want...) })
	}
}

// TestNames: the longest Pod of a role is <name>-19999-<role>-<instance>-<index>.
func TestNames(t *testing.T) {
	long := func(n int) change { return named(strings.Repeat("a", n)) }
	role := func(f func(*v1alpha1.Role)) change {
		return func(ms *v1alpha1.ModelServing) { f(&ms.Spec.Template.Roles[0]) }
	}
	for name, tt := range map[string]struct {
		change []change
		want   []string
	}{
		"a digit in front":                {[]change{named("7b")}, []string{"metadata.name", `"7b"`, "must start with a lower-case letter"}},
		"a dot":                           {[]change{named("llama.8b")}, []string{"metadata.name", `"llama.8b"`, "only lower-case letters, digits and '-'"}},
		"the longest name":                {[]change{long(45)}, nil}, // 45 + len("-19999-prefill-3-1") = 63
		"too long a name":                 {[]change{long(46)}, []string{"metadata.name", "no more than 45 characters", "-19999-prefill-3-1", "of 64 characters", "at most 63"}},
		"too long a name for its groups":  {[]change{long(45), groups("0", "80001")}, []string{"no more than 44 characters", "-100000-prefill"}},
		"as many as surge allows":         {[]change{long(45), groups("0", "80000")}, nil},
		"an instance of two digits":       {[]change{long(45), instances(11)}, []string{"no more than 44 characters", "-19999-prefill-10-1"}},
		"the last of one digit":           {[]change{long(45), instances(10)}, nil},
		"one of surge has two":            {[]change{long(45), byRole, instances(10, "", "10%")}, []string{"no more than 44 characters"}},
		"a worker of two digits":          {[]change{long(45), role(func(r *v1alpha1.Role) { r.WorkerReplicas = 10 })}, []string{"-prefill-3-10"}},
		"the last worker of one digit":    {[]change{long(45), role(func(r *v1alpha1.Role) { r.WorkerReplicas = 9 })}, nil},
		"a longer role":                   {[]change{long(45), role(func(r *v1alpha1.Role) { r.Name = "prefills" })}, []string{"or names of roles shorter"}},
		"a role without instances counts": {[]change{long(45), instances(0), role(func(r *v1alpha1.Role) { r.Name = "prefills" })}, []string{"-prefills-0-1"}},
		"a name as long as names may be":  {[]change{long(253)}, []string{"no more than 45 characters"}},
	} {
		t.Run(name, func(t *testing.T) { judge(t, nil, serving(tt.change...), tt.want...) })
	}
}

func TestTemplates(t *testing.T) {
	const spec = "spec.template.roles[1].entryTemplate.spec."
	const metadata = "spec.template.roles[1].entryTemplate.metadata."
	const container = spec + "containers[0]."
	label := func(key, value string) change {
		return pod(func(t *corev1.PodTemplateSpec) { t.Labels[key] = value })
	}
	annotated := func(key, value string) change {
		return pod(func(t *corev1.PodTemplateSpec) { t.Annotations[key] = value })
	}
	annotation := func(key string) change { return annotated(key, "x") }
	podSpec := func(f func(*corev1.PodSpec)) change {
		return pod(func(t *corev1.PodTemplateSpec) { f(&t.Spec) })
	}
	env := func(name string) change {
		return engine(func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: name}) })
	}
	resources := func(name corev1.ResourceName, request, limit string) change {
		return engine(func(c *corev1.Container) {
			if request != "" {
				c.Resources.Requests = corev1.ResourceList{name: resource.MustParse(request)}
			}
			if limit != "" {
				c.Resources.Limits = corev1.ResourceList{name: resource.MustParse(limit)}
			}
		})
	}
	gate := func(name corev1.PodConditionType) change {
		return podSpec(func(s *corev1.PodSpec) { s.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: name}} })
	}
	second := func(name string) change {
		return podSpec(func(s *corev1.PodSpec) { s.Containers = append(s.Containers, corev1.Container{Name: name, Image: "b"}) })
	}
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for name, tt := range map[string]struct {
		change change
		want   []string
	}{
		"no image":                  {image(""), []string{container + "image", "Required", "container engine needs an image"}},
		"a space in an image":       {image("vllm :1"), []string{container + "image", `"vllm :1"`, "without spaces"}},
		"a space after an image":    {image("vllm:1 "), []string{container + "image", `"vllm:1 "`}},
		"an upper-case repository":  {image("vLLM:1"), []string{container + "image", "in lower case"}},
		"a digest":                  {image("127.0.0.1:5000/team/vllm" + digest), nil},
		"a tag and a digest":        {image("registry.example/team/vllm:1" + digest), nil},
		"an init container's image": {podSpec(func(s *corev1.PodSpec) { s.InitContainers[0].Image = "a b" }), []string{spec + "initContainers[0].image", `"a b"`}},
		"a worker's image": {func(ms *v1alpha1.ModelServing) {
			ms.Spec.Template.Roles[0].WorkerTemplate.Spec.Containers[0].Image = ""
		}, []string{"spec.template.roles[0].workerTemplate.spec.containers[0].image"}},
		"no containers":                {podSpec(func(s *corev1.PodSpec) { s.Containers = nil }), []string{spec + "containers", "at least one container"}},
		"two containers":               {second("peer"), nil},
		"one name twice":               {second("engine"), []string{spec + "containers[1].name", "Duplicate", `"engine"`}},
		"the name of an init one":      {second("init"), []string{spec + "containers[1].name", "Duplicate"}},
		"a container's name":           {second("Peer_1"), []string{spec + "containers[1].name", `"Peer_1"`, "lower case alphanumeric"}},
		"restartPolicy Always":         {podSpec(func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyAlways }), nil},
		"restartPolicy OnFailure":      {podSpec(func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyOnFailure }), []string{spec + "restartPolicy", `"OnFailure"`, `supported values: "Always"`, "restarted where they are"}},
		"a container that never is":    {engine(func(c *corev1.Container) { c.RestartPolicy = new(corev1.ContainerRestartPolicyNever) }), []string{container + "restartPolicy", `"Never"`, `"Always"`}},
		"a container that always is":   {engine(func(c *corev1.Container) { c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways) }), nil},
		"a sidecar":                    {podSpec(func(s *corev1.PodSpec) { s.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways) }), nil},
		"rules of restarts":            {engine(func(c *corev1.Container) { c.RestartPolicyRules = make([]corev1.ContainerRestartRule, 1) }), []string{container + "restartPolicyRules", "leave them out"}},
		"imagePullPolicy IfNotPresent": {engine(func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullIfNotPresent }), nil},
		"an unknown imagePullPolicy":   {engine(func(c *corev1.Container) { c.ImagePullPolicy = "Sometimes" }), []string{container + "imagePullPolicy", `"Sometimes"`, `"IfNotPresent"`}},
		"a deadline":                   {podSpec(func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = new(int64(60)) }), []string{spec + "activeDeadlineSeconds", "leave it out"}},
		"an ephemeral container":       {podSpec(func(s *corev1.PodSpec) { s.EphemeralContainers = make([]corev1.EphemeralContainer, 1) }), []string{spec + "ephemeralContainers"}},
		"a grace period":               {podSpec(func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(0)) }), nil},
		"a negative grace period":      {podSpec(func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(-1)) }), []string{spec + "terminationGracePeriodSeconds", "-1", "0 or more"}},
		"a hostname":                   {podSpec(func(s *corev1.PodSpec) { s.Hostname = "h" }), []string{spec + "hostname", "h: is set by Pitstop"}},
		"a subdomain":                  {podSpec(func(s *corev1.PodSpec) { s.Subdomain = "d" }), []string{spec + "subdomain", "d: is set by Pitstop"}},
		"another hostname":             {podSpec(func(s *corev1.PodSpec) { s.HostnameOverride = new("o") }), []string{spec + "hostnameOverride"}},
		"a gate of others":             {gate("example.com/ready"), nil},
		"our gate":                     {gate(v1alpha1.InService), []string{spec + "readinessGates[0]", "pitstop.dev/InService", "leave it out"}},
		"a volume twice":               {podSpec(func(s *corev1.PodSpec) { s.Volumes = append(s.Volumes, s.Volumes[0]) }), []string{spec + "volumes[1].name", "Duplicate"}},
		"a volume's name":              {podSpec(func(s *corev1.PodSpec) { s.Volumes = append(s.Volumes, corev1.Volume{Name: "A"}) }), []string{spec + "volumes[1].name", `"A"`}},
		"a mount of no volume":         {engine(func(c *corev1.Container) { c.VolumeMounts[0].Name = "x" }), []string{container + "volumeMounts[0].name", "Not found", `"x"`}},
		"a device of no volume":        {engine(func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "x"}} }), []string{container + "volumeDevices[0].name", `"x"`}},
		"a mount without a path":       {engine(func(c *corev1.Container) { c.VolumeMounts[0].MountPath = "" }), []string{container + "volumeMounts[0].mountPath"}},
		"two mounts at one path":       {engine(func(c *corev1.Container) { c.VolumeMounts = append(c.VolumeMounts, c.VolumeMounts[0]) }), []string{container + "volumeMounts[1].mountPath", "unique"}},
		"a variable":                   {env("GROUP"), nil},
		"a variable without a name":    {env(""), []string{container + "env[1].name"}},
		"GROUP_SIZE":                   {env("GROUP_SIZE"), []string{container + "env[1].name", "GROUP_SIZE is set by Pitstop"}},
		"ENTRY_ADDRESS":                {env("ENTRY_ADDRESS"), []string{"ENTRY_ADDRESS is set by Pitstop"}},
		"WORKER_INDEX":                 {env("WORKER_INDEX"), []string{"WORKER_INDEX is set by Pitstop"}},
		"WORKER_INDEX of an init one":  {podSpec(func(s *corev1.PodSpec) { s.InitContainers[0].Env = []corev1.EnvVar{{Name: "WORKER_INDEX"}} }), []string{spec + "initContainers[0].env[0].name"}},
		"port 0":                       {engine(func(c *corev1.Container) { c.Ports[0].ContainerPort = 0 }), []string{container + "ports[0].containerPort", "between 1 and 65535"}},
		"a port's name":                {engine(func(c *corev1.Container) { c.Ports[0].Name = "the_port" }), []string{container + "ports[0].name", `"the_port"`}},
		"a port's name twice":          {engine(func(c *corev1.Container) { c.Ports = append(c.Ports, c.Ports[0]) }), []string{container + "ports[1].name", "Duplicate"}},
		"a limit":                      {resources("cpu", "1", "2"), nil},
		"a request above its limit":    {resources("cpu", "2", "1"), []string{container + "resources.requests[cpu]", `"2"`, "no more than the limit, 1"}},
		"a negative request":           {resources("cpu", "-1", ""), []string{container + "resources.requests[cpu]", "0 or more"}},
		"a negative limit":             {resources("cpu", "", "-1"), []string{container + "resources.limits[cpu]", "0 or more"}},
		"a GPU":                        {resources("nvidia.com/gpu", "8", "8"), nil},
		"a GPU by its limit":           {resources("nvidia.com/gpu", "", "8"), nil},
		"a GPU without a limit":        {resources("nvidia.com/gpu", "8", ""), []string{container + "resources.requests[nvidia.com/gpu]", "must equal limits[nvidia.com/gpu]"}},
		"half a GPU":                   {resources("nvidia.com/gpu", "", "500m"), []string{container + "resources.limits[nvidia.com/gpu]", "whole number"}},
		"huge pages, some":             {resources("hugepages-2Mi", "2Mi", "4Mi"), []string{"must equal limits[hugepages-2Mi]"}},
		"a label":                      {label("example.com/team", "a"), nil},
		"a label of ours":              {label("pitstop.dev/leader", "true"), []string{metadata + "labels[pitstop.dev/leader]", "set by Pitstop"}},
		"a label's value":              {label("team", "a b"), []string{metadata + "labels", `"a b"`}},
		"an annotation":                {annotation("example.com/note"), nil},
		"a declared resident":          {annotated("pitstop.dev/resident.engine", "70000"), nil},
		"a resident that is none":      {annotated("pitstop.dev/resident.nobody", "70000"), []string{"nobody", "names no container"}},
		"a resident without a size":    {annotated("pitstop.dev/resident.engine", "70Gi"), []string{"70Gi", "whole number of MiB"}},
		"an annotation of ours":        {annotation("pitstop.dev/role-digest"), []string{metadata + "annotations[pitstop.dev/role-digest]", "set by Pitstop"}},
		"a hold":                       {annotation("pitstop.dev/hold.me"), []string{metadata + "annotations[pitstop.dev/hold.me]", "from its birth"}},
		"an annotation's name":         {annotation("no space"), []string{metadata + "annotations", "no space"}},
	} {
		t.Run(name, func(t *testing.T) { judge(t, nil, serving(tt.change), tt.want...) })
	}
}

// TestTransitions judges changes of stored objects.
func TestTransitions(t *testing.T) {
	paused := func(ms *v1alpha1.ModelServing) { ms.Spec.Paused = true }
	for name, tt := range map[string]struct {
		old, updated []change
		want         []string
	}{
		"another type": {nil, []change{byRole}, nil},
		"another type in the middle of an update":  {[]change{updating("llm-3")}, []change{byRole}, []string{"spec.rolloutStrategy.type", "ServingGroupRollingUpdate cannot become RoleRollingUpdate", "(llm-3)", "until status.updating is empty"}},
		"the other way round":                      {[]change{byRole, updating("llm-3/prefill-0", "llm-3/prefill-1", "llm-2/prefill-0", "llm-1/prefill-0")}, nil, []string{"RoleRollingUpdate cannot become ServingGroupRollingUpdate", "llm-2/prefill-0 and 1 more"}},
		"the report of the new object is no help":  {[]change{updating("llm-3")}, []change{byRole, updating()}, []string{"spec.rolloutStrategy.type"}},
		"another image in the middle of an update": {[]change{updating("llm-3")}, []change{image("vllm:2")}, nil},
		"another budget in the middle":             {[]change{updating("llm-3")}, []change{groups("2")}, nil},
		"a role removed, one added":                {nil, []change{func(ms *v1alpha1.ModelServing) { ms.Spec.Template.Roles[0].Name = "router" }}, nil},
		"a mistake comes in":                       {nil, []change{image("a b")}, []string{"containers[0].image"}},
		"a stored mistake stays":                   {[]change{image("a b")}, []change{image("a b"), paused}, nil},
		"a stored mistake becomes another":         {[]change{image("a b")}, []change{image("a c")}, []string{`"a c"`}},
		"a stored name stays":                      {[]change{named("7b")}, []change{named("7b"), paused}, nil},
		"a mistake beside a stored one":            {[]change{named("7b")}, []change{named("7b"), image("a b")}, []string{`"a b"`}},
		"scaled so that nothing may move":          {[]change{groups("25%"), replicas(3)}, []change{groups("25%"), replicas(3), paused}, []string{"is 0 of 3 replicas"}},
		"and put right":                            {[]change{groups("25%"), replicas(3)}, []change{groups("25%", "1"), replicas(3)}, nil},
	} {
		t.Run(name, func(t *testing.T) { judge(t, serving(tt.old...), serving(tt.updated...), tt.want...) })
	}
}

// TestAnObjectWithoutDefaults: a schema of another version may fill in less.
func TestAnObjectWithoutDefaults(t *testing.T) {
	bare := &v1alpha1.ModelServing{}
	judge(t, nil, bare, "metadata.name")
	judge(t, bare, bare)
	bare.Name = "llm"
	bare.Spec.Template.Roles = []v1alpha1.Role{{Name: "a", EntryTemplate: template()}}
	judge(t, nil, bare)
}
