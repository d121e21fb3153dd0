package health

import (
	"fmt"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// skew is how much the clocks of the node and of whoever asks may differ.
const skew = 30 * time.Second

const (
	// mostAhead is how far ahead the end of a release may be.
	mostAhead = v1alpha1.MostGPURelease + skew
	// mostValue is what is looked at of an annotation, in bytes. No time is as long.
	mostValue = 100
	isPast    = "is past"
)

// A Release is what becomes of the annotation that asks for the release of the driver.
type Release struct {
	// Value is that of the annotation; empty: there is none.
	Value string `json:"value,omitempty"`
	// Until is when the release ends; zero: the driver is not to be released.
	Until time.Time `json:"until,omitzero"`
	// Ignored says why the annotation is not followed; empty: it is, or has been.
	Ignored string `json:"ignored,omitempty"`
}

// decide judges the annotation of the Node. r is what was decided last: a time that was too far ahead does not
// become good by waiting, and one that was followed is no mistake once it is past.
func (r Release) decide(value string, now time.Time) Release {
	value = value[:min(len(value), mostValue)]
	next := Release{Value: value}
	if value == "" {
		return next
	}
	until, err := time.Parse(time.RFC3339, value)
	same := r.Value == value
	switch {
	case err != nil:
		next.Ignored = "is not a time as RFC 3339"
	case same && r.Ignored != "":
		next.Ignored = r.Ignored
	case !until.After(now) && same:
	case !until.After(now):
		next.Ignored = isPast
	case until.Sub(now) > mostAhead:
		next.Ignored = fmt.Sprintf("is more than %s ahead", v1alpha1.MostGPURelease)
	default:
		next.Until = until
	}
	return next
}

// first judges the annotation that an agent finds when it starts: a time that is past then is no mistake, but over.
func (r Release) first(value string, now time.Time) Release {
	next := r.decide(value, now)
	if next.Ignored == isPast {
		next.Ignored = ""
	}
	return next
}

// words is what the Node's condition says of an annotation that is not followed.
func (r Release) words() string {
	if r.Ignored == "" {
		return ""
	}
	value := r.Value
	if len(value) > 40 {
		value = value[:40] + "..."
	}
	return fmt.Sprintf("ignored %s: %q %s", v1alpha1.AnnotationGPURelease, value, r.Ignored)
}
