package servinggroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan/pods"
)

func TestWhatTheAgentSaysOfGPUs(t *testing.T) {
	says := func(status corev1.ConditionStatus, reason v1alpha1.GPUReason, message string) *corev1.PodCondition {
		return &corev1.PodCondition{Status: status, Reason: string(reason), Message: message}
	}
	for name, tt := range map[string]struct {
		c    *corev1.PodCondition
		want pods.Pod
	}{
		"nothing":                {nil, pods.Pod{}},
		"they are healthy":       {says(corev1.ConditionTrue, v1alpha1.GPUTrueHealthy, ""), pods.Pod{}},
		"one is sick":            {says(corev1.ConditionFalse, v1alpha1.GPUFalseXID, "GPU 0"), pods.Pod{GPUFault: "FatalXID: GPU 0"}},
		"they cannot be read":    {says(corev1.ConditionUnknown, v1alpha1.GPUUnknownUnread, "GPU 0"), pods.Pod{GPUUnknown: true}},
		"the driver is released": {says(corev1.ConditionUnknown, v1alpha1.GPUUnknownReleased, "until noon"), pods.Pod{GPUUnknown: true, DriverReleased: "DriverReleased: until noon"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got pods.Pod
			observeGPUs(&got, tt.c)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
