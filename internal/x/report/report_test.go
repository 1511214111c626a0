package report_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/report"
)

// logged returns what f logs with slog's default logger.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var b bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&b, nil)))
	defer slog.SetDefault(before)
	f()
	return b.String()
}

// TestDefaultLog: errors of handlers are logged as one harmless line of bounded length; what
// strangers cause is not, nor what has a Report.
func TestDefaultLog(t *testing.T) {
	log := report.Or(nil, "mcp")
	got := logged(t, func() { log("tool", errors.New("no disk\n\x1b[2Jleft "+strings.Repeat("x", 1<<20))) })
	if !strings.Contains(got, `"level":"ERROR","msg":"mcp: tool","error":"no disk\\n\\u001b[2Jleft`) || len(got) > 10_000 {
		t.Errorf("logged %.300q, %d bytes", got, len(got))
	}
	for _, what := range []string{"garbage", "frame", "dropped", "refused", "notification", "connection", "upgrade", "notification of the server", "request of the server"} {
		if got := logged(t, func() { log(what, errors.New("of a peer")) }); got != "" {
			t.Errorf("%s: logged %q", what, got)
		}
	}
	if got := logged(t, func() { log("forgotten", nil); log("handler", context.Canceled) }); got != "" {
		t.Errorf("without an error: %q", got)
	}
	if got := logged(t, func() { report.Call(nil, "mcp", "tool", errors.New("x")) }); got != "" {
		t.Errorf("a client without a Report logged %q", got)
	}
	if got := logged(t, func() { report.Call(nil, "mcp", "panic", errors.New("x")) }); !strings.Contains(got, `"msg":"mcp: panic"`) {
		t.Errorf("a client without a Report logged %q about a panic", got)
	}
	called := 0
	if got := logged(t, func() { report.Or(func(string, error) { called++ }, "mcp")("tool", errors.New("x")) }); got != "" || called != 1 {
		t.Errorf("with a Report: %q, %d calls", got, called)
	}
}
