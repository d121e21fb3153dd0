// Package plugin is a device plugin without devices: kubelet assigns what a test says there is.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/clock"
)

const (
	// Resource is what it advertises unless it is told otherwise.
	Resource = "nvidia.com/gpu"
	// VisibleDevices is the variable by which a container knows its devices.
	VisibleDevices = "NVIDIA_VISIBLE_DEVICES"

	kubeletSocket = "kubelet.sock"
	// watchEvery is how often it looks whether kubelet is another one.
	watchEvery = 200 * time.Millisecond
	// registerTimeout bounds one registration.
	registerTimeout = 5 * time.Second
)

// A Config says what a plugin has.
type Config struct {
	Dir      string            // kubelet's folder of device plugins
	Resource string            // default Resource
	Devices  []string          // ids, all healthy at first
	Env      map[string]string // more variables of containers that get devices
	Mounts   map[string]string // more mounts of theirs: path in the container to path on the node
	Clock    clock.WithTicker  // default the real one
}

// A Plugin serves kubelet until Stop. Its methods may be called from several goroutines.
type Plugin struct {
	deviceplugin.UnimplementedDevicePluginServer
	config Config
	end    context.CancelFunc
	done   chan struct{}

	mu        sync.Mutex
	unhealthy map[string]bool
	changed   chan struct{} // closed at the next change
}

// Start returns once kubelet has taken the registration. From then on it registers with every kubelet that is
// started anew.
func Start(ctx context.Context, c Config) (*Plugin, error) {
	if c.Resource == "" {
		c.Resource = Resource
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	p := &Plugin{config: c, done: make(chan struct{}), unhealthy: map[string]bool{}, changed: make(chan struct{})}
	live, end := context.WithCancel(context.WithoutCancel(ctx))
	p.end = end
	registered := make(chan struct{})
	go p.run(live, registered)
	select {
	case <-registered:
		return p, nil
	case <-ctx.Done():
		p.Stop()
		return nil, fmt.Errorf("register %s in %s: %w", c.Resource, c.Dir, ctx.Err())
	}
}

// Stop ends it as a crash does: kubelet sees the end of its stream, and marks the devices unhealthy.
func (p *Plugin) Stop() {
	p.end()
	<-p.done
}

// SetHealthy says that a device is well, as at first.
func (p *Plugin) SetHealthy(id string) { p.change(func() { delete(p.unhealthy, id) }) }

// SetUnhealthy says that a device is sick.
func (p *Plugin) SetUnhealthy(id string) { p.change(func() { p.unhealthy[id] = true }) }

func (p *Plugin) change(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Plugin) endpoint() string { return strings.ReplaceAll(p.config.Resource, "/", "-") + ".sock" }

// run serves and registers, anew whenever kubelet is another one: it removes the sockets of all plugins when it
// starts.
func (p *Plugin) run(ctx context.Context, registered chan<- struct{}) {
	defer close(p.done)
	tick := p.config.Clock.NewTicker(watchEvery)
	defer tick.Stop()
	stop := func() {}
	defer func() { stop() }()
	var first sync.Once
	var known os.FileInfo // the socket of the kubelet that has us
	for {
		now, err := os.Stat(filepath.Join(p.config.Dir, kubeletSocket))
		if err == nil && !p.served(known, now) {
			stop()
			known = nil
			if stop, err = p.join(ctx); err == nil {
				known = now
				first.Do(func() { close(registered) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

// join serves until leave is called, which is never nil, and registers.
func (p *Plugin) join(ctx context.Context) (leave func(), err error) {
	if leave, err = p.serve(ctx); err == nil {
		err = p.register(ctx)
	}
	return leave, err
}

// served reports whether the kubelet behind the socket now has us already.
func (p *Plugin) served(known, now os.FileInfo) bool {
	_, err := os.Stat(filepath.Join(p.config.Dir, p.endpoint()))
	return known != nil && err == nil && os.SameFile(known, now) && known.ModTime().Equal(now.ModTime())
}

// serve listens until stop is called, which is never nil.
func (p *Plugin) serve(ctx context.Context) (stop func(), err error) {
	path := filepath.Join(p.config.Dir, p.endpoint())
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return func() {}, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return func() {}, err
	}
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	deviceplugin.RegisterDevicePluginServer(server, p)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // it ends by stop alone
	}()
	return func() { server.Stop(); <-served }, nil
}

func (p *Plugin) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+filepath.Join(p.config.Dir, kubeletSocket),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is under way
	_, err = deviceplugin.NewRegistrationClient(conn).Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: p.endpoint(), ResourceName: p.config.Resource,
	})
	return err
}

// GetDevicePluginOptions wants nothing more.
func (p *Plugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch tells the devices, and again after each change.
func (p *Plugin) ListAndWatch(_ *deviceplugin.Empty, stream deviceplugin.DevicePlugin_ListAndWatchServer) error {
	for {
		answer, changed := p.list()
		if err := stream.Send(answer); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *Plugin) list() (*deviceplugin.ListAndWatchResponse, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := &deviceplugin.ListAndWatchResponse{}
	for _, id := range p.config.Devices {
		d := &deviceplugin.Device{ID: id, Health: deviceplugin.Healthy}
		if p.unhealthy[id] {
			d.Health = deviceplugin.Unhealthy
		}
		answer.Devices = append(answer.Devices, d)
	}
	return answer, p.changed
}

// Allocate tells each container its devices, in the order of their ids.
func (p *Plugin) Allocate(_ context.Context, r *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	answer := &deviceplugin.AllocateResponse{}
	for _, c := range r.GetContainerRequests() {
		env := maps.Clone(p.config.Env)
		if env == nil {
			env = map[string]string{}
		}
		env[VisibleDevices] = strings.Join(slices.Sorted(slices.Values(c.GetDevicesIds())), ",")
		one := &deviceplugin.ContainerAllocateResponse{Envs: env}
		for _, inside := range slices.Sorted(maps.Keys(p.config.Mounts)) {
			one.Mounts = append(one.Mounts, &deviceplugin.Mount{ContainerPath: inside, HostPath: p.config.Mounts[inside]})
		}
		answer.ContainerResponses = append(answer.ContainerResponses, one)
	}
	return answer, nil
}
