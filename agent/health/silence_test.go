package health

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"pitstop.dev/agent/health/states"
)

// Once is no problem yet: node-problem-detector is to be told of one that lasts.
func TestARuntimeThatDoesNotAnswerIsAProblemOnceThatLasts(t *testing.T) {
	silent := fmt.Errorf("runtime version: %w: received context error", context.DeadlineExceeded)
	for name, tt := range map[string]struct {
		errs []error // of looks
		step time.Duration
		want string
	}{
		"one look":                  {[]error{silent}, 0, "Unknown no answer in time"},
		"two looks at once":         {[]error{silent, silent}, 5 * time.Second, "Unknown no answer in time"},
		"two looks half a minute":   {[]error{silent, silent}, 30 * time.Second, "Problem no answer for 30s"},
		"an answer between them":    {[]error{silent, nil, silent}, 30 * time.Second, "Unknown no answer in time"},
		"a refusal between them":    {[]error{silent, errors.New("refused"), silent}, 30 * time.Second, "Unknown no answer in time"},
		"two looks an hour apart":   {[]error{silent, silent}, time.Hour, "Unknown no answer in time"},
		"a clock that was set back": {[]error{silent, silent}, -time.Hour, "Unknown no answer in time"},
		"an answer after a while":   {[]error{silent, silent, nil}, time.Minute, "OK containerd 2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := &runtime{}, clocktesting.NewFakeClock(time.Now())
			check := CheckOfRuntime(r, c)
			var got string
			for _, r.err = range tt.errs {
				status, text := check.Look(t.Context())
				got = string(status) + " " + text
				c.Step(tt.step)
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if status, _ := CheckOfRuntime(runtime{err: context.Canceled}, clock.RealClock{}).Look(gone); status != states.Unknown {
		t.Errorf("%s where nobody waits", status)
	}
}
