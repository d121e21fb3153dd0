package v1alpha1

// Preparing reports whether the update has not taken the unit out of service: it only brings images to the
// nodes, or waits until it may begin. The unit counts as in no update.
func (u UnitUpdate) Preparing() bool {
	return u.Method != UnitRemove && u.Permit == PermitPrepare
}

// Recreates reports whether the unit's Pods are created anew although they are at the target: a person asked
// for it.
func (u UnitUpdate) Recreates() bool { return u.asked(VerbRecreate) }

// Cancelled reports whether a person took an attempt back, and this one leads back or waits.
func (u UnitUpdate) Cancelled() bool { return u.asked(VerbCancel) }

func (u UnitUpdate) asked(v Verb) bool { return u.Request != nil && u.Request.Verb == v }
