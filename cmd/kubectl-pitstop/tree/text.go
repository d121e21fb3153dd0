package tree

import (
	"fmt"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"pitstop.dev/api/v1alpha1"
)

// lineWidth is where what a controller says is cut: the whole of it is in the JSON form, and in
// explain.
const lineWidth = 110

// columns are the cells of a row that are aligned.
const columns = 4

// A row is one line of the tree: aligned cells and free text, or a remark on the row above.
type row struct {
	mark   Mark
	cells  [columns]string
	state  string
	remark string // if set, the row is cells[0] and this
}

// Text returns the tree for people.
func (t Tree) Text() string {
	var b strings.Builder
	t.head(&b)
	rows := []row{{cells: [columns]string{"NAME", "REVISION", "READY", "NODE"}, state: "STATE"}}
	for _, g := range t.Groups {
		rows = append(rows, t.group(g)...)
	}
	if len(t.Groups) > 0 {
		b.WriteString("\n")
		write(&b, rows)
	}
	for _, name := range t.Foreign {
		fmt.Fprintf(&b, "pod %s has the labels of this ModelServing and belongs to none of its groups: not counted, not touched\n", printers.EscapeTerminal(name))
	}
	if t.Mark != Fine {
		fmt.Fprintf(&b, "\n~ under way  ! not as it should be; what is waited for: kubectl pitstop explain modelserving/%s -n %s\n", t.ModelServing, t.Namespace)
	}
	return b.String()
}

func (t Tree) head(b *strings.Builder) {
	fmt.Fprintf(b, "ModelServing %s/%s", t.Namespace, t.ModelServing)
	if t.Target != "" {
		fmt.Fprintf(b, "  target %s", short(t.Target))
	}
	if t.Current != t.Target {
		fmt.Fprintf(b, "  current %s", short(t.Current))
	}
	if t.Paused {
		b.WriteString("  paused")
	}
	r := t.Replicas
	fmt.Fprintf(b, "\n%d groups declared: %d live, %d ready, %d available, %d updated\n", r.Declared, r.Live, r.Ready, r.Available, r.Updated)
	if !t.Observed {
		b.WriteString("~ the coordinator has not yet taken up the latest change of the spec\n")
	}
	for _, c := range t.Conditions {
		mark, bad := "  ", c.Type == v1alpha1.ConditionBlocked && c.Status == metav1.ConditionTrue ||
			c.Type == v1alpha1.ConditionAvailable && c.Status != metav1.ConditionTrue
		if bad {
			mark = "! "
		}
		if bad || c.Type == v1alpha1.ConditionProgressing {
			line := fmt.Sprintf("%s=%s %s (%s): %s", c.Type, c.Status, ago(t.Now.Time, &c.LastTransitionTime), c.Reason, c.Message)
			fmt.Fprintf(b, "%s%s\n", mark, cut(line, 0))
		}
	}
}

func (t Tree) group(g Group) []row {
	rows := []row{t.unit(g.Unit, g.Name)}
	if g.Message != "" {
		rows = append(rows, row{cells: [columns]string{"│  "}, remark: g.Message})
	}
	for n, i := range g.Instances {
		branch, below := "├─ ", "│  "
		if n == len(g.Instances)-1 {
			branch, below = "└─ ", "   "
		}
		rows = append(rows, t.unit(i.Unit, branch+i.Name))
		if i.Message != "" {
			rows = append(rows, row{cells: [columns]string{below + "│  "}, remark: i.Message})
		}
		for m, p := range i.Pods {
			branch := "├─ "
			if m == len(i.Pods)-1 {
				branch = "└─ "
			}
			rows = append(rows, t.pod(p, below+branch+p.Name))
		}
	}
	return rows
}

func (t Tree) unit(u Unit, name string) row {
	revision := short(u.Revision)
	if u.Outdated {
		revision += " old"
	}
	return row{mark: u.Mark, cells: [columns]string{name, revision, fmt.Sprintf("%d/%d", u.ReadyPods, u.ExpectedPods), ""}, state: u.State}
}

func (t Tree) pod(p Pod, name string) row {
	ready := "no"
	if p.Ready {
		ready = "yes"
	}
	return row{mark: p.Mark, cells: [columns]string{name, short(p.Revision), ready, p.Node}, state: p.State}
}

func write(b *strings.Builder, rows []row) {
	var widths [columns]int
	for _, r := range rows {
		for i, c := range r.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for _, r := range rows {
		line := map[Mark]string{Fine: "  ", UnderWay: "~ ", Wrong: "! "}[r.mark]
		if r.remark != "" {
			fmt.Fprintln(b, line+r.cells[0]+cut(r.remark, utf8.RuneCountInString(line+r.cells[0])))
			continue
		}
		for i, c := range r.cells {
			line += c + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2)
		}
		fmt.Fprintln(b, strings.TrimRight(printers.EscapeTerminal(line+r.state), " "))
	}
}

// cut shortens text so that it ends at lineWidth if it starts at a column.
func cut(text string, column int) string {
	text = strings.Join(strings.Fields(printers.EscapeTerminal(text)), " ")
	if runes := []rune(text); len(runes) > lineWidth-column {
		return string(runes[:lineWidth-column-1]) + "…"
	}
	return text
}
