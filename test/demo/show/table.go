package show

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"pitstop.dev/api/v1alpha1"
)

// A row is one updated Pod.
type row struct {
	name          string
	before, after portrait
	order         *v1alpha1.InPlaceUpdate
}

// table prints one line per Pod.
func (s *show) table(rows []row) {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\n  POD\tUID\tIP\tNODE\tFILE IN EMPTYDIR\tRESTARTS\tIMAGE\tIMAGE ID\tPREPARE\tDRAIN\tSTOP\tSTART\tLOAD\tOUT OF SERVICE")
	for _, r := range rows {
		b, a, t := r.before, r.after, r.order.Status.Timings
		if t == nil {
			t = &v1alpha1.Timings{}
		}
		cells := []string{
			"  " + r.name, kept(b.uid, a.uid), kept(b.ip, a.ip), kept(b.node, a.node), kept(b.file, a.file),
			fmt.Sprintf("%d -> %d", b.restarts, a.restarts), tag(b.image) + " -> " + tag(a.image), short(b.imageID) + " -> " + short(a.imageID),
			ms(t.Prepare), ms(t.Drain), ms(t.Stop), ms(t.Start), ms(t.Load), ms(t.OutOfService),
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	if len(rows) > 0 {
		s.say(outOfService, rows[0].order.Spec.Propagation())
	}
}

// outOfService says why the last column is more than the sum of those before it.
const outOfService = `  OUT OF SERVICE is from kubelet's word that the Pod is not Ready until it is Ready again. Besides the stages these are %v for
  Services and routers to follow, and what a group does together: prefill is drained before decode, all images change at
  once, and no Pod opens before the last. The other groups serve meanwhile.`

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
