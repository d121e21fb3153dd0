// Command engine is the test inference engine; package server says what it does.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/utils/clock"

	"pitstop.dev/test/engine/server"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := server.FromEnv(os.LookupEnv)
	if err != nil {
		return err
	}
	ends := []os.Signal{syscall.SIGINT}
	if config.IgnoreSIGTERM {
		signal.Ignore(syscall.SIGTERM)
	} else {
		ends = append(ends, syscall.SIGTERM)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	engine, err := server.New(config, clock.RealClock{})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", config.Address)
	if err != nil {
		return err
	}
	return engine.Run(ctx, l)
}
