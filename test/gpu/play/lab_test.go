//go:build lab

package play

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"pitstop.dev/cmd/kubectl-pitstop/verb"
	"pitstop.dev/test/lab"
	"pitstop.dev/test/lab/await"
)

// A watcher tells once something was written to it.
type watcher struct {
	word string
	seen chan struct{}
}

func (w *watcher) Write(p []byte) (int, error) {
	_, _ = os.Stderr.Write(p)
	if w.seen != nil && strings.Contains(string(p), w.word) {
		close(w.seen)
		w.seen = nil
	}
	return len(p), nil
}

// TestASessionOfTheHandbook is what docs/development.md has a newcomer do.
func TestASessionOfTheHandbook(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	told, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(ctx, &watcher{word: "Ctrl-C", seen: told}) }()
	select {
	case <-told:
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	}
	if err := Run(ctx, os.Stderr); err == nil || !strings.Contains(err.Error(), "somebody else holds GPUs") {
		t.Errorf("a second one: %v", err)
	}
	l, err := lab.Open(ctx, lab.Config{})
	if err != nil {
		t.Fatal(err)
	}
	first, last := l.Nodes()[0].Name, l.Nodes()[len(l.Nodes())-1].Name
	shows := func(words ...string) {
		t.Helper()
		var out string
		err := await.Until(ctx, "the plugin's word", time.Minute, func(ctx context.Context) error {
			out = node(ctx, t, l, words[0])
			for _, w := range words[1:] {
				w, absent := strings.CutPrefix(w, "no ")
				if strings.Contains(out, w) == absent {
					return fmt.Errorf("it says %q: %t", w, absent)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		t.Log(out)
	}
	gpus := func(node string) GPUs {
		t.Helper()
		g, err := On(l, node)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	shows(first, Engine, "61440 MiB")
	if err := gpus(first).XID(ctx, 0, 79); err != nil {
		t.Fatal(err)
	}
	shows(first, "GPUHealthy=False", "FatalXID", "XID 79")
	if err := gpus(last).Recovery(ctx, 1, "reset"); err != nil {
		t.Fatal(err)
	}
	shows(last, "GPUHealthy=False", "RecoveryRequired")
	if err := gpus(last).Recovery(ctx, 1, "none"); err != nil {
		t.Fatal(err)
	}
	shows(last, "GPUHealthy=True", "no RecoveryRequired")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := On(l, first); err == nil {
		t.Error("the GPUs are there after the end")
	}
}

func node(ctx context.Context, t *testing.T, l *lab.Lab, name string) string {
	t.Helper()
	streams, _, out, errs := genericiooptions.NewTestIOStreams()
	args := []string{"node", name, "--kubeconfig", l.KubeconfigPath()}
	if code := verb.Execute(ctx, args, verb.Env{Streams: streams, Clock: clock.RealClock{}, Version: "test", Connect: verb.Connect}); code != 0 {
		t.Errorf("kubectl pitstop node %s: exit code %d: %s", name, code, errs)
	}
	return out.String()
}
