package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// An Image is one image on the node, as the runtime tells it.
type Image struct {
	// ID is the digest of the image's configuration, "sha256:…" on every runtime. Two
	// references are the same image on this node if and only if their IDs are equal, and it
	// is what Container.ImageID is compared with.
	ID string
	// OS, Architecture and Variant are the platform in the image's configuration. Empty: the
	// runtime does not say, or the image has none.
	OS, Architecture, Variant string
	// Size is in bytes, compressed on containerd and unpacked on CRI-O.
	Size uint64
	// Pinned images are not taken by kubelet's collector.
	Pinned bool
	// RepoTags and RepoDigests are all names of the image on this node.
	RepoTags, RepoDigests []string
}

// Check returns ErrWrongPlatform if the image says that it is for another platform than Linux
// on architecture, a GOARCH. What the image does not say is not held against it. containerd
// pulls a single manifest whatever it is for, so that a successful Pull proves nothing here.
func (i Image) Check(architecture string) error {
	fits := i.Architecture == "" || i.Architecture == architecture ||
		// The 32-bit programs that containerd takes, too, where it has the choice.
		architecture == "amd64" && i.Architecture == "386" || architecture == "arm64" && i.Architecture == "arm"
	if fits && (i.OS == "" || i.OS == "linux") {
		return nil
	}
	return fmt.Errorf("%w: %s/%s on linux/%s", ErrWrongPlatform, i.OS, i.Architecture, architecture)
}

// Image returns the image that ref means on this node now: the same question that kubelet
// asks before it starts a container. It returns ErrImageNotFound if there is none.
func (c *Client) Image(ctx context.Context, ref string) (Image, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	r, err := c.images.ImageStatus(ctx, &criv1.ImageStatusRequest{Image: &criv1.ImageSpec{Image: ref}, Verbose: true})
	if err != nil {
		return Image{}, fmt.Errorf("status of image %s: %w", ref, translate(err))
	}
	if r.GetImage().GetId() == "" {
		return Image{}, fmt.Errorf("status of image %s: %w", ref, ErrImageNotFound)
	}
	image := Image{
		ID:          imageID(r.GetImage().GetId()),
		Size:        r.GetImage().GetSize(),
		Pinned:      r.GetImage().GetPinned(),
		RepoTags:    r.GetImage().GetRepoTags(),
		RepoDigests: r.GetImage().GetRepoDigests(),
	}
	image.OS, image.Architecture, image.Variant = platform(r.GetInfo())
	return image, nil
}

// RemoveImage takes the image that ref means from the node, with every other name it has.
// An image that is gone is success.
func (c *Client) RemoveImage(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	if _, err := c.images.RemoveImage(ctx, &criv1.RemoveImageRequest{Image: &criv1.ImageSpec{Image: ref}}); err != nil {
		return fmt.Errorf("remove image %s: %w", ref, translate(err))
	}
	return nil
}

// platform reads the verbose answer, in which containerd and CRI-O give the OCI image
// configuration alike.
func platform(info map[string]string) (os, architecture, variant string) {
	var v struct {
		ImageSpec struct {
			OS           string `json:"os"`
			Architecture string `json:"architecture"`
			Variant      string `json:"variant"`
		} `json:"imageSpec"`
	}
	// Not JSON, or another runtime's: the platform stays unknown.
	if json.Unmarshal([]byte(info["info"]), &v) != nil {
		return "", "", ""
	}
	return v.ImageSpec.OS, v.ImageSpec.Architecture, v.ImageSpec.Variant
}

// imageID returns the one form of an image's id, or "" for what is not a bare digest. CRI-O
// leaves the algorithm out.
func imageID(id string) string {
	digest := strings.TrimPrefix(id, "sha256:")
	if len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "" {
		return ""
	}
	return "sha256:" + digest
}

// An ImageFS is the file system that holds the images.
type ImageFS struct {
	// Mountpoint is a folder on it, as a path on the host.
	Mountpoint string
	// UsedBytes is what the images on it occupy by the runtime's own count. containerd
	// renews it every 10 s and leaves compressed content out.
	UsedBytes uint64
}

// ImageFS returns where the runtime keeps images, and how much they occupy. With several
// snapshotters it is that of the default one.
func (c *Client) ImageFS(ctx context.Context) (ImageFS, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	r, err := c.images.ImageFsInfo(ctx, &criv1.ImageFsInfoRequest{})
	if err != nil {
		return ImageFS{}, fmt.Errorf("image file system: %w", translate(err))
	}
	if len(r.GetImageFilesystems()) == 0 {
		return ImageFS{}, fmt.Errorf("image file system: %w: the runtime names none", ErrSpaceUnknown)
	}
	fs := r.GetImageFilesystems()[0]
	return ImageFS{Mountpoint: fs.GetFsId().GetMountpoint(), UsedBytes: fs.GetUsedBytes().GetValue()}, nil
}

// FreeBytes returns the space that is left for images, or ErrSpaceUnknown.
//
// CRI tells use and not space, so this takes statfs of the image file system's folder below
// Config.HostRoot. In a DaemonSet, mount the runtime's data folder there at its own path,
// read-only and with mountPropagation HostToContainer: /var/lib/containerd (containerd),
// /var/lib/containers (CRI-O) or /var/lib/rancher (k3s), at /host/var/lib/containerd with
// HostRoot /host. A bind mount shares the host's superblock, so the figures are the host's
// own even though it is read-only. A folder that is not mounted is unknown; a parent of it
// is never measured instead, since that might be the container's own disk.
func (c *Client) FreeBytes(ctx context.Context) (uint64, error) {
	fs, err := c.ImageFS(ctx)
	if err != nil {
		return 0, err
	}
	seen, err := c.fileSystem(fs.Mountpoint)
	if err != nil {
		return 0, fmt.Errorf("free space for images: %w", err)
	}
	return seen.FreeBytes, nil
}

func (c *Client) fileSystem(mountpoint string) (FileSystem, error) {
	if c.cfg.HostRoot == "" || mountpoint == "" {
		return FileSystem{}, fmt.Errorf("%w: host file system not mounted", ErrSpaceUnknown)
	}
	fs, err := c.cfg.Statfs(filepath.Join(c.cfg.HostRoot, mountpoint))
	if err != nil {
		return FileSystem{}, fmt.Errorf("%w: %w", ErrSpaceUnknown, err)
	}
	return fs, nil
}
