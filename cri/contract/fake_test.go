package contract_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"pitstop.dev/cri"
	"pitstop.dev/cri/contract"
	"pitstop.dev/cri/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFake(t *testing.T) {
	contract.Run(t, func(t *testing.T) contract.Subject {
		t.Helper()
		return &subject{Runtime: fake.Start(t, clock.RealClock{})}
	})
}

// A subject is the fake with its own registry.
type subject struct{ *fake.Runtime }

func (s *subject) Config() cri.Config {
	return cri.Config{HostRoot: "/", Statfs: func(path string) (cri.FileSystem, error) {
		return cri.FileSystem{FreeBytes: uint64(len(path))}, nil
	}}
}

func (s *subject) Publish(_ *testing.T, i contract.Image) string {
	sum := sha256.Sum256([]byte(i.Content))
	image := fake.Image{ID: "sha256:" + hex.EncodeToString(sum[:]), Private: i.Private, Stubborn: i.Stubborn}
	if i.Platform != contract.Here {
		image.Architecture, image.Index = "s390x", i.Platform == contract.Nowhere
	}
	ref := "registry.test/" + i.Name
	s.Runtime.Publish(ref, image)
	return ref
}

func (s *subject) FirstProcess(_ *testing.T, id string) int32 {
	s.SetPID(id, 4711)
	return 4711
}

func (s *subject) RegistryDown(*testing.T) { s.Runtime.RegistryDown() }
func (s *subject) RegistryUp(*testing.T)   { s.Runtime.RegistryUp() }
func (s *subject) Down(*testing.T)         { s.Close() }

func (s *subject) Up(t *testing.T) {
	t.Helper()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
}
