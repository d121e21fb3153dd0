//go:build lab

package revision

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pitstop.dev/test/lab"
)

// TestDefaultsOfARealAPIServer has a real API server fill in templates, in a Pod and in a PodTemplate:
// what it fills in is what the projection leaves out, no more and no less.
func TestDefaultsOfARealAPIServer(t *testing.T) {
	server := newAPIServer(t)
	for _, file := range []string{"testdata/same/server/written.yaml", "testdata/same/minimal/omitted.yaml"} {
		written := spec(t, string(read(t, file)))
		want := project(t, written)
		fill := map[string]func(*testing.T, corev1.PodTemplateSpec) corev1.PodTemplateSpec{
			"Pod": server.pod, "PodTemplate": server.podTemplate,
		}
		for kind, filledIn := range fill {
			t.Run(file+" in a "+kind, func(t *testing.T) {
				filled := written.DeepCopy()
				for i := range filled.Template.Roles {
					r := &filled.Template.Roles[i]
					r.EntryTemplate = filledIn(t, scheduled(r.EntryTemplate, written.SchedulerName))
					if r.WorkerTemplate != nil {
						*r.WorkerTemplate = filledIn(t, scheduled(*r.WorkerTemplate, written.SchedulerName))
					}
				}
				if diff := cmp.Diff(want, project(t, filled)); diff != "" {
					t.Errorf("as written, and filled in (-want +got):\n%s", diff)
				}
			})
		}
		t.Run(file+" gives the same Pod when stored", func(t *testing.T) {
			for _, r := range written.Template.Roles {
				stored, _ := want.Role(r.Name)
				fromWritten := server.pod(t, scheduled(r.EntryTemplate, written.SchedulerName))
				fromStored := server.pod(t, scheduled(*stored.EntryTemplate, written.SchedulerName))
				if diff := cmp.Diff(arranged(t, fromWritten), arranged(t, fromStored)); diff != "" {
					t.Errorf("role %s (-written +stored):\n%s", r.Name, diff)
				}
			}
		})
	}
}

// TestRevisionsOnARealAPIServer stores one: the server takes it as it is and gives back the same bytes.
func TestRevisionsOnARealAPIServer(t *testing.T) {
	server := newAPIServer(t)
	for _, file := range glob(t, "testdata/same/*/*.yaml") {
		ms := serving()
		ms.Namespace = server.namespace
		want := project(t, spec(t, string(read(t, file))))
		want.Roles[0].EntryTemplate.Annotations = map[string]string{"a": `<&> "é"`}
		cr, err := New(ms, want, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := server.client.AppsV1().ControllerRevisions(ms.Namespace).Create(t.Context(), cr, dryRun())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(cr.Data.Raw), string(got.Data.Raw)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		if data, err := Decode(got); err != nil || cmp.Diff(want, data) != "" {
			t.Errorf("%s: %v %s", file, err, cmp.Diff(want, data))
		}
	}
}

// scheduled is a template as a Pod is made from it.
func scheduled(t corev1.PodTemplateSpec, schedulerName string) corev1.PodTemplateSpec {
	t = *t.DeepCopy()
	if t.Spec.SchedulerName == "" {
		t.Spec.SchedulerName = schedulerName
	}
	return t
}

// arranged is all that a template says, in an order of its own.
func arranged(t *testing.T, template corev1.PodTemplateSpec) string {
	t.Helper()
	data, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = canonical(data); err != nil {
		t.Fatal(err)
	}
	return pretty(t, data)
}

// apiServer is a namespace on a real API server.
type apiServer struct {
	client    kubernetes.Interface
	namespace string
}

func newAPIServer(t *testing.T) apiServer {
	t.Helper()
	plane, err := lab.StartControlPlane(t.Context(), lab.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := plane.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	transport, err := rest.HTTPClientFor(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(plane.RESTConfig(), transport)
	if err != nil {
		t.Fatal(err)
	}
	space, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "revision-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return apiServer{client: client, namespace: space.Name}
}

// podTemplate returns the template as the server stores it in a PodTemplate.
func (s apiServer) podTemplate(t *testing.T, template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t.Helper()
	object := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Template: template}
	object, err := s.client.CoreV1().PodTemplates(s.namespace).Create(t.Context(), object, dryRun())
	if err != nil {
		t.Fatal(err)
	}
	return object.Template
}

// pod returns the template as the server stores it in a Pod, without what admission plugins add: it
// depends on the cluster, and so a projection must not leave it out.
func (s apiServer) pod(t *testing.T, template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t.Helper()
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: template.Labels, Annotations: template.Annotations},
		Spec:       template.Spec,
	}
	object, err := s.client.CoreV1().Pods(s.namespace).Create(t.Context(), object, dryRun())
	if err != nil {
		t.Fatal(err)
	}
	got := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: object.Labels, Annotations: object.Annotations},
		Spec:       object.Spec,
	}
	got.Spec.Priority, got.Spec.PreemptionPolicy = template.Spec.Priority, template.Spec.PreemptionPolicy
	got.Spec.Tolerations = slices.DeleteFunc(got.Spec.Tolerations, func(added corev1.Toleration) bool {
		return added.Key == corev1.TaintNodeNotReady || added.Key == corev1.TaintNodeUnreachable
	})
	return got
}

func dryRun() metav1.CreateOptions {
	return metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
}
