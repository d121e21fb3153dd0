package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"            //nolint:depguard // client-go logs through it: here it is sent to our logger
	"k8s.io/klog/v2/textlogger" //nolint:depguard // a logr sink in the format of Kubernetes

	"pitstop.dev/agent"
	"pitstop.dev/agent/journal"
	"pitstop.dev/cri"
	"pitstop.dev/readiness"
)

// version is set by the linker.
var version = "dev"

// oldestMinor is the minor version of the oldest Kubernetes that has all that is needed:
// selectable fields of custom resources and the node claim in tokens.
const oldestMinor = 32

type flags struct {
	node, namespace, identity   string
	kubeconfig                  string
	runtime, runtimeRoot        string
	hostRoot, kubeletDir        string
	journalDir, listen, socket  string
	parallel, verbosity         int
	settle                      time.Duration
	minFree                     int64
	qps                         float32
	burst                       int
	metricRunning, metricQueued []string
	gpus                        gpuFlags
	health                      healthFlags
}

func (f *flags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.node, "node-name", os.Getenv("NODE_NAME"), "name of this node (env NODE_NAME)")
	fs.StringVar(&f.namespace, "namespace", env("POD_NAMESPACE", "pitstop-system"), "namespace of the agent's Lease (env POD_NAMESPACE)")
	fs.StringVar(&f.identity, "identity", os.Getenv("POD_UID"), "holder of the Lease: the UID of the agent's Pod (env POD_UID)")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the service account of the Pod")
	f.bindRuntime(fs)
	fs.StringVar(&f.journalDir, "journal-dir", "/var/lib/pitstop/agent", "folder of the journal and of what is remembered of the GPUs, on a local file system")
	fs.StringVar(&f.listen, "listen", ":9464", "address of /healthz, /readyz, /v1/states and /metrics")
	fs.StringVar(&f.socket, "socket", socketPath, "socket of the same for the node itself, as for pitstop-agent check; empty: none")
	fs.IntVar(&f.parallel, "parallel", 2, "pulls at a time")
	fs.DurationVar(&f.settle, "settle", 2*time.Minute, "time after a start of kubelet or a device plugin in which no Pod with devices is taken out of traffic")
	fs.Float32Var(&f.qps, "kube-api-qps", 20, "requests per second to the API server")
	fs.IntVar(&f.burst, "kube-api-burst", 40, "burst of requests to the API server")
	fs.StringSliceVar(&f.metricRunning, "metric-running", nil, "names of metrics that count running requests, besides those of vLLM and SGLang")
	fs.StringSliceVar(&f.metricQueued, "metric-waiting", nil, "names of metrics that count waiting requests")
	f.gpus.bind(fs)
	f.health.bind(fs)
	fs.IntVarP(&f.verbosity, "v", "v", 0, "log level: 0 what an operator acts on, 1 every step, 2 why something waits")
}

// bindRuntime binds the flags that say where runtime, images and kubelet are.
func (f *flags) bindRuntime(fs *pflag.FlagSet) {
	fs.StringVar(&f.runtime, "runtime-endpoint", "", "socket of the container runtime; empty: the standard ones are tried")
	fs.StringVar(&f.runtimeRoot, "runtime-root", "/", "folder under which the standard sockets are tried")
	fs.StringVar(&f.hostRoot, "host-root", "", "folder under which the image file system is mounted; empty: its free space is not known")
	fs.StringVar(&f.kubeletDir, "kubelet-dir", "/var/lib/kubelet", "kubelet's root folder")
	fs.Int64Var(&f.minFree, "min-free-bytes", 10<<30, "free bytes on the image file system below which nothing is pulled; 0: not looked at")
}

func env(key, fallback string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	return fallback
}

func newLogger(verbosity int) logr.Logger {
	return textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity), textlogger.Output(os.Stderr)))
}

// redirectClientLogs sends what client-go logs through our logger.
func redirectClientLogs(log logr.Logger) { klog.SetLogger(log) }

func (f flags) config(r *cri.Client) (agent.Config, error) {
	api, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return agent.Config{}, fmt.Errorf("API configuration: %w", err)
	}
	api.QPS, api.Burst, api.UserAgent = f.qps, f.burst, "pitstop-agent/"+version
	if f.parallel < 1 {
		return agent.Config{}, fmt.Errorf("--parallel is %d: at least one pull must be possible", f.parallel)
	}
	scrape := readiness.Config{}
	if len(f.metricRunning)+len(f.metricQueued) > 0 {
		scrape.Engines = append(scrape.Engines, readiness.Engine{Running: f.metricRunning, Waiting: f.metricQueued})
	}
	scraper, err := readiness.NewScraper(scrape)
	if err != nil {
		return agent.Config{}, fmt.Errorf("engine metrics: %w", err)
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return agent.Config{
		NodeName: f.node, Namespace: f.namespace, Identity: f.identity, Version: version,
		API: api, Runtime: r, Scraper: scraper,
		Journal:    journal.Options{Dir: f.journalDir, BootID: strings.TrimSpace(string(boot))},
		KubeletDir: f.kubeletDir, Parallel: f.parallel, Settle: f.settle, MinFreeBytes: f.minFree,
	}, nil
}

// unversioned is the configuration for paths outside any group. The discovery client would do
// the same and costs the agent some MiB for types that it never meets.
func unversioned(cfg *rest.Config) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	return out
}

// errTooOld reports a Kubernetes that lacks what the agent needs.
var errTooOld = errors.New("the API server is too old")

// awaitServer returns once the API server has said that it is new enough. One that does not
// answer is asked again: Pods may wait for this agent when it comes back.
func awaitServer(ctx context.Context, cfg *rest.Config) error {
	log := logr.FromContextOrDiscard(ctx)
	for {
		err := askServer(ctx, cfg)
		if err == nil || errors.Is(err, errTooOld) || ctx.Err() != nil {
			return err
		}
		log.Error(err, "waiting for the API server")
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

// askServer is checkServer with a deadline: a server that says nothing is not waited for longer than one that is not there.
func askServer(ctx context.Context, cfg *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return checkServer(ctx, cfg)
}

// checkServer refuses to run on a Kubernetes that is too old.
func checkServer(ctx context.Context, cfg *rest.Config) error {
	client, err := rest.UnversionedRESTClientFor(unversioned(cfg))
	if err != nil {
		return fmt.Errorf("API configuration: %w", err)
	}
	body, err := client.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("version of the API server: %w", err)
	}
	var v apiversion.Info
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("version of the API server: %w", err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if err == nil && v.Major == "1" && minor < oldestMinor {
		return fmt.Errorf("%w: it runs Kubernetes %s, pitstop needs 1.%d or later", errTooOld, v.GitVersion, oldestMinor)
	}
	return nil
}
