// Command router is the reference router; package proxy says what it does.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"pitstop.dev/test/router/proxy"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "router:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", ":8080", "address to serve on")
	kubeconfig := flag.String("kubeconfig", "", "path of a kubeconfig; in a Pod there is none")
	namespace := flag.String("namespace", "default", "namespace of the Pods")
	selector := flag.String("selector", "", "labels of the Pods")
	port := flag.Int("port", 8000, "port of the engines")
	grace := flag.Duration("grace", 30*time.Second, "how long running requests may take to end after SIGTERM")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	chosen, err := labels.Parse(*selector)
	if err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	rest, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	rest.QPS, rest.Burst = 50, 100
	client, err := typedcorev1.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	pods := proxy.Cluster{Client: client, Namespace: *namespace, Selector: chosen}
	return proxy.New(proxy.Config{Port: *port, Grace: *grace}, pods).Run(ctx, l, pods.Watch)
}
