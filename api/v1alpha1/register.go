package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every type in this package.
const GroupName = "pitstop.dev"

var (
	// GroupVersion is the group and version of every type in this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// InPlaceUpdates is the resource under which InPlaceUpdate objects are served.
	InPlaceUpdates = GroupVersion.WithResource("inplaceupdates")

	// ModelServings is the resource under which ModelServing objects are served.
	ModelServings = GroupVersion.WithResource("modelservings")

	// ServingGroups is the resource under which ServingGroup objects are served.
	ServingGroups = GroupVersion.WithResource("servinggroups")

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&InPlaceUpdate{}, &InPlaceUpdateList{},
		&ModelServing{}, &ModelServingList{},
		&ServingGroup{}, &ServingGroupList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
