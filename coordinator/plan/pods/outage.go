package pods

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/api/v1alpha1"
)

// outage keeps since when the unit has been out of service in its open update, over all of its attempts, and
// tells how long that was once it is back. Both stand in one write of the status, so that whoever makes it
// tells, and nobody else.
func (d *decision) outage(u *v1alpha1.UnitUpdate, now *v1alpha1.UnitUpdateStatus) {
	since := d.stages[u.Unit].OutSince
	switch {
	case now.Stage == v1alpha1.UnitInService:
		if since != nil {
			d.plan.Outages = append(d.plan.Outages, max(0, d.s.Now.Sub(since.Time)))
		}
	case since != nil:
		now.OutSince = since
	case u.Permit.Allows(v1alpha1.PermitDrain) && !d.serves(d.members(u)):
		now.OutSince = new(metav1.NewMicroTime(d.s.Now.Truncate(time.Microsecond))) // as the API stores it
	}
}

// serves reports whether every Pod of the unit is in traffic.
func (d *decision) serves(members []*instance) bool {
	for _, i := range members {
		if len(i.missing()) > 0 {
			return false
		}
	}
	_, out := firstPod(members, func(_ *instance, p Pod) bool { return !p.Ready || p.Deleting })
	return !out
}
