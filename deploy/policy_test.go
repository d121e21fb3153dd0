//go:build lab

package deploy_test

import "testing"

func TestX(t *testing.T) {}
