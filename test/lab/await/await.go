// Package await waits for the outside world with a deadline and says what was missing.
package await

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Interval is the time between two tries.
const Interval = 50 * time.Millisecond

// Until calls try until it returns nil, and fails with its last error once limit has
// passed or ctx has ended. Each try gets a context that ends with the limit.
func Until(ctx context.Context, what string, limit time.Duration, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, Interval, limit, true, func(ctx context.Context) (bool, error) {
		if err := try(ctx); err != nil {
			if ctx.Err() == nil || last == nil {
				last = err
			}
			return false, nil // it is the reason for the next
		}
		return true, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("wait up to %s for %s: %w", limit, what, last)
	}
	if err != nil {
		return fmt.Errorf("wait up to %s for %s: %w", limit, what, err)
	}
	return nil
}
