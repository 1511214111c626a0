// Package pause waits a while, or until a context ends.
package pause

import (
	"context"
	"time"
)

// For lets d pass, or returns ctx's cause when that ends first.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
