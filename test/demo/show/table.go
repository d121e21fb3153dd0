package show

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/engine/load"
)

// A row is one updated Pod.
type row struct {
	name          string
	before, after portrait
	order         *v1alpha1.InPlaceUpdate
}

// table prints one column per Pod.
func (s *show) table(rows []row, requests load.Report) {
	w := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	line := func(name string, cell func(row) string) {
		cells := []string{"  " + name}
		for _, r := range rows {
			cells = append(cells, cell(r))
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_, _ = fmt.Fprintln(w)
	line("Pod", func(r row) string { return r.name })
	line("UID", func(r row) string { return kept(r.before.uid, r.after.uid) })
	line("IP", func(r row) string { return kept(r.before.ip, r.after.ip) })
	line("node", func(r row) string { return kept(r.before.node, r.after.node) })
	line("file in emptyDir", func(r row) string { return kept(r.before.file, r.after.file) })
	line("restart count", func(r row) string { return fmt.Sprintf("%d -> %d", r.before.restarts, r.after.restarts) })
	line("image", func(r row) string { return tag(r.before.image) + " -> " + tag(r.after.image) })
	line("image id", func(r row) string { return short(r.before.imageID) + " -> " + short(r.after.imageID) })
	for _, t := range timings() {
		line(t.name, func(r row) string { return ms(t.of(r.order.Status.Timings)) })
	}
	_ = w.Flush()
	s.say("  requests: %d sent, %d failed  (%s)", requests.Sent, requests.FailedTotal(), requests)
}

type timing struct {
	name string
	of   func(*v1alpha1.Timings) *int64
}

func timings() []timing {
	return []timing{
		{"prepare (in service)", func(t *v1alpha1.Timings) *int64 { return t.Prepare }},
		{"drain", func(t *v1alpha1.Timings) *int64 { return t.Drain }},
		{"stop", func(t *v1alpha1.Timings) *int64 { return t.Stop }},
		{"start", func(t *v1alpha1.Timings) *int64 { return t.Start }},
		{"load", func(t *v1alpha1.Timings) *int64 { return t.Load }},
		{"out of service", func(t *v1alpha1.Timings) *int64 { return t.OutOfService }},
	}
}

func ms(v *int64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%d ms", *v)
}

func kept(before, after string) string {
	if before == after {
		return short(before) + " (kept)"
	}
	return short(before) + " -> " + short(after) + " (CHANGED)"
}

func tag(image string) string { return image[strings.LastIndex(image, "/")+1:] }

// short cuts digests and ids down to what the eye compares.
func short(id string) string {
	if _, after, ok := strings.Cut(id, "://"); ok {
		id = after
	}
	if _, after, ok := strings.Cut(id, "@"); ok {
		id = after
	}
	id = strings.TrimPrefix(id, "sha256:")
	if len(id) > 15 && !strings.Contains(id, ".") {
		return id[:13]
	}
	return id
}
