// Package e2e proves the agent on a real kubelet, containerd and API server: the lab. Its tests
// need root and the build tag lab; see docs/development.md.
package e2e
