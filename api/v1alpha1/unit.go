package v1alpha1

// Preparing reports whether the update only brings images to the nodes: the unit is in service, and counts
// as in no update.
func (u UnitUpdate) Preparing() bool {
	return u.Method == UnitInPlace && !u.Permit.Allows(PermitDrain)
}
