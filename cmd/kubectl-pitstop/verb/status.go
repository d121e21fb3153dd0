package verb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/order"
	"pitstop.dev/cmd/kubectl-pitstop/timeline"
)

// statusFlags are the flags of status.
type statusFlags struct {
	watch  bool
	all    bool
	format format
}

func newStatus(c *cli) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [POD]",
		Short: "Show where updates stand",
		Long:  "Show where updates stand: one Pod's, those of the namespace, or all. With --watch the stages of one Pod, or the table, follow until interrupted.",
		Args:  cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "follow the updates until interrupted")
	cmd.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "updates of all namespaces")
	addOutputFlag(cmd, &f.format)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		switch {
		case f.all && len(args) > 0:
			return usagef("a Pod's name and --all-namespaces exclude each other")
		case f.watch:
			return c.watchStatus(ctx, cl, f, args)
		case len(args) == 0:
			return c.listStatus(ctx, cl, f)
		}
		return c.podStatus(ctx, cl, args[0], f.format)
	})
	return cmd
}

func (c *cli) podStatus(ctx context.Context, cl *cluster, name string, f format) error {
	u, err := cl.update(ctx, name)
	if err != nil {
		return err
	}
	if u == nil {
		return noUpdate(cl.namespace, name)
	}
	if f == formatJSON {
		return printJSON(c.Streams.Out, u)
	}
	if err := timeline.WriteTable(c.Streams.Out, []*v1alpha1.InPlaceUpdate{u}, c.Clock.Now()); err != nil {
		return err
	}
	if u.Status.Message != "" && u.Status.Attempt == u.Spec.Attempt {
		fmt.Fprintln(c.Streams.Out, u.Status.Message)
	}
	_, err = fmt.Fprint(c.Streams.Out, timeline.Summary(u))
	return err
}

func (c *cli) listStatus(ctx context.Context, cl *cluster, f statusFlags) error {
	list, err := cl.updates(ctx, f.namespace(cl))
	if err != nil {
		return err
	}
	slices.SortFunc(list, byName)
	switch {
	case f.format == formatJSON:
		return printJSON(c.Streams.Out, listOf(list))
	case len(list) == 0:
		fmt.Fprintln(c.Streams.ErrOut, "no in-place updates found")
		return nil
	}
	return timeline.WriteTable(c.Streams.Out, list, c.Clock.Now())
}

// watchStatus follows until it is interrupted, which is its good end.
func (c *cli) watchStatus(ctx context.Context, cl *cluster, f statusFlags, args []string) error {
	s := selection{namespace: f.namespace(cl)}
	var v viewer = &tableView{screen: newScreen(c.Streams.Out), clock: c.Clock, known: map[string]*v1alpha1.InPlaceUpdate{}}
	if len(args) > 0 {
		s.name = args[0]
		u, err := cl.update(ctx, s.name)
		if err != nil {
			return err
		}
		if u == nil {
			return noUpdate(cl.namespace, s.name)
		}
		v = &stagesView{screen: newScreen(c.Streams.Out), clock: c.Clock}
	} else if _, err := cl.updates(ctx, s.namespace); err != nil { // says what a watch would only log
		return err
	}
	if f.format == formatJSON {
		v = &jsonView{cli: c}
	}
	err := cl.follow(ctx, c.Clock, s, v)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (f statusFlags) namespace(cl *cluster) string {
	if f.all {
		return ""
	}
	return cl.namespace
}

func noUpdate(namespace, name string) error {
	return &order.RefusalError{
		Object: fmt.Sprintf("pod %s/%s", namespace, name),
		Why:    "has no in-place update",
		Way:    "`kubectl pitstop explain " + name + "` says whether it is in service",
	}
}

func byName(a, b *v1alpha1.InPlaceUpdate) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func listOf(updates []*v1alpha1.InPlaceUpdate) *v1alpha1.InPlaceUpdateList {
	list := &v1alpha1.InPlaceUpdateList{Items: []v1alpha1.InPlaceUpdate{}}
	list.APIVersion, list.Kind = v1alpha1.GroupVersion.String(), "InPlaceUpdateList"
	for _, u := range updates {
		list.Items = append(list.Items, *u)
	}
	return list
}

// A stagesView shows one Pod's stages, attempt after attempt.
type stagesView struct {
	screen *screen
	clock  clock.Clock
	line   timeline.Timeline
	last   *v1alpha1.InPlaceUpdate
}

func (v *stagesView) changed(u *v1alpha1.InPlaceUpdate) (bool, error) {
	was := v.last
	v.last = u
	lines := v.line.Observe(u, v.clock.Now())
	if ended(u) && (was == nil || !ended(was) || was.Spec.Attempt != u.Spec.Attempt) {
		for l := range strings.Lines(timeline.Summary(u)) {
			lines = append(lines, strings.TrimSuffix(l, "\n"))
		}
	}
	v.screen.print(lines...)
	return false, nil
}

func (v *stagesView) gone(u *v1alpha1.InPlaceUpdate) (bool, error) {
	v.screen.print(fmt.Sprintf("the update of pod %s/%s is gone, with its Pod or by hand", u.Namespace, u.Name))
	v.last, v.line = nil, timeline.Timeline{}
	return false, nil
}

func (v *stagesView) tick() {
	if v.last != nil && !ended(v.last) {
		v.screen.draw(v.line.Live(v.clock.Now()))
	}
}

func ended(u *v1alpha1.InPlaceUpdate) bool {
	return u.Status.Attempt == u.Spec.Attempt && u.Status.Stage.Ended()
}

// A tableView redraws the table on a terminal. Elsewhere it adds a row for every change.
type tableView struct {
	screen *screen
	clock  clock.Clock
	known  map[string]*v1alpha1.InPlaceUpdate
	headed bool
}

func (v *tableView) changed(u *v1alpha1.InPlaceUpdate) (bool, error) {
	key := u.Namespace + "/" + u.Name
	was := v.known[key]
	v.known[key] = u
	if v.screen.width > 0 {
		v.tick()
		return false, nil
	}
	if !v.headed {
		v.headed = true
		v.screen.print(strings.Join(timeline.Header(), "\t"))
	}
	row := timeline.Row(u, v.clock.Now())
	if was == nil || was.Spec.Attempt != u.Spec.Attempt || was.Status.Stage != u.Status.Stage || was.Status.Reason != u.Status.Reason {
		v.screen.print(strings.Join(row, "\t"))
	}
	return false, nil
}

func (v *tableView) gone(u *v1alpha1.InPlaceUpdate) (bool, error) {
	delete(v.known, u.Namespace+"/"+u.Name)
	v.tick()
	return false, nil
}

func (v *tableView) tick() {
	var b strings.Builder
	list := slices.SortedFunc(maps.Values(v.known), byName)
	if timeline.WriteTable(&b, list, v.clock.Now()) == nil {
		v.screen.draw(strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")...)
	}
}

// A jsonView prints every state as an object.
type jsonView struct{ cli *cli }

func (v *jsonView) changed(u *v1alpha1.InPlaceUpdate) (bool, error) {
	return false, printJSON(v.cli.Streams.Out, u)
}

func (v *jsonView) gone(*v1alpha1.InPlaceUpdate) (bool, error) { return false, nil }

func (v *jsonView) tick() {}
