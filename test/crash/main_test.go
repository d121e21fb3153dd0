//go:build lab

package crash

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2/textlogger" //nolint:depguard // a logr sink in the format of Kubernetes

	"pitstop.dev/test/crash/victim"
)

// victimOptions is the environment variable that makes a process of this test an agent.
const victimOptions = "PITSTOP_CRASH_VICTIM"

// sideBySide is how many cases run at a time: they wait more than they work.
const sideBySide = "12"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(victimOptions); ok {
		os.Exit(beVictim(text))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", sideBySide); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

func beVictim(text string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(1), textlogger.Output(os.Stderr)))
	var o victim.Options
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = victim.Run(logr.NewContext(ctx, log), o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	return 0
}
