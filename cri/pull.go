package cri

import (
	"context"
	"fmt"
	"time"

	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// progressPeriod is how often a pull's progress is looked at.
const progressPeriod = time.Second

// A Progress is what can be seen of a pull from outside. CRI has no progress of its own.
type Progress struct {
	// Bytes is by how much the image file system grew since the pull began, as a high-water
	// mark. Where the host's file system is visible (Config.HostRoot) it is the use of the
	// whole file system and moves within a second; other writers move it too. Elsewhere it
	// is the runtime's own figure, which containerd renews every 10 s and which counts
	// layers only once they are unpacked.
	Bytes int64
	// Elapsed is the time since the pull began.
	Elapsed time.Duration
}

// Pull fetches ref without credentials and unpacks it; an image that is present costs one
// request to the registry. It has no time limit of its own: it ends with ctx, and the
// runtime drops the pull then. progress, if not nil, is called about once a second from one
// other goroutine, and never after Pull has returned.
//
// It returns ErrImageNotFound, ErrUnauthorized, ErrWrongPlatform, ErrRegistryUnreachable,
// ErrNoSpace, ErrUnavailable or the error of ctx; any other error has no meaning to callers
// and may be retried. Success proves nothing about the platform: see Image.
func (c *Client) Pull(ctx context.Context, ref string, progress func(Progress)) error {
	if progress != nil {
		defer c.observe(ctx, progress)()
	}
	_, err := c.images.PullImage(ctx, &criv1.PullImageRequest{Image: &criv1.ImageSpec{Image: ref}})
	if err == nil {
		return nil
	}
	if ended := endOf(ctx, clock.RealClock{}.Now()); ended != nil {
		return fmt.Errorf("pull image %s: %w", ref, ended)
	}
	return fmt.Errorf("pull image %s: %w", ref, classifyPull(ref, err))
}

// slack is how much earlier than a context's own timer the runtime may see its deadline, which it is told.
const slack = 100 * time.Millisecond

// endOf returns why ctx has ended, nil if it has not.
func endOf(ctx context.Context, now time.Time) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && now.After(deadline.Add(-slack)) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// observe calls progress until the function that it returns is called, which waits for the
// end of it.
func (c *Client) observe(ctx context.Context, progress func(Progress)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	begin := c.cfg.Clock.Now()
	ticker := c.cfg.Clock.NewTicker(progressPeriod)
	go func() {
		defer close(done)
		defer ticker.Stop()
		var p Progress
		first, known := c.usedBytes(ctx)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
			}
			used, ok := c.usedBytes(ctx)
			switch {
			case !ok: // unknown is not zero: the last figure stands
			case !known:
				first, known = used, true
			case used > first:
				p.Bytes = max(p.Bytes, int64(used-first))
			}
			if ctx.Err() != nil {
				return
			}
			p.Elapsed = c.cfg.Clock.Since(begin)
			progress(p)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// usedBytes returns the best figure that there is of how full the image file system is.
func (c *Client) usedBytes(ctx context.Context) (uint64, bool) {
	fs, err := c.ImageFS(ctx)
	if err != nil {
		return 0, false
	}
	if seen, err := c.fileSystem(fs.Mountpoint); err == nil {
		return seen.UsedBytes, true
	}
	return fs.UsedBytes, true
}
