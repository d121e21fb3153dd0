package order_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

func held(by, why string) *corev1.Pod {
	pod := engine()
	pod.Annotations[v1alpha1.HoldPrefix+by] = why
	pod.Annotations["unrelated"] = "x"
	return pod
}

func TestHolds(t *testing.T) {
	pod := held("operator", "looking into it")
	pod.Annotations[v1alpha1.HoldInPlace] = "ipu-uid/2"
	want := []order.Hold{{Holder: "inplace", Value: "ipu-uid/2"}, {Holder: "operator", Value: "looking into it"}}
	if diff := cmp.Diff(want, order.Holds(pod)); diff != "" {
		t.Errorf("Holds() (-want +got):\n%s", diff)
	}
}

func TestMayHold(t *testing.T) {
	ungated := engine()
	ungated.Spec.ReadinessGates = nil
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		hold order.Hold
		want []string // words of the error; none: it may
		code any
	}{
		"a free Pod":                 {pod: engine(), hold: order.Hold{Holder: "operator", Value: "x"}},
		"again for the same reason":  {pod: held("operator", "x"), hold: order.Hold{Holder: "operator", Value: "x"}},
		"besides another holder":     {pod: held("alice", "x"), hold: order.Hold{Holder: "operator", Value: "y"}},
		"not for another reason":     {pod: held("operator", "x"), hold: order.Hold{Holder: "operator", Value: "y"}, want: []string{"for another reason: x", "--holder"}, code: new(*order.ConflictError)},
		"not without the gate":       {pod: ungated, hold: order.Hold{Holder: "operator", Value: "y"}, want: []string{"pitstop.dev/InService"}, code: new(*order.RefusalError)},
		"not in the agent's name":    {pod: engine(), hold: order.Hold{Holder: "inplace"}, want: []string{"agent's"}, code: new(*order.RefusalError)},
		"not under an illegal name":  {pod: engine(), hold: order.Hold{Holder: "a b"}, want: []string{`"a b"`}, code: new(*order.RefusalError)},
		"not under too long a name":  {pod: engine(), hold: order.Hold{Holder: string(make([]byte, 59))}, want: []string{"58"}, code: new(*order.RefusalError)},
		"not under an empty name":    {pod: engine(), hold: order.Hold{}, want: []string{`""`}, code: new(*order.RefusalError)},
		"not for the coordinator":    {pod: engine(), hold: order.Hold{Holder: "unit"}, want: []string{"coordinator's"}, code: new(*order.RefusalError)},
		"not for a lost device":      {pod: engine(), hold: order.Hold{Holder: "device"}, want: []string{"lost a GPU"}, code: new(*order.RefusalError)},
		"not for the health of GPUs": {pod: engine(), hold: order.Hold{Holder: "gpu-health"}, want: []string{"sick GPU"}, code: new(*order.RefusalError)},
	} {
		t.Run(name, func(t *testing.T) {
			err := order.MayHold(tt.pod, tt.hold)
			if tt.want == nil {
				if err != nil {
					t.Errorf("MayHold() = %v", err)
				}
				return
			}
			if !errors.As(err, tt.code) {
				t.Fatalf("MayHold() = %v, want a %T", err, tt.code)
			}
			contains(t, err, tt.want)
		})
	}
}

func TestMayRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		pod    *corev1.Pod
		holder string
		want   []string
	}{
		"one's own":                     {pod: held("operator", "x"), holder: "operator"},
		"not where nobody holds":        {engine(), "operator", []string{"nobody holds it"}},
		"not another's, whom it names":  {held("alice", "x"), "operator", []string{"held by: alice"}},
		"not the agent's":               {held("inplace", "x"), "inplace", []string{"cancel"}},
		"not the coordinator's":         {held("unit", "x"), "unit", []string{"unit may serve"}},
		"not a lost device's":           {held("device", "x"), "device", []string{"device is back"}},
		"not the coordinator's on GPUs": {held("gpu-health", "x"), "gpu-health", []string{"healthy again"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := order.MayRelease(tt.pod, tt.holder)
			if tt.want == nil {
				if err != nil {
					t.Errorf("MayRelease() = %v", err)
				}
				return
			}
			if _, ok := errors.AsType[*order.RefusalError](err); !ok {
				t.Fatalf("MayRelease() = %v, want a refusal", err)
			}
			contains(t, err, tt.want)
		})
	}
}
