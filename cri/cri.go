// Package cri is the container runtime, seen through CRI: images, the containers of a Pod,
// a bounded stop, and a feed of changes. It never creates a container.
//
// A Client is one lazy connection. Every method has a deadline of its own besides that of
// its context, and translates the runtime's codes and texts into the errors below; nothing
// above this package looks at a code or matches text. What the runtime does not say is an
// empty field, never a guess.
//
// Errors that callers tell apart:
//
//	ErrUnavailable          the runtime is down or not ready: try again, nothing is known
//	ErrImageNotFound        no such image on the node (Image) or at the registry (Pull)
//	ErrContainerNotFound    no such container on the node (Process)
//	ErrUnauthorized         the registry wants credentials that this pull did not have
//	ErrWrongPlatform        the image has no variant for this node
//	ErrRegistryUnreachable  the registry does not answer, or asks us to come back later
//	ErrNoSpace              the image file system is full
//	ErrStopTimeout          the runtime did not confirm the stop in time: read again
//	ErrSpaceUnknown         the image file system cannot be seen from here
package cri

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

const (
	// queryTimeout bounds every call that only reads. A runtime answers these from memory;
	// kubelet itself gives up after two minutes.
	queryTimeout = 10 * time.Second
	// removeTimeout bounds the removal of an image, which deletes its layers.
	removeTimeout = time.Minute
	// maxMessage is the largest answer that is read, as in kubelet.
	maxMessage = 16 << 20
	// eventWindow is how much the runtime may send before we read it. containerd blocks the
	// node's exit handling while a subscriber's window is full, hence far above the default
	// of 64 KiB.
	eventWindow = 4 << 20
)

// A Config changes how a Client works. The zero value is complete.
type Config struct {
	// HostRoot is the folder under which the host's file system is visible, "/" for a
	// process on the host. Empty: not visible, and FreeBytes answers ErrSpaceUnknown.
	HostRoot string
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Statfs reads one file system by a path on it. It defaults to statfs(2).
	Statfs func(path string) (FileSystem, error)
}

// A FileSystem is what statfs tells about it.
type FileSystem struct {
	// FreeBytes is what an unprivileged user may still write: the figure that kubelet's
	// eviction thresholds are compared with.
	FreeBytes uint64
	// UsedBytes is what all its users together have written.
	UsedBytes uint64
	// TotalBytes is its size.
	TotalBytes uint64
}

// A Client speaks to one runtime. Its methods may be called from several goroutines.
type Client struct {
	conn    *grpc.ClientConn
	runtime criv1.RuntimeServiceClient
	images  criv1.ImageServiceClient
	cfg     Config
}

// A Version names the runtime, for example "containerd" "v2.4.2" or "cri-o" "1.37.0".
type Version struct {
	Runtime string
	Version string
}

// Dial returns a Client of the runtime that listens on endpoint: the path of a unix socket,
// with or without "unix://". It does not connect; the first call does, and after a restart
// of the runtime a later call connects again. The caller closes the Client.
func Dial(endpoint string, cfg Config) (*Client, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("runtime endpoint %q: not the absolute path of a unix socket", endpoint)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Statfs == nil {
		cfg.Statfs = statfs
	}
	conn, err := grpc.NewClient("unix://"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(eventWindow),
		grpc.WithInitialConnWindowSize(2*eventWindow),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("runtime endpoint %q: %w", endpoint, err)
	}
	return &Client{
		conn:    conn,
		runtime: criv1.NewRuntimeServiceClient(conn),
		images:  criv1.NewImageServiceClient(conn),
		cfg:     cfg,
	}, nil
}

// Close ends the connection and with it every call under way. It is called once.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("close the connection to the runtime: %w", err)
	}
	return nil
}

// Version asks the runtime who it is. It is the cheapest proof that the runtime answers.
func (c *Client) Version(ctx context.Context) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	v, err := c.runtime.Version(ctx, &criv1.VersionRequest{})
	if err != nil {
		return Version{}, fmt.Errorf("runtime version: %w", translate(err))
	}
	return Version{Runtime: v.GetRuntimeName(), Version: v.GetRuntimeVersion()}, nil
}

func statfs(path string) (FileSystem, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return FileSystem{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	size := uint64(s.Bsize)
	return FileSystem{
		FreeBytes:  s.Bavail * size,
		UsedBytes:  (s.Blocks - s.Bfree) * size,
		TotalBytes: s.Blocks * size,
	}, nil
}
