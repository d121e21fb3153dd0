package admission

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"pitstop.dev/api/v1alpha1"
)

// Path is where the webhook for ModelServings is served.
const Path = "/validate-modelserving"

// Handler answers the API server's reviews of ModelServings.
func Handler(scheme *runtime.Scheme) *webhook.Admission {
	return admission.WithValidator[*v1alpha1.ModelServing](scheme, validator{})
}

// validator turns Validate's answer into that of a webhook.
type validator struct{}

func (validator) ValidateCreate(_ context.Context, ms *v1alpha1.ModelServing) (admission.Warnings, error) {
	warnings, errs := Validate(nil, ms)
	return warnings, invalid(ms, errs)
}

// ValidateUpdate lets pass what happens to an object that is being deleted.
func (validator) ValidateUpdate(_ context.Context, old, ms *v1alpha1.ModelServing) (admission.Warnings, error) {
	if ms.DeletionTimestamp != nil {
		return nil, nil
	}
	warnings, errs := Validate(old, ms)
	return warnings, invalid(ms, errs)
}

func (validator) ValidateDelete(context.Context, *v1alpha1.ModelServing) (admission.Warnings, error) {
	return nil, nil
}

func invalid(ms *v1alpha1.ModelServing, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	kind := v1alpha1.GroupVersion.WithKind("ModelServing").GroupKind()
	return apierrors.NewInvalid(kind, ms.Name, errs)
}
