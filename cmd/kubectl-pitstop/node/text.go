package node

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/gpu"
)

// stale is how old the agent's last word on a node may be before the view says so: twice its heartbeat.
const stale = 10 * time.Minute

// Text returns the view for people. What is not as it should be is marked with an exclamation mark.
func (v View) Text() string {
	var b strings.Builder
	v.head(&b)
	if v.GPUs != nil && len(v.GPUs.Devices) > 0 {
		b.WriteString("\n")
		write(&b, v.gpus())
		if !v.GPUs.ResidentsKnown {
			b.WriteString("  who holds memory is not known, or not all of it\n")
		}
	}
	if len(v.Pods) > 0 {
		b.WriteString("\n")
		write(&b, v.pods())
	}
	return printers.EscapeTerminal(b.String())
}

func (v View) head(b *strings.Builder) {
	fmt.Fprintf(b, "Node %s  %s", v.Node, v.Health.short(v.Now))
	if len(v.Offered) > 0 {
		fmt.Fprintf(b, "  offers %s", list(v.Offered))
	}
	if v.GPUs != nil && v.GPUs.Driver != "" {
		fmt.Fprintf(b, "  driver %s", v.GPUs.Driver)
	}
	b.WriteString("\n")
	h := v.Health
	for _, l := range v.health() {
		if l.text != "" {
			fmt.Fprintln(b, l.mark+l.text)
		}
	}
	if v.PluginProblem != "" {
		fmt.Fprintln(b, "! "+v.PluginProblem)
	}
	if h.Heard != nil && v.Now.Sub(*h.Heard) > stale {
		fmt.Fprintf(b, "! the agent said so %s ago, and nothing since\n", duration.HumanDuration(v.Now.Sub(*h.Heard)))
	}
	if !v.HasGPUs() {
		b.WriteString("  nothing is known of GPUs on this node\n")
	}
	if mark, text := releaseText(v.ReleaseUntil, v.Now); text != "" && !strings.HasSuffix(v.released(), v.ReleaseUntil) {
		fmt.Fprintln(b, mark+text)
	}
	if v.AgentProblem != "" {
		fmt.Fprintf(b, "! the agent could not be asked, so GPUs and who holds their memory are missing: %s\n", v.AgentProblem)
	}
	v.checks(b)
}

// A remark is a line of text with its mark.
type remark struct{ mark, text string }

// health says what the condition means, in the agent's words of now where it can be asked. What was False stays so until
// something is known; anything else that is older than the agent's word is left out.
func (v View) health() []remark {
	h, now := v.Health, v.AgentHealth
	message := h.Message
	if now != nil && !v.differs() {
		message = now.Message
	}
	released := v.released()
	if released != "" && h.Status != corev1.ConditionFalse && !v.differs() {
		if v.ReleaseUntil == "" {
			return []remark{{"  ", released}}
		}
		message = released
	}
	said := []remark{{mark(h.Status), message}, {"  ", h.Why}, {"  ", prefixed("what ends it: ", h.Way)}}
	if released != "" && released != message {
		said = append(said, remark{"  ", released})
	}
	if !v.differs() {
		return said
	}
	text := fmt.Sprintf("now the agent says %s (%s)", now.Status, now.Reason)
	if h.Status == corev1.ConditionFalse && now.Status == corev1.ConditionUnknown {
		return append(said, remark{"  ", text + "; what was False stays so until something is known"})
	}
	return []remark{
		{mark(now.Status), prefixed(text+", and the condition follows within half a minute: ", cmp.Or(now.Message, now.Why))},
		{"  ", prefixed("what ends it: ", now.Way)},
	}
}

// differs reports whether the condition is older than what the agent says.
func (v View) differs() bool {
	return v.AgentHealth != nil && (v.AgentHealth.Status != v.Health.Status || v.AgentHealth.Reason != v.Health.Reason)
}

// released says that the agent has let go of the driver, as far as is known; empty if it has not.
func (v View) released() string {
	switch {
	case v.GPUs != nil && v.GPUs.State != gpu.Released, v.GPUs == nil && v.Health.Reason != v1alpha1.GPUUnknownReleased:
		return ""
	case v.ReleaseUntil == "":
		return "the release of the driver was taken back: the agent takes it again within half a minute"
	case v.GPUs == nil:
		return v.Health.Message
	}
	return "the driver is released " + v.GPUs.Message
}

func (v View) checks(b *strings.Builder) {
	var fine []string
	for _, c := range v.Checks {
		if c.Status == states.OK {
			fine = append(fine, c.Name)
			continue
		}
		if v.told(c) {
			continue
		}
		fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf("! %s: %s: %s", c.Name, c.Status, c.Message), ": "))
	}
	if len(fine) > 0 {
		fmt.Fprintf(b, "  well: %s\n", strings.Join(fine, ", "))
	}
	if v.GPUs != nil && !v.GPUs.Missed.IsZero() {
		fmt.Fprintf(b, "  %s: some may be missing\n", deaf(*v.GPUs, v.Now))
	}
}

// told reports whether the outcome of a check is what the node's health says already.
func (v View) told(c states.Check) bool {
	reason := v.Health.Reason
	if v.AgentHealth != nil {
		reason = v.AgentHealth.Reason
	}
	return reason != "" && strings.HasPrefix(c.Message+": ", string(reason)+": ")
}

// rounds is how old a reading in which nobody listened may be before somebody has listened since: three rounds.
const rounds = 15 * time.Second

// deaf says when nobody listened for errors of the driver.
func deaf(g states.GPUs, now time.Time) string {
	ago := now.Sub(g.Missed)
	if g.State != gpu.Up || ago < rounds {
		return "nobody listens for errors of the driver now"
	}
	return fmt.Sprintf("until %s ago nobody listened for errors of the driver", duration.HumanDuration(ago))
}

// A line is a row of a table, or, with one cell, a remark.
type line struct {
	mark  string
	cells []string
}

func (v View) gpus() []line {
	lines := []line{{"  ", []string{"GPU", "UUID", "MEMORY", "HEALTHY", "POD", "HOLDS MEMORY"}}}
	for _, d := range v.GPUs.Devices {
		holders := make([]string, 0, len(d.Residents))
		for _, r := range d.Residents {
			holders = append(holders, holder(r))
		}
		if len(holders) == 0 {
			holders = []string{"-"}
		}
		row := []string{
			fmt.Sprint(d.Verdict.Index), d.Verdict.UUID, memory(d), string(d.Verdict.Status), or(strings.Join(d.Pods, " ")), holders[0],
		}
		lines = append(lines, line{mark(d.Verdict.Status), row})
		for _, more := range holders[1:] {
			lines = append(lines, line{"  ", []string{"", "", "", "", "", more}})
		}
		lines = append(lines, v.remarks(d)...)
	}
	return lines
}

// remarks are what there is to say about one GPU, and not said of the whole node.
func (v View) remarks(d states.Device) []line {
	var lines []line
	say := func(mark, text string) { lines = append(lines, line{mark, []string{"    " + text}}) }
	toldAbove := d.Verdict.Status == corev1.ConditionUnknown &&
		(v.released() != "" || d.Verdict.Message == "" && v.AgentHealth != nil && v.AgentHealth.Reason == d.Verdict.Reason)
	if d.Verdict.Status != corev1.ConditionTrue && !toldAbove {
		say(mark(d.Verdict.Status), strings.TrimSuffix(string(d.Verdict.Reason)+": "+d.Verdict.Message, ": "))
	}
	for _, n := range d.Verdict.Notes {
		say("  ", n)
	}
	for _, e := range d.Verdict.Errors {
		what := string(e.Kind)
		if e.XID != 0 {
			what = fmt.Sprintf("XID %d (%s)", e.XID, e.Class)
		}
		text := fmt.Sprintf("%s, %s %s", what, times(e.Count), e.Last.UTC().Format(time.RFC3339))
		if e.Expected {
			text += ", expected in an update"
		}
		say("  ", text)
	}
	return lines
}

func times(n int) string {
	if n == 1 {
		return "once,"
	}
	return fmt.Sprintf("%d times, last", n)
}

// holder says who holds memory, and how much. The driver may tell no PID, or that of a process that nobody finds any more.
func holder(r states.Resident) string {
	var who string
	switch owner := strings.Trim(r.Pod+" "+r.Container, " "); {
	case r.PID <= 0:
		return "a process whose PID the driver does not tell: " + size(r)
	case owner == "" && r.Name == "":
		who = fmt.Sprintf("process %d, which cannot be found:", r.PID)
	case owner == "":
		who = fmt.Sprintf("of no known Pod: %s (%d)", r.Name, r.PID)
	default:
		who = fmt.Sprintf("%s: %s (%d)", owner, or(r.Name), r.PID)
	}
	text := who + " " + size(r)
	if r.Doubt != "" {
		text += ", " + r.Doubt
	}
	return text
}

func size(r states.Resident) string {
	if r.UsedMiB < 0 {
		return "size unknown"
	}
	return fmt.Sprintf("%d MiB", r.UsedMiB)
}

func memory(d states.Device) string {
	if d.Memory == nil {
		return "unknown"
	}
	return fmt.Sprintf("%d/%d MiB", d.Memory.Used, d.Memory.Total)
}

func (v View) pods() []line {
	lines := []line{{"  ", []string{"POD", "ASKS FOR", "READY", "GPUS HEALTHY", "STAGE", "PLANNED", "CRASHED", "PEER", "RESTARTS", "HELD BY"}}}
	for _, p := range v.Pods {
		ready := map[bool]string{true: "yes", false: "no"}[p.Ready]
		health := or(strings.TrimSpace(string(p.Health.Status)))
		if p.Health.Status != "" && p.Health.Status != corev1.ConditionTrue {
			health += " (" + string(p.Health.Reason) + ")"
		}
		r := p.Restarts
		lines = append(lines, line{p.mark(), []string{
			p.Namespace + "/" + p.Name, list(p.Asks), ready, health, or(string(p.Stage)),
			fmt.Sprint(r.Planned), fmt.Sprint(r.Crashed), fmt.Sprint(r.Peer), fmt.Sprint(r.Total), or(strings.Join(p.Holders, ", ")),
		}})
		for _, n := range p.Notes {
			lines = append(lines, line{"! ", []string{"    " + n}})
		}
	}
	return lines
}

// mark is that of a Pod: a sick GPU, or an update that has failed.
func (p Pod) mark() string {
	if p.Stage == v1alpha1.StageFailed {
		return "! "
	}
	return mark(p.Health.Status)
}

// Table returns one line for each node.
func Table(views []View) string {
	lines := []line{{"  ", []string{"NODE", "OFFERS", "GPUS HEALTHY", "REASON", "FOR", "PODS", "MESSAGE"}}}
	for _, v := range views {
		since := "-"
		if v.Health.Since != nil {
			since = duration.HumanDuration(max(0, v.Now.Sub(*v.Health.Since)))
		}
		mark, offers, message := mark(v.Health.Status), or(list(v.Offered)), v.Health.Message
		if v.PluginProblem != "" {
			mark, offers, message = "! ", "none", strings.TrimPrefix(message+"; "+v.PluginProblem, "; ")
		}
		lines = append(lines, line{mark, []string{
			v.Node, offers, or(string(v.Health.Status)), or(string(v.Health.Reason)), since, fmt.Sprint(len(v.Pods)), message,
		}})
	}
	var b strings.Builder
	write(&b, lines)
	return printers.EscapeTerminal(b.String())
}

// write aligns the cells of the lines. One with a single cell is not part of the table.
func write(b *strings.Builder, lines []line) {
	widths := make([]int, len(lines[0].cells))
	for _, l := range lines {
		for i, c := range l.cells {
			if len(l.cells) > 1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(c))
			}
		}
	}
	for _, l := range lines {
		var row strings.Builder
		row.WriteString(l.mark)
		for i, c := range l.cells {
			row.WriteString(c)
			if len(l.cells) > 1 {
				row.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
			}
		}
		fmt.Fprintln(b, strings.TrimRight(row.String(), " "))
	}
}

func mark(s corev1.ConditionStatus) string {
	if s == corev1.ConditionFalse {
		return "! "
	}
	return "  "
}

func (h Health) short(now time.Time) string {
	if h.Status == "" {
		return "GPUHealthy is not reported"
	}
	text := "GPUHealthy=" + string(h.Status)
	if h.Since != nil {
		text += " " + duration.HumanDuration(max(0, now.Sub(*h.Since)))
	}
	return text + " (" + string(h.Reason) + ")"
}

func list(amounts []Amount) string {
	var texts []string
	for _, a := range amounts {
		texts = append(texts, fmt.Sprintf("%d %s", a.Count, a.Resource))
	}
	return strings.Join(texts, ", ")
}

func or(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
