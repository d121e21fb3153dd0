// Package show is the demo: scenes on the lab's cluster, each of which prints what was measured
// and adds to the list of broken promises.
package show

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"

	"pitstop.dev/readiness"
	"pitstop.dev/test/cluster"
	"pitstop.dev/test/engine/load"
)

// clients is how many streams of one second run at any time.
const clients = 8

// A show is one run of the demo.
type show struct {
	*cluster.Cluster
	out    io.Writer
	clock  clock.Clock
	start  time.Time
	broken []error
	v1, v2 string
}

// Run plays all scenes and returns what was not as promised.
func Run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 45*time.Minute) // the first build takes most of it
	defer cancel()
	s := &show{out: out, clock: clock.RealClock{}}
	s.start = s.clock.Now()
	s.title("a Kubernetes of two nodes on this machine, with the Pitstop agent on each")
	var err error
	if s.Cluster, err = cluster.Start(ctx, out); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for _, scene := range []func(context.Context) error{s.inPlace, s.wrongTag, s.recreate} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(s.broken...); err != nil {
		return fmt.Errorf("not as promised:\n%w", err)
	}
	s.title("all as promised")
	s.say("The lab stays up: kubectl --kubeconfig %s get inplaceupdates; make lab-down ends it.", s.KubeconfigPath())
	return nil
}

func (s *show) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *show) title(text string) {
	s.say("\n=== %s  [%.1f s]", text, s.clock.Since(s.start).Seconds())
}

// broke notes a promise that was not kept.
func (s *show) broke(format string, args ...any) {
	s.broken = append(s.broken, fmt.Errorf(format, args...))
}

// same promises that what is named did not change.
func (s *show) same(what, before, after string) {
	if before != after {
		s.broke("%s changed from %s to %s", what, before, after)
	}
}

// prepare pushes the images and starts two pairs of engines, each behind a Service.
func (s *show) prepare(ctx context.Context) error {
	var err error
	if s.v1, err = s.Engine(ctx, "v1", nil); err != nil {
		return err
	}
	if s.v2, err = s.Engine(ctx, "v2", nil); err != nil {
		return err
	}
	names := append(pair("inplace"), pair("recreate")...)
	if err := s.Remove(ctx, names...); err != nil {
		return err
	}
	s.title("two engines at v1 behind a Service, and two more for the comparison")
	for i, name := range names {
		if _, err := s.Create(ctx, s.engine(name, s.Nodes()[i%2].Name, s.v1)); err != nil {
			return err
		}
	}
	for _, name := range names {
		if _, err := s.WaitPod(ctx, name, readiness.Ready); err != nil {
			return err
		}
	}
	return nil
}

func pair(app string) []string { return []string{app + "-0", app + "-1"} }

func (s *show) engine(name, node, image string) cluster.PodSpec {
	app, _, _ := strings.Cut(name, "-")
	return cluster.PodSpec{
		Name: name, Node: node, Image: image, Labels: map[string]string{"app": app},
		Env: map[string]string{"PITSTOP_ENGINE_STATE": "/scratch"},
	}
}

// traffic streams through the Service of app until the returned function is called.
func (s *show) traffic(ctx context.Context, app string) (*load.Load, error) {
	services := s.Core.CoreV1().Services(cluster.Namespace)
	svc, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Port: 8000, TargetPort: intstr.FromString("http")}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		svc, err = services.Get(ctx, app, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", app, err)
	}
	url := "http://" + svc.Spec.ClusterIP + ":8000"
	if err := s.answers(ctx, url); err != nil {
		return nil, err
	}
	return load.Start(ctx, load.Config{URL: url, Clients: clients}, s.clock)
}
