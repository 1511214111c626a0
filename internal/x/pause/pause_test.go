package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	why := errors.New("enough")
	for _, c := range []struct {
		name      string
		d, end    time.Duration // the pause, and when the context ends
		want      error
		wantAfter time.Duration
	}{
		{"the whole time", 2 * time.Second, time.Minute, nil, 2 * time.Second},
		{"cut short", time.Hour, time.Second, why, time.Second},
		{"no time at all", 0, time.Second, nil, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), c.end, why)
			defer cancel()
			begin := time.Now()
			if err := For(ctx, c.d); !errors.Is(err, c.want) || time.Since(begin) != c.wantAfter {
				t.Errorf("%s: For = %v after %v, want %v after %v", c.name, err, time.Since(begin), c.want, c.wantAfter)
			}
		})
	}
}
