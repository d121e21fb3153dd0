package cluster

import (
	"bytes"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
)

// patchServing applies a merge patch that names nothing but annotations to remove.
func (s *Server) patchServing(by caller, given *v1alpha1.ModelServing, data []byte) error {
	key := client.ObjectKeyFromObject(given)
	old, ok := s.Stored(ModelServing, key).(*v1alpha1.ModelServing)
	if !ok {
		return apierrors.NewNotFound(resource(ModelServing), key.Name)
	}
	var p struct {
		Metadata struct {
			UID             types.UID          `json:"uid"`
			ResourceVersion string             `json:"resourceVersion"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		panic("not simulated: " + string(data))
	}
	if err := precondition(old, p.Metadata.UID, p.Metadata.ResourceVersion); err != nil {
		return err
	}
	o := clone(old)
	annotations := o.GetAnnotations()
	for name, value := range p.Metadata.Annotations {
		if value != nil {
			panic("not simulated: " + string(data))
		}
		delete(annotations, name)
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
	w := Write{Verb: Update, Kind: ModelServing, Key: key, Old: old, New: o, Bound: p.Metadata.ResourceVersion != ""}
	if err := s.replace(by, w); err != nil {
		return err
	}
	copyInto(s.Stored(ModelServing, key), given)
	return nil
}
