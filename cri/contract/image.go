package contract

import (
	"context"
	"runtime"
	"slices"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/cri"
)

func pulled(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "pulled:v1", Content: "pulled"})
	if image.OS != "linux" || image.Architecture != runtime.GOARCH || image.ID == "" || image.Size == 0 ||
		!slices.Contains(image.RepoTags, ref) || len(image.RepoDigests) == 0 {
		t.Errorf("image of %s: %+v", ref, image)
	}
	if err := b.client.Pull(t.Context(), ref, func(cri.Progress) {}); err != nil {
		t.Errorf("second pull: %v", err)
	}
	again, err := b.client.Image(t.Context(), image.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(image, again); diff != "" {
		t.Errorf("by id (-by reference +by id):\n%s", diff)
	}
}

func notThere(b *bench) {
	t := b.t
	ref := b.Publish(t, Image{Name: "there:v1", Content: "there"})
	want(t, b.client.Pull(t.Context(), ref+"-typo", nil), cri.ErrImageNotFound)
	want(t, b.client.Pull(t.Context(), ref[:len(ref)-len("there:v1")]+"unauthorized/not-there:v1", nil), cri.ErrImageNotFound)
	_, err := b.client.Image(t.Context(), ref)
	want(t, err, cri.ErrImageNotFound)
}

func nowhere(b *bench) {
	t := b.t
	ref := b.Publish(t, Image{Name: "nowhere:v1", Content: "nowhere", Platform: Nowhere})
	want(t, b.client.Pull(t.Context(), ref, nil), cri.ErrWrongPlatform)
}

func foreign(b *bench) {
	t := b.t
	ref, image := b.pull(Image{Name: "foreign:v1", Content: "foreign", Platform: Foreign})
	want(t, image.Check(runtime.GOARCH), cri.ErrWrongPlatform)
	if image.OS != "linux" || image.Architecture != "s390x" {
		t.Errorf("platform of %s: %s/%s", ref, image.OS, image.Architecture)
	}
	_, own := b.pull(Image{Name: "foreign:v2", Content: "own"})
	if err := own.Check(runtime.GOARCH); err != nil {
		t.Error(err)
	}
}

func registryDown(b *bench) {
	t := b.t
	ref := b.Publish(t, Image{Name: "down:v1", Content: "down"})
	b.RegistryDown(t)
	want(t, b.client.Pull(t.Context(), ref, nil), cri.ErrRegistryUnreachable)
	b.RegistryUp(t)
	if err := b.client.Pull(t.Context(), ref, nil); err != nil {
		t.Errorf("pull with the registry up again: %v", err)
	}
}

func private(b *bench) {
	t := b.t
	ref := b.Publish(t, Image{Name: "private:v1", Content: "private", Private: true})
	want(t, b.client.Pull(t.Context(), ref, nil), cri.ErrUnauthorized)
}

func alias(b *bench) {
	t := b.t
	one, first := b.pull(Image{Name: "alias:v1", Content: "same"})
	two, second := b.pull(Image{Name: "alias:v1-alias", Content: "same"})
	_, third := b.pull(Image{Name: "alias:v2", Content: "another"})
	if first.ID != second.ID || first.ID == third.ID {
		t.Errorf("ids %s, %s (alias), %s (another)", first.ID, second.ID, third.ID)
	}
	if !slices.Contains(second.RepoTags, one) || !slices.Contains(second.RepoTags, two) {
		t.Errorf("tags %v, want %s and %s", second.RepoTags, one, two)
	}
}

func removed(b *bench) {
	t := b.t
	one, _ := b.pull(Image{Name: "removed:v1", Content: "removed"})
	two, _ := b.pull(Image{Name: "removed:v1-alias", Content: "removed"})
	for range 2 {
		if err := b.client.RemoveImage(t.Context(), two); err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range []string{one, two} {
		_, err := b.client.Image(t.Context(), ref)
		want(t, err, cri.ErrImageNotFound)
	}
}

func pullCancelled(b *bench) {
	t := b.t
	ref := b.Publish(t, Image{Name: "cancelled:v1", Content: "cancelled"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, b.client.Pull(ctx, ref, func(cri.Progress) {}), context.Canceled)
}

func space(b *bench) {
	t := b.t
	fs, err := b.client.ImageFS(t.Context())
	if err != nil || fs.Mountpoint == "" {
		t.Errorf("ImageFS() = %+v, %v", fs, err)
	}
	if free, err := b.client.FreeBytes(t.Context()); err != nil || free == 0 {
		t.Errorf("FreeBytes() = %d, %v", free, err)
	}
}
