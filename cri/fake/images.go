package fake

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// An Image is what the registry serves under a reference.
type Image struct {
	// ID is the digest of the configuration, "sha256:…". Two references with one ID are
	// aliases. Empty: derived from the reference.
	ID string
	// OS and Architecture default to this machine's, which are also the node's.
	OS, Architecture, Variant string
	// Index publishes the image as the only one of an index. A pull fails if it is for
	// another platform than the node's; that of a single manifest does not.
	Index bool
	// Size is in bytes; 0 means 1 MiB.
	Size uint64
	// PullTime is how long a pull takes on the fake's clock.
	PullTime time.Duration
	// Private images are refused without credentials, hence to everybody but EnsureImage.
	Private bool
	// Stubborn containers ignore their stop signal.
	Stubborn bool
	// Pinned images are so as soon as they are on the node.
	Pinned bool
}

// A nodeImage is an image on the node with all its names.
type nodeImage struct {
	Image
	tags    []string
	digests []string
}

// Publish puts an image at the registry under ref, in place of what was there, and returns
// it with all fields filled in.
func (r *Runtime) Publish(ref string, i Image) Image {
	i.ID = cmp.Or(i.ID, "sha256:"+digest(ref))
	i.OS = cmp.Or(i.OS, "linux")
	i.Architecture = cmp.Or(i.Architecture, runtime.GOARCH)
	i.Size = cmp.Or(i.Size, 1<<20)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registry[tagged(ref)] = i
	return i
}

// Unpublish takes ref from the registry. The node keeps what it has.
func (r *Runtime) Unpublish(ref string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.registry, tagged(ref))
}

// EnsureImage puts a published image on the node at once, as kubelet's own pull with its
// credentials does. It returns what PullImage would: the registry may be down.
func (r *Runtime) EnsureImage(ref string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, err := r.fetch(ref)
	if err != nil {
		return err
	}
	r.store(ref, i)
	return nil
}

// EvictImage takes the image that ref means from the node with all its names, as kubelet's
// collector does. Nothing there is fine.
func (r *Runtime) EvictImage(ref string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.resolve(ref); i != nil {
		delete(r.node, i.ID)
	}
}

// RegistryDown makes every pull fail until RegistryUp: connection refused.
func (r *Runtime) RegistryDown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
}

// RegistryUp ends RegistryDown.
func (r *Runtime) RegistryUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = false
}

// HoldPulls makes pulls of ref wait, from resolving on, until ReleasePulls.
func (r *Runtime) HoldPulls(ref string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[tagged(ref)] == nil {
		r.held[tagged(ref)] = make(chan struct{})
	}
}

// ReleasePulls lets the pulls of ref go on, those that wait and later ones.
func (r *Runtime) ReleasePulls(ref string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.held[tagged(ref)]; c != nil {
		close(c)
		delete(r.held, tagged(ref))
	}
}

// Downloaded sets how much of ref is on the image file system though it is no image yet.
func (r *Runtime) Downloaded(ref string, bytes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.downloads[tagged(ref)] = bytes
}

// tagged completes a reference as the runtimes do.
func tagged(ref string) string {
	if strings.Contains(ref, "@") || strings.LastIndex(ref, ":") > strings.LastIndex(ref, "/") {
		return ref
	}
	return ref + ":latest"
}

func repository(ref string) string {
	if name, _, ok := strings.Cut(ref, "@"); ok {
		return name
	}
	ref = tagged(ref)
	return ref[:strings.LastIndex(ref, ":")]
}

// fetch asks the registry. The caller holds the lock.
func (r *Runtime) fetch(ref string) (Image, error) {
	full := tagged(ref)
	if r.down {
		return Image{}, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: failed to resolve image: failed to do request: "+
			"Head \"http://127.0.0.1:1/v2/%s\": dial tcp 127.0.0.1:1: connect: connection refused", full, full)
	}
	i, ok := r.registry[full]
	if !ok {
		return Image{}, notFound("failed to pull and unpack image %q: failed to resolve image: %s", full, full)
	}
	return i, nil
}

// store puts an image on the node under ref too. The caller holds the lock.
func (r *Runtime) store(ref string, i Image) {
	full := tagged(ref)
	for id, other := range r.node { // a tag that moves leaves its old image
		other.tags = slices.DeleteFunc(other.tags, func(t string) bool { return t == full })
		if id != i.ID && len(other.tags)+len(other.digests) == 0 {
			delete(r.node, id)
		}
	}
	n := r.node[i.ID]
	if n == nil {
		n = &nodeImage{}
		r.node[i.ID] = n
	}
	n.Image = i
	if !strings.Contains(full, "@") {
		n.tags = append(n.tags, full)
	}
	// The manifest's digest differs from the configuration's.
	if d := repository(full) + "@sha256:" + digest("manifest of "+i.ID); !slices.Contains(n.digests, d) {
		n.digests = append(n.digests, d)
	}
	delete(r.downloads, full)
}

// resolve finds an image on the node by tag, digest or id, or returns nil. The caller holds
// the lock.
func (r *Runtime) resolve(ref string) *nodeImage {
	for id, i := range r.node {
		if id == ref || strings.TrimPrefix(id, "sha256:") == ref || slices.Contains(i.tags, tagged(ref)) || slices.Contains(i.digests, ref) {
			return i
		}
	}
	return nil
}

type imageServer struct {
	criv1.UnimplementedImageServiceServer
	r *Runtime
}

func (s *imageServer) PullImage(ctx context.Context, req *criv1.PullImageRequest) (*criv1.PullImageResponse, error) {
	r, ref := s.r, req.GetImage().GetImage()
	r.mu.Lock()
	i, err := r.fetch(ref)
	held := r.held[tagged(ref)]
	r.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case i.Private && req.GetAuth() == nil:
		return nil, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: failed to resolve image: pull access denied, "+
			"repository does not exist or may require authorization: authorization failed: no basic auth credentials", ref)
	case i.Index && (i.OS != "linux" || i.Architecture != runtime.GOARCH):
		return nil, notFound("get image config descriptor: no match for platform in manifest sha256:%s", digest("index of "+i.ID))
	}
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	if i.PullTime > 0 {
		timer := r.clock.NewTimer(i.PullTime)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store(ref, i)
	return &criv1.PullImageResponse{ImageRef: r.bare(i.ID)}, nil
}

func (s *imageServer) ImageStatus(_ context.Context, req *criv1.ImageStatusRequest) (*criv1.ImageStatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	i := s.r.resolve(req.GetImage().GetImage())
	if i == nil {
		return &criv1.ImageStatusResponse{}, nil
	}
	answer := &criv1.ImageStatusResponse{Image: s.r.wire(i)}
	if req.GetVerbose() {
		info, err := json.Marshal(map[string]any{"imageSpec": map[string]string{
			"os": i.OS, "architecture": i.Architecture, "variant": i.Variant,
		}})
		if err != nil {
			return nil, err
		}
		answer.Info = map[string]string{"info": string(info)}
	}
	return answer, nil
}

func (s *imageServer) ListImages(context.Context, *criv1.ListImagesRequest) (*criv1.ListImagesResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var answer criv1.ListImagesResponse
	for _, id := range slices.Sorted(maps.Keys(s.r.node)) {
		answer.Images = append(answer.Images, s.r.wire(s.r.node[id]))
	}
	return &answer, nil
}

func (s *imageServer) RemoveImage(_ context.Context, req *criv1.RemoveImageRequest) (*criv1.RemoveImageResponse, error) {
	s.r.EvictImage(req.GetImage().GetImage())
	return &criv1.RemoveImageResponse{}, nil
}

func (s *imageServer) ImageFsInfo(context.Context, *criv1.ImageFsInfoRequest) (*criv1.ImageFsInfoResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var used uint64
	for _, i := range s.r.node {
		used += i.Size
	}
	for _, n := range s.r.downloads {
		used += n
	}
	return &criv1.ImageFsInfoResponse{ImageFilesystems: []*criv1.FilesystemUsage{{
		Timestamp:  s.r.clock.Now().UnixNano(),
		FsId:       &criv1.FilesystemIdentifier{Mountpoint: "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"},
		UsedBytes:  &criv1.UInt64Value{Value: used},
		InodesUsed: &criv1.UInt64Value{Value: 1},
	}}}, nil
}

func (r *Runtime) wire(i *nodeImage) *criv1.Image {
	return &criv1.Image{
		Id:          r.bare(i.ID),
		RepoTags:    slices.Clone(i.tags),
		RepoDigests: slices.Clone(i.digests),
		Size:        i.Size,
		Pinned:      i.Pinned,
	}
}

// bare gives an id as this runtime does: CRI-O leaves the algorithm out.
func (r *Runtime) bare(id string) string {
	if r.crio() {
		return strings.TrimPrefix(id, "sha256:")
	}
	return id
}
