// Package v1alpha1 holds the API of Pitstop: the orders that the coordinator or an operator
// gives, the reports that come back, and the closed lists of words that both use. It imports
// apimachinery and k8s.io/api only.
//
// +kubebuilder:object:generate=true
// +groupName=pitstop.dev
package v1alpha1
