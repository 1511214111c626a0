package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/middleware"
)

// TestReport checks the level and the attributes of each kind of report, the escaping and the bound
// of the text.
func TestReport(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	fail := errors.New("no disk")
	for _, c := range []struct {
		what string
		err  error
		want string
	}{
		{jsonrpc.ReportHandler, &jsonrpc.HandlerError{Method: "add", Err: fail}, `level=ERROR msg=handler method=add error="jsonrpc: handler of add: no disk"`},
		{jsonrpc.ReportPanic, &jsonrpc.PanicError{Method: "add", Value: "x", Reference: 7}, `level=ERROR msg=panic method=add reference=7 error="`},
		{jsonrpc.ReportStore, fail, `level=ERROR msg=store error="no disk"`},
		{"a word of another program", fail, `level=ERROR msg="a word of another program" error="no disk"`},
		{jsonrpc.ReportGarbage, fail, `level=DEBUG msg=garbage error="no disk"`},
		{jsonrpc.ReportServerRequest, errors.New("x/y: \x1b[2J\nz"), `level=DEBUG msg="request of the server" error="x/y: \\u001b[2J\\nz"`},
		{jsonrpc.ReportHandler, context.Canceled, `level=DEBUG msg=handler error="context canceled"`},
		{jsonrpc.ReportStuck, nil, "level=DEBUG msg=stuck\n"},
		{jsonrpc.ReportStore, errors.New(strings.Repeat("x", 1<<20)), `level=ERROR msg=store error=xxx`},
	} {
		out.Reset()
		middleware.Report(log)(c.what, c.err)
		if got := out.String(); !strings.HasPrefix(got, c.want) || strings.Count(got, "\n") != 1 || len(got) > 9000 {
			t.Errorf("%s: logged %.200q; want %q", c.what, got, c.want)
		}
	}

	before := slog.Default()
	defer slog.SetDefault(before)
	report := middleware.Report(nil)
	slog.SetDefault(log)
	out.Reset()
	if report(jsonrpc.ReportStore, fail); !strings.Contains(out.String(), "msg=store") {
		t.Errorf("without a logger: logged %q", out.String())
	}
}
