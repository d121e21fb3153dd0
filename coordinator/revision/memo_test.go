package revision

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"pitstop.dev/api/v1alpha1"
)

func TestMemoGivesWhatReadingGives(t *testing.T) {
	var m Memo
	for _, memo := range []*Memo{nil, &m, &m} { // &m a second time: from what it keeps
		for _, letter := range []string{"a", "b"} {
			cr := revision(t, letter, 1)
			cr.Name, cr.UID = "same", "same"
			r, err := memo.Read(cr)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(saying(t, letter), r.Data); diff != "" {
				t.Errorf("%s (-want +got):\n%s", letter, diff)
			}
			if want := map[string]string{"engine": r.Data.RoleDigest("engine")}; cmp.Diff(want, r.Digests) != "" {
				t.Errorf("digests %v, want %v", r.Digests, want)
			}
			if _, err := memo.Read(&appsv1.ControllerRevision{}); !errors.Is(err, ErrUnreadable) {
				t.Errorf("nothing: %v", err)
			}
		}
	}
}

func TestMemoOfASpecEndsWithItsGeneration(t *testing.T) {
	ms := serving()
	ms.Spec.Template.Roles = []v1alpha1.Role{{Name: "a"}}
	var m Memo
	names := func() string {
		t.Helper()
		r, err := m.Project(ms)
		if err != nil {
			t.Fatal(err)
		}
		return r.Data.Roles[0].Name
	}
	var got []string
	for _, generation := range []int64{0, 0, 1, 1, 2} {
		ms.Generation = generation
		got = append(got, names())
		ms.Spec.Template.Roles[0].Name += "a" // the API server would raise the generation
	}
	want := []string{"a", "aa", "aaa", "aaa", "aaaaa"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
}

func TestMemoIsBoundedAndShared(t *testing.T) {
	var m Memo
	ms := serving()
	ms.Spec.Template.Roles = []v1alpha1.Role{{Name: "a"}}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			own := ms.DeepCopy()
			for own.Generation = 1; own.Generation < maxMemo+10; own.Generation++ {
				if _, err := m.Project(own); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if n := len(m.declared); n == 0 || n > maxMemo {
		t.Errorf("%d are kept", n)
	}
}
