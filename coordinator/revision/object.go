package revision

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"pitstop.dev/api/v1alpha1"
)

// maxName is what MS.status, SG.spec and a label take.
const maxName = 63

// hashLength makes two revisions of one name rare; Decide copes with those.
const hashLength = 10

// New returns the object that holds the data, owned by the ModelServing. Under one collisionCount the
// same data has the same name.
func New(ms *v1alpha1.ModelServing, data Data, number int64, collisionCount int32) (*appsv1.ControllerRevision, error) {
	raw, err := data.Encode()
	if err != nil {
		return nil, fmt.Errorf("revision of %s: %w", ms.Name, err)
	}
	cr := build(ms, raw, collisionCount)
	cr.Revision = number
	return cr, nil
}

func build(ms *v1alpha1.ModelServing, data []byte, collisionCount int32) *appsv1.ControllerRevision {
	sum := hash(data, collisionCount)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ms.Namespace,
			Name:      name(ms.Name, sum),
			Labels: map[string]string{
				v1alpha1.LabelModelServing:            ms.Name,
				appsv1.ControllerRevisionHashLabelKey: sum,
			},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(ms, v1alpha1.GroupVersion.WithKind("ModelServing")),
			},
		},
		Data: runtime.RawExtension{Raw: data},
	}
}

// hash is salted by the count, so that a name which is taken is left for another.
func hash(data []byte, collisionCount int32) string {
	if collisionCount > 0 {
		data = fmt.Appendf(slices.Clone(data), "/%d", collisionCount)
	}
	return digest(data)[:hashLength]
}

// name starts with as much of the ModelServing's name as fits.
func name(ms, hash string) string {
	prefix := ms[:min(len(ms), maxName-1-len(hash))]
	return strings.TrimRight(prefix, "-.") + "-" + hash
}
