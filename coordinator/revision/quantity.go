package revision

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// spellList gives every quantity of the list its one spelling. It rounds as the server does.
func spellList(list corev1.ResourceList) {
	for name, q := range list {
		q = q.DeepCopy()
		q.RoundUp(resource.Milli)
		list[name] = spell(q)
	}
}

// spell returns the value in its shorter spelling, decimal where both are as long: 64Gi, 2, 200m.
// A quantity as such remembers how it was written: 1Gi and 1073741824 are equal and print differently.
func spell(q resource.Quantity) resource.Quantity {
	q = q.DeepCopy()
	value := *q.AsDec()
	decimal := resource.NewDecimalQuantity(value, resource.DecimalSI)
	binary := resource.NewDecimalQuantity(value, resource.BinarySI)
	if len(binary.String()) < len(decimal.String()) {
		return *binary
	}
	return *decimal
}
