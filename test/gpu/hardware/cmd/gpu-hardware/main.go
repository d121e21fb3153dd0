// Command gpu-hardware is what test/gpu/hardware.sh runs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	result, err := o.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpu-hardware:", err)
		result.Failed = append(result.Failed, err.Error())
	}
	line, marshal := json.Marshal(result)
	fmt.Fprintln(os.Stdout, string(line))
	if err != nil || marshal != nil || !result.OK {
		os.Exit(1)
	}
}
