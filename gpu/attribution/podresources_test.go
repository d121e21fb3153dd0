package attribution_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/attribution"
)

// A kubelet answers podresources on a socket in a folder, and can be started again.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	t      *testing.T
	dir    string
	server *grpc.Server
	done   chan struct{}

	mu    sync.Mutex
	pods  []*podresources.PodResources
	fail  error
	hang  bool
	asked int
	then  func() // done before the answer
}

func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet") //nolint:usetesting // a socket's path has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{t: t, dir: dir}
	t.Cleanup(func() {
		k.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return k
}

// start replaces the socket; now is when kubelet begins.
func (k *kubelet) start(now time.Time) {
	k.t.Helper()
	k.stop()
	path := filepath.Join(k.dir, "kubelet.sock")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		k.t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := os.Chtimes(path, now, now); err != nil {
		k.t.Fatal(err)
	}
	k.server, k.done = grpc.NewServer(grpc.WaitForHandlers(true)), make(chan struct{})
	podresources.RegisterPodResourcesListerServer(k.server, k)
	go func() { defer close(k.done); _ = k.server.Serve(l) }()
}

func (k *kubelet) stop() {
	if k.server != nil {
		k.server.Stop()
		<-k.done
		k.server = nil
	}
}

func (k *kubelet) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	if k.then != nil {
		k.then()
	}
	if k.hang {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &podresources.ListPodResourcesResponse{PodResources: k.pods}, k.fail
}

func (k *kubelet) set(change func(*kubelet)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
}

func pod(name string, containers ...*podresources.ContainerResources) *podresources.PodResources {
	return &podresources.PodResources{Namespace: "ns", Name: name, Containers: containers}
}

func container(name string, ids ...string) *podresources.ContainerResources {
	return &podresources.ContainerResources{Name: name, Devices: []*podresources.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: ids}}}
}

var witness = attribution.PodName{Namespace: "ns", Name: "agent"}

func TestAssignmentsAreKnownOnlyWhenConfirmed(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	k := newKubelet(t)
	client := attribution.NewPodResources(attribution.PodResourcesConfig{Dir: k.dir, Witness: witness, Clock: clk})
	engine := pod("engine-0", container("engine", gpuB, gpuA))
	for _, step := range []struct {
		name  string
		pass  time.Duration
		do    func()
		doubt attribution.Doubt // "": Known
		list  int
	}{
		{"there is no kubelet", 0, func() {}, attribution.NoKubelet, 0},
		{"it has just begun and lists nothing", time.Second, func() { k.start(clk.Now()) }, attribution.KubeletStarting, 0},
		{"it is old and has not heard from the API server", 10 * time.Second, func() {}, attribution.WitnessMissing, 0},
		{"it lists its Pods", time.Second, func() { k.pods = []*podresources.PodResources{pod("agent"), engine} }, attribution.Unconfirmed, 1},
		{"it says so again", time.Second, func() {}, "", 1},
		{"in another order", time.Second, func() {
			k.pods = []*podresources.PodResources{pod("engine-0", container("engine", gpuA, gpuB)), pod("agent")}
		}, "", 1},
		{"a Pod is gone", time.Second, func() { k.pods = []*podresources.PodResources{pod("agent")} }, attribution.Unconfirmed, 0},
		{"it stays away", time.Second, func() {}, "", 0},
		{"too many requests", time.Second, func() { k.fail = status.Error(codes.ResourceExhausted, "rejected by rate limit") }, attribution.KubeletRefused, 0},
		{"fewer", time.Second, func() { k.fail = nil }, "", 0},
		{"a new kubelet lists the same", time.Second, func() { k.start(clk.Now()) }, attribution.KubeletStarting, 0},
		{"and goes on", 10 * time.Second, func() {}, "", 0},
		{"another kubelet, long ago", time.Second, func() { k.start(clk.Now().Add(-time.Minute)) }, attribution.Unconfirmed, 0},
		{"and goes on", time.Second, func() {}, "", 0},
		{"it is killed", time.Second, k.stop, attribution.NoKubelet, 0},
	} {
		t.Run(step.name, func(t *testing.T) {
			clk.SetTime(clk.Now().Add(step.pass))
			step.do()
			got := client.Read(t.Context())
			want := attribution.Known
			if step.doubt != "" {
				want = attribution.Unknown
			}
			if got.Confidence != want || got.Reason != step.doubt || len(got.List) != step.list || (got.Message == "") != (step.doubt == "") {
				t.Errorf("got %+v, want %s %s with %d containers", got, want, step.doubt, step.list)
			}
		})
	}
}

func TestAKubeletThatIsReplacedWhileItIsAsked(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	k := newKubelet(t)
	k.start(clk.Now().Add(-time.Hour))
	client := attribution.NewPodResources(attribution.PodResourcesConfig{Dir: k.dir, Clock: clk})
	client.Read(t.Context())
	clk.SetTime(clk.Now().Add(time.Second))
	k.then = func() {
		path := filepath.Join(k.dir, "kubelet.sock")
		if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Error(err)
		}
	}
	if got := client.Read(t.Context()); got.Confidence != attribution.Unknown || got.Reason != attribution.KubeletStarting {
		t.Errorf("got %+v", got)
	}
}

func TestAnAnswerIsKeptForASecond(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	k := newKubelet(t)
	k.start(clk.Now())
	client := attribution.NewPodResources(attribution.PodResourcesConfig{Dir: k.dir, Clock: clk})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { client.Read(t.Context()) })
	}
	wg.Wait()
	clk.SetTime(clk.Now().Add(999 * time.Millisecond))
	client.Read(t.Context())
	k.set(func(k *kubelet) {
		if k.asked != 1 {
			t.Errorf("kubelet was asked %d times within a second", k.asked)
		}
	})
	clk.SetTime(clk.Now().Add(time.Millisecond))
	client.Read(t.Context())
	k.set(func(k *kubelet) {
		if k.asked != 2 {
			t.Errorf("kubelet was asked %d times in a second and one look", k.asked)
		}
	})
}

func TestAReaderWhoLeavesSpoilsNothing(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	k := newKubelet(t)
	k.start(clk.Now().Add(-time.Hour))
	client := attribution.NewPodResources(attribution.PodResourcesConfig{Dir: k.dir, Clock: clk})
	k.set(func(k *kubelet) { k.hang = true })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got := client.Read(ctx); got.Confidence != attribution.Unknown || got.Reason != attribution.NoKubelet {
		t.Errorf("a kubelet that hangs: %+v", got)
	}
	k.set(func(k *kubelet) { k.hang = false })
	if got := client.Read(t.Context()); got.Reason != attribution.Unconfirmed {
		t.Errorf("the next reader: %+v", got)
	}
}

func TestAssignmentsSayWhatEachContainerHas(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	k := newKubelet(t)
	k.start(clk.Now())
	cdi := func(names ...string) (list []*podresources.CDIDevice) {
		for _, n := range names {
			list = append(list, &podresources.CDIDevice{Name: n})
		}
		return list
	}
	share := "share-1"
	k.pods = []*podresources.PodResources{
		pod("b", container("engine", gpuB+"::1", gpuA), container("side"), &podresources.ContainerResources{Name: "net", Devices: []*podresources.ContainerDevices{
			{ResourceName: "rdma/hca", DeviceIds: []string{"mlx5_0"}},
		}}),
		pod("a", &podresources.ContainerResources{Name: "engine", DynamicResources: []*podresources.DynamicResource{{ClaimName: "c", ClaimResources: []*podresources.ClaimResource{
			{DriverName: "gpu.nvidia.com", PoolName: "node1", DeviceName: "gpu-0", CdiDevices: cdi("k8s.gpu.nvidia.com/claim=" + podUID + "-gpu-0")},
			{DriverName: "gpu.nvidia.com", PoolName: "node1", DeviceName: "gpu-1", ShareId: &share},
			{DriverName: "example.com", PoolName: "node1", DeviceName: "x", CdiDevices: cdi("vendor.com/other=1", "nvidia.com/gpu="+gpuA)},
			{DriverName: "example.com", PoolName: "node1", DeviceName: "gpu-7"},
		}}}}),
	}
	got := attribution.NewPodResources(attribution.PodResourcesConfig{Dir: k.dir, Clock: clk}).Read(t.Context())
	ref := func(r attribution.Ref) *attribution.Ref { return &r }
	if diff := cmp.Diff([]attribution.Assignment{
		{Pod: attribution.PodName{Namespace: "ns", Name: "a"}, Container: "engine", Devices: []attribution.Assigned{
			{Resource: "example.com", ID: "node1/gpu-7"},
			{Resource: "example.com", ID: "node1/x", Ref: ref(whole(gpuA))},
			{Resource: "gpu.nvidia.com", ID: "node1/gpu-0", Ref: ref(minor(0))},
			{Resource: "gpu.nvidia.com", ID: "node1/gpu-1", Ref: with(minor(1), shared)},
		}},
		{Pod: attribution.PodName{Namespace: "ns", Name: "b"}, Container: "engine", Devices: []attribution.Assigned{
			{Resource: "nvidia.com/gpu", ID: gpuA, Ref: ref(whole(gpuA))},
			{Resource: "nvidia.com/gpu", ID: gpuB + "::1", Ref: with(whole(gpuB), shared)},
		}},
		{Pod: attribution.PodName{Namespace: "ns", Name: "b"}, Container: "net", Devices: []attribution.Assigned{{Resource: "rdma/hca", ID: "mlx5_0"}}},
	}, got.List); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if d := got.Of(attribution.PodName{Namespace: "ns", Name: "b"}, "engine"); len(d) != 2 {
		t.Errorf("engine of b has %+v", d)
	}
	if d := got.Of(attribution.PodName{Namespace: "ns", Name: "b"}, "side"); d != nil {
		t.Errorf("side of b has %+v", d)
	}
	if _, ok := got.List[1].Devices[0].Ref.Find(gpu.Reading{Devices: []gpu.Device{{UUID: gpuA}}}); !ok {
		t.Error("its device is not found")
	}
}
