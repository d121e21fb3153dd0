package main

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// oldestMinor is the minor version of the oldest Kubernetes that has all that is needed.
const oldestMinor = 32

// checkServer refuses to run on a Kubernetes that is too old.
func checkServer(cfg *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("API configuration: %w", err)
	}
	v, err := client.ServerVersion()
	if err != nil {
		return fmt.Errorf("version of the API server: %w", err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if err == nil && v.Major == "1" && minor < oldestMinor {
		return fmt.Errorf("the API server runs Kubernetes %s, pitstop needs 1.%d or later", v.GitVersion, oldestMinor)
	}
	return nil
}
