package lab

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
)

// processes names all processes of the lab.
func (l *Lab) processes() []string {
	names := []string{imageRegistry, etcd, apiServer, kubeControllerManager, kubeScheduler, kubeProxy}
	for _, n := range l.Nodes() {
		names = append(names, n.process("mounts"), n.process("containerd"), n.process("kubelet"))
	}
	return names
}

// Status prints one line for each process of the lab and returns an error unless all run
// and the nodes are Ready.
func Status(ctx context.Context, c Config, out io.Writer) error {
	l, err := Open(ctx, c)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	dead := 0
	for _, name := range l.processes() {
		r, ok := l.group.Running(name)
		if !ok {
			dead++
			_, _ = fmt.Fprintf(w, "%s\tstopped\t%s\n", name, l.group.Log(name))
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\trunning (%d)\t%s\n", name, r.PID, l.group.Log(name))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if dead > 0 {
		return fmt.Errorf("%d processes do not run; lab up starts them again", dead)
	}
	if err := l.nodesReady(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%d nodes Ready; kubectl --kubeconfig %s\n", len(l.state.Nodes), l.KubeconfigPath())
	return nil
}
