package timeline

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"pitstop.dev/api/v1alpha1"
)

// Summary returns what came of the attempt that u is at: the containers before and after, and
// how long each step took. Steps that were not reached are left out.
func Summary(u *v1alpha1.InPlaceUpdate) string {
	var b strings.Builder
	if u.Status.Attempt != u.Spec.Attempt {
		return ""
	}
	for _, c := range u.Status.Containers {
		fmt.Fprintf(&b, "container %s: %s%s\n", c.Name, images(c), restarts(c))
	}
	for _, g := range u.Status.GPUs {
		fmt.Fprintf(&b, "gpu %s: %s before, %s after%s\n", g.UUID, mib(g.Before), mib(g.After), verdict(g.Verdict))
	}
	if u.Status.RequestsCut != nil && *u.Status.RequestsCut > 0 {
		fmt.Fprintf(&b, "requests cut at the drain timeout: %d\n", *u.Status.RequestsCut)
	}
	if t := durations(u.Status.Timings); t != "" {
		fmt.Fprintln(&b, t)
	}
	return printers.EscapeTerminal(b.String())
}

func images(c v1alpha1.ContainerReport) string {
	switch {
	case c.Before == nil && c.After == nil:
		return "not recorded"
	case c.After == nil || c.Before != nil && c.Before.ContainerID == c.After.ContainerID:
		return c.Before.Image + " (same container)"
	case c.Before == nil:
		return c.After.Image
	}
	return c.Before.Image + " -> " + c.After.Image
}

func restarts(c v1alpha1.ContainerReport) string {
	var parts []string
	for _, n := range []struct {
		count int32
		what  string
	}{{c.Planned, "planned"}, {c.Crashes, "crashed"}, {c.Peer, "by itself"}} {
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; restarts: " + strings.Join(parts, ", ")
}

func durations(t *v1alpha1.Timings) string {
	if t == nil {
		return ""
	}
	var parts []string
	for _, step := range []struct {
		name string
		ms   *int64
	}{
		{"prepare", t.Prepare},
		{"drain", t.Drain},
		{"stop", t.Stop},
		{"start", t.Start},
		{"load", t.Load},
		{"out of service", t.OutOfService},
	} {
		if step.ms != nil {
			parts = append(parts, step.name+" "+millis(*step.ms))
		}
	}
	return strings.Join(parts, ", ")
}

func millis(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func mib(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprintf("%d MiB", *n)
}

func verdict(v v1alpha1.Verdict) string {
	if v == "" {
		return ""
	}
	return " (" + string(v) + ")"
}
