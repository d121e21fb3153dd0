package v1alpha1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPatchMarkComesBack(t *testing.T) {
	whole := PatchMark{Token: "ipu/3", At: time.Date(2026, 1, 2, 15, 4, 5, 678e6, time.UTC), StopTimeout: 90 * time.Second}
	for text, want := range map[string]PatchMark{
		whole.String():                           whole,
		"":                                       {},
		"ipu/3":                                  {},
		"ipu/3 2026-01-02T15:04:05.678Z":         {},
		"ipu/3 yesterday 30s":                    {},
		"ipu/3 2026-01-02T15:04:05.678Z forever": {},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{PatchedAt: text}}}
		if diff := cmp.Diff(want, PatchMarkOf(pod)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
