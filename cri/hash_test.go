package cri_test

import (
	"testing"

	"pitstop.dev/cri"
)

// The values are what HashContainer of k8s.io/kubernetes v1.37.2 returned, as kubelet
// formats them. One starts with a zero digit, which is left out.
func TestKubeletHash(t *testing.T) {
	for _, tt := range []struct{ name, image, want string }{
		{"engine", "127.0.0.1:5000/engine:v1", "ae009eb"},
		{"engine", "127.0.0.1:5000/engine:v2", "99e70539"},
		{"nginx", "nginx", "a564281e"},
		{"nginx", "docker.io/library/nginx:latest", "bd2ad7ca"},
		{"a", "reg/x@sha256:0000000000000000000000000000000000000000000000000000000000000000", "63ab0c37"},
		{"odd", "a<b>&\"c", "8ba1a06c"},
		{"", "", "edd67cc4"},
	} {
		if got := cri.KubeletHash(tt.name, tt.image); got != tt.want {
			t.Errorf("KubeletHash(%q, %q) = %s, want %s", tt.name, tt.image, got, tt.want)
		}
	}
}
