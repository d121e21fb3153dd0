package verb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/verb"
)

func TestStatus(t *testing.T) {
	u := because(ordered(2, v1alpha1.StageDrained), v1alpha1.WaitingKubelet, "kubelet has not yet acted")
	b := newBench(t, u)
	header := "NAMESPACE   POD        STAGE     FOR   REASON              ATTEMPT   IMAGES               OUT OF SERVICE   NODE\n"
	row := "ns          engine-0   Drained   0s    KubeletRestarting   2         engine=r/engine:v2   -                node-a\n"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "engine-0"}, header + row + "kubelet has not yet acted\n"},
		{[]string{"status"}, header + row},
		{[]string{"status", "-A"}, header + row},
	} {
		b.want(t, b.run(t.Context(), tt.args...), 0)
		if diff := cmp.Diff(tt.want, b.out.String()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.args, diff)
		}
	}
	b.want(t, b.run(t.Context(), "status", "-o", "json"), 0)
	var list v1alpha1.InPlaceUpdateList
	if err := json.Unmarshal(b.out.Bytes(), &list); err != nil || list.Kind != "InPlaceUpdateList" || len(list.Items) != 1 || list.Items[0].Spec.Attempt != 2 {
		t.Errorf("printed %s, %v", b.out, err)
	}
}

func TestStatusOfNothing(t *testing.T) {
	b := newBench(t)
	b.want(t, b.run(t.Context(), "status"), 0, "no in-place updates found")
	b.want(t, b.run(t.Context(), "status", "-o", "json"), 0)
	if !strings.Contains(b.out.String(), `"items": []`) {
		t.Errorf("printed %s", b.out)
	}
}

// The watch ends when it is interrupted, which here the last state does.
func TestStatusWatch(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"the stages of one": {[]string{"status", "engine-0", "--watch"}, `pod ns/engine-0, attempt 1: engine=r/engine:v2
    0.0s  Prepared      +0.0s
    4.0s  InService     +4.0s
`},
		"a row for every change": {[]string{"status", "-w"}, `NAMESPACE	POD	STAGE	FOR	REASON	ATTEMPT	IMAGES	OUT OF SERVICE	NODE
ns	engine-0	Prepared	0s	-	1	engine=r/engine:v2	-	node-a
ns	engine-0	InService	0s	-	1	engine=r/engine:v2	-	node-a
`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			b := newBench(t, ordered(1, v1alpha1.StagePrepared))
			b.report(t, ordered(1, v1alpha1.StageInService))
			stop := &stopper{after: "InService", stop: interrupt}
			code := verb.Execute(ctx, append(tt.args, "--namespace", "ns"), verb.Env{
				Streams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: stop, ErrOut: &stop.Buffer},
				Clock:   clocktesting.NewFakeClock(now),
				Connect: func(genericclioptions.RESTClientGetter) (verb.Clients, error) {
					return verb.Clients{Core: b.core, Dynamic: b.dynamic}, nil
				},
			})
			if diff := cmp.Diff(tt.want, stop.String()); code != 0 || diff != "" {
				t.Errorf("exit code %d, output (-want +got):\n%s", code, diff)
			}
		})
	}
}

// A stopper calls stop once it was written a word.
type stopper struct {
	bytes.Buffer
	after string
	stop  func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.after) {
		defer s.stop()
	}
	return s.Buffer.Write(p)
}
