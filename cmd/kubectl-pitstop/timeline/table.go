package timeline

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"pitstop.dev/api/v1alpha1"
)

// Header are the columns of Row.
func Header() []string {
	return []string{"NAMESPACE", "POD", "STAGE", "FOR", "REASON", "ATTEMPT", "IMAGES", "OUT OF SERVICE", "NODE"}
}

// Row is one update as a line of the table.
func Row(u *v1alpha1.InPlaceUpdate, now time.Time) []string {
	stage, reason, since, out := "-", "-", "-", "-"
	if u.Status.Attempt == u.Spec.Attempt && u.Status.Stage != "" {
		stage = string(u.Status.Stage)
		if u.Status.Reason != "" {
			reason = string(u.Status.Reason)
		}
		if u.Status.StageSince != nil {
			since = duration.HumanDuration(max(0, now.Sub(u.Status.StageSince.Time)))
		}
		if t := u.Status.Timings; t != nil && t.OutOfService != nil {
			out = millis(*t.OutOfService)
		}
	}
	images := "-"
	if len(u.Spec.Containers) > 0 {
		var list []string
		for _, c := range u.Spec.Containers {
			list = append(list, c.Name+"="+c.Image)
		}
		images = strings.Join(list, ",")
	}
	return []string{u.Namespace, u.Name, stage, since, reason, fmt.Sprint(u.Spec.Attempt), images, out, u.Spec.NodeName}
}

// WriteTable writes the updates as a table, in the order given.
func WriteTable(w io.Writer, updates []*v1alpha1.InPlaceUpdate, now time.Time) error {
	table := printers.GetNewTabWriter(w)
	rows := [][]string{Header()}
	for _, u := range updates {
		rows = append(rows, Row(u, now))
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(table, printers.EscapeTerminal(strings.Join(row, "\t"))); err != nil {
			return err
		}
	}
	return table.Flush()
}
