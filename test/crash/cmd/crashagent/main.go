// Command crashagent is pitstop-agent in its own Pod, killed once at a chosen write.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2/textlogger" //nolint:depguard // a logr sink in the format of Kubernetes

	"pitstop.dev/test/crash/victim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "crashagent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := victim.Options{
		Node: os.Getenv("NODE_NAME"), Namespace: os.Getenv("POD_NAMESPACE"), Identity: os.Getenv("POD_UID"),
		QPS: 20, Burst: 40, Listen: "tcp::9464",
	}
	var point string
	verbosity := 0
	fs := pflag.NewFlagSet("crashagent", pflag.ContinueOnError)
	// The other flags of pitstop-agent in its manifest make no difference here.
	fs.ParseErrorsAllowlist.UnknownFlags = true
	fs.StringVar(&o.RuntimeRoot, "runtime-root", "/", "folder under which the standard sockets are tried")
	fs.StringVar(&o.HostRoot, "host-root", "", "folder under which the image file system is mounted")
	fs.StringVar(&o.JournalDir, "journal-dir", "/var/lib/pitstop/agent", "folder of the journal")
	fs.StringVar(&o.Marker, "marker", "/var/lib/pitstop/killed", "file that is made before the kill; with it there is none")
	fs.StringVar(&o.Only, "only", "", "name of the Pod whose API writes count; empty: those of all Pods")
	fs.StringVar(&o.Trace, "trace", "/var/lib/pitstop/trace", "file that every write adds a line to")
	fs.StringVar(&point, "point", "", "the write to die at, as in committed-3; empty: none")
	fs.IntVarP(&verbosity, "v", "v", 0, "log level")
	err := fs.Parse(os.Args[1:])
	if err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	if o.Point, err = victim.Parse(point); err != nil {
		return err
	}
	log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity), textlogger.Output(os.Stderr)))
	return victim.Run(logr.NewContext(ctx, log), o)
}
