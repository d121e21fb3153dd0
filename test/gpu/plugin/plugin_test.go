package plugin_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/testing/protocmp"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"pitstop.dev/test/gpu/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds whatever a test waits for.
const limit = 10 * time.Second

// A kubelet takes registrations.
type kubelet struct {
	deviceplugin.UnimplementedRegistrationServer
	t      *testing.T
	dir    string
	took   chan *deviceplugin.RegisterRequest
	server *grpc.Server
	done   chan struct{}
}

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugins") //nolint:usetesting // a socket's path has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{t: t, dir: dir, took: make(chan *deviceplugin.RegisterRequest, 10)}
	t.Cleanup(func() {
		k.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return k
}

// start empties the folder and listens, as kubelet does.
func (k *kubelet) start() {
	k.t.Helper()
	k.stop()
	files, err := filepath.Glob(filepath.Join(k.dir, "*"))
	if err != nil {
		k.t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			k.t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", filepath.Join(k.dir, "kubelet.sock"))
	if err != nil {
		k.t.Fatal(err)
	}
	k.server, k.done = grpc.NewServer(grpc.WaitForHandlers(true)), make(chan struct{})
	deviceplugin.RegisterRegistrationServer(k.server, k)
	go func() { defer close(k.done); _ = k.server.Serve(l) }()
}

func (k *kubelet) stop() {
	if k.server != nil {
		k.server.Stop()
		<-k.done
		k.server = nil
	}
}

func (k *kubelet) Register(_ context.Context, r *deviceplugin.RegisterRequest) (*deviceplugin.Empty, error) {
	k.took <- r
	return &deviceplugin.Empty{}, nil
}

// registered waits for a registration and returns a client of the plugin.
func (k *kubelet) registered() deviceplugin.DevicePluginClient {
	k.t.Helper()
	select {
	case r := <-k.took:
		if r.GetResourceName() != "nvidia.com/gpu" || r.GetVersion() != deviceplugin.Version {
			k.t.Errorf("registered %v", r)
		}
		conn, err := grpc.NewClient("unix://"+filepath.Join(k.dir, r.GetEndpoint()), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			k.t.Fatal(err)
		}
		k.t.Cleanup(func() { _ = conn.Close() })
		return deviceplugin.NewDevicePluginClient(conn)
	case <-time.After(limit):
		k.t.Fatal("no registration")
		return nil
	}
}

func start(t *testing.T, k *kubelet) *plugin.Plugin {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	p, err := plugin.Start(ctx, plugin.Config{
		Dir: k.dir, Devices: []string{"GPU-b", "GPU-a"}, Env: map[string]string{"X": "1"}, Mounts: map[string]string{"/in": "/on", "/a": "/b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func TestKubeletHearsOfDevicesAndTheirHealth(t *testing.T) {
	k := newKubelet(t)
	k.start()
	p := start(t, k)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	stream, err := k.registered().ListAndWatch(ctx, &deviceplugin.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do    func()
		wantB string
	}{
		{func() {}, deviceplugin.Healthy},
		{func() { p.SetUnhealthy("GPU-b") }, deviceplugin.Unhealthy},
		{func() { p.SetHealthy("GPU-b") }, deviceplugin.Healthy},
	} {
		step.do()
		got, err := stream.Recv()
		want := &deviceplugin.ListAndWatchResponse{Devices: []*deviceplugin.Device{{ID: "GPU-b", Health: step.wantB}, {ID: "GPU-a", Health: deviceplugin.Healthy}}}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
	}
	p.Stop()
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on after the plugin")
	}
}

func TestAContainerIsToldItsDevices(t *testing.T) {
	k := newKubelet(t)
	k.start()
	start(t, k)
	got, err := k.registered().Allocate(t.Context(), &deviceplugin.AllocateRequest{ContainerRequests: []*deviceplugin.ContainerAllocateRequest{
		{DevicesIds: []string{"GPU-b", "GPU-a"}}, {DevicesIds: []string{"GPU-b"}},
	}})
	mounts := []*deviceplugin.Mount{{ContainerPath: "/a", HostPath: "/b"}, {ContainerPath: "/in", HostPath: "/on"}}
	want := &deviceplugin.AllocateResponse{ContainerResponses: []*deviceplugin.ContainerAllocateResponse{
		{Envs: map[string]string{"X": "1", plugin.VisibleDevices: "GPU-a,GPU-b"}, Mounts: mounts},
		{Envs: map[string]string{"X": "1", plugin.VisibleDevices: "GPU-b"}, Mounts: mounts},
	}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

func TestItRegistersWithEveryKubelet(t *testing.T) {
	k := newKubelet(t)
	k.start()
	start(t, k)
	for range 3 {
		if _, err := k.registered().GetDevicePluginOptions(t.Context(), &deviceplugin.Empty{}); err != nil {
			t.Error(err)
		}
		k.start()
	}
	k.registered()
}

func TestStartWithoutKubelet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := plugin.Start(ctx, plugin.Config{Dir: t.TempDir(), Devices: []string{"GPU-a"}}); err == nil {
		t.Error("started with nobody to register with")
	}
}
