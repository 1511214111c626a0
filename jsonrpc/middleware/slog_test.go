package middleware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// logged runs one request through Slog and returns the output of a text handler, without the time.
func logged(t *testing.T, level slog.Level, o *SlogOptions, h jsonrpc.Handler, req *jsonrpc.Request, ctxs ...context.Context) string {
	t.Helper()
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}}))
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		if len(ctxs) > 0 {
			ctx = ctxs[0]
		}
		defer func() { _ = recover() }()
		_, _ = Slog(logger, o)(h).Handle(ctx, req) // only the log matters here
	})
	return out.String()
}

func TestSlog(t *testing.T) {
	slow := jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		time.Sleep(1500 * time.Millisecond) // in a synctest bubble
		return jsonrpc.Raw(`"twelve bytes"`), nil
	})
	private := errors.New("open /etc/secret: denied")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(jsonrpc.ErrPeerCancelled)
	long := strings.Repeat("é", 300)

	tests := []struct {
		name  string
		level slog.Level
		o     *SlogOptions
		h     jsonrpc.Handler
		req   *jsonrpc.Request
		ctx   context.Context
		want  string
	}{
		{"result", slog.LevelInfo, nil, slow, call("add", `{"password":"x"}`), nil,
			"level=INFO msg=request method=add id=7 duration=1.5s params_bytes=16 result_bytes=14\n"},
		{"never params, also at debug", slog.LevelDebug, nil, answers(1, nil), call("add", `[1,2]`), nil,
			"level=INFO msg=request method=add id=7 duration=0s params_bytes=5\n"},
		{"notification", slog.LevelInfo, nil, answers(nil, nil), &jsonrpc.Request{Method: "note"}, nil,
			"level=INFO msg=request method=note duration=0s params_bytes=0\n"},
		{"null id", slog.LevelInfo, nil, answers(nil, nil), &jsonrpc.Request{Method: "m", ID: jsonrpc.NullID}, nil,
			"level=INFO msg=request method=m id=null duration=0s params_bytes=0\n"},
		{"the handler's error", slog.LevelInfo, nil, answers(nil, jsonrpc.NewError(-5, "no such thing")), call("m", ``), nil,
			`level=WARN msg=request method=m id=7 duration=0s params_bytes=0 code=-5 error="no such thing"` + "\n"},
		{"private error", slog.LevelInfo, nil, answers(nil, private), call("m", ``), nil,
			`level=ERROR msg=request method=m id=7 duration=0s params_bytes=0 code=-32603 error="open /etc/secret: denied"` + "\n"},
		{"wrapped error is private", slog.LevelInfo, nil, answers(nil, fmt.Errorf("upstream: %w", jsonrpc.NewError(-5, "no"))), call("m", ``), nil,
			`level=ERROR msg=request method=m id=7 duration=0s params_bytes=0 code=-32603 error="upstream: no (-5)"` + "\n"},
		{"cancelled by the peer", slog.LevelInfo, nil, answers(nil, context.Canceled), call("m", ``), cancelled,
			`level=INFO msg=request method=m id=7 duration=0s params_bytes=0 code=-32800 error="context canceled"` + "\n"},
		{"panic", slog.LevelInfo, nil, jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { panic("x") }), call("m", ``), nil,
			"level=ERROR msg=request method=m id=7 duration=0s params_bytes=0 code=-32603 error=panic\n"},
		{"levels and group", slog.LevelDebug, &SlogOptions{Level: slog.LevelDebug, Group: "rpc"}, answers(nil, nil), call("m", ``), nil,
			"level=DEBUG msg=request rpc.method=m rpc.id=7 rpc.duration=0s rpc.params_bytes=0\n"},
		{"level below the logger's", slog.LevelInfo, &SlogOptions{Level: slog.LevelDebug}, answers(nil, nil), call("m", ``), nil, ""},
		{"level of errors", slog.LevelInfo, &SlogOptions{ErrorLevel: slog.LevelInfo}, answers(nil, jsonrpc.NewError(1, "e")), call("m", ``), nil,
			"level=INFO msg=request method=m id=7 duration=0s params_bytes=0 code=1 error=e\n"},
		{"params at debug", slog.LevelDebug, &SlogOptions{Params: true}, answers(nil, nil), call("m", `{"a":1,"token":"t"}`), nil,
			`level=DEBUG msg=request method=m id=7 params="{\"a\":1,\"token\":\"[redacted]\"}"` + "\n" +
				"level=INFO msg=request method=m id=7 duration=0s params_bytes=19\n"},
		{"params not at info", slog.LevelInfo, &SlogOptions{Params: true}, answers(nil, nil), call("m", `{"a":1}`), nil,
			"level=INFO msg=request method=m id=7 duration=0s params_bytes=7\n"},
		{"own redactor", slog.LevelDebug, &SlogOptions{Params: true, Level: slog.LevelDebug - 1, Redact: &Redactor{Names: []string{"a"}}},
			answers(nil, nil), call("m", `{"a":1}`), nil, `level=DEBUG msg=request method=m id=7 params="{\"a\":\"[redacted]\"}"` + "\n"},
		{"long names are cut", slog.LevelInfo, nil, answers(nil, nil), call(long, ``), nil,
			"level=INFO msg=request method=" + strings.Repeat("é", 126) + "… id=7 duration=0s params_bytes=0\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var ctxs []context.Context
			if tt.ctx != nil {
				ctxs = append(ctxs, tt.ctx)
			}
			if got := logged(t, tt.level, tt.o, tt.h, tt.req, ctxs...); got != tt.want {
				t.Errorf("logged\n%swant\n%s", got, tt.want)
			}
		})
	}
}

func TestSlogCutsParams(t *testing.T) {
	params := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	got := logged(t, slog.LevelDebug, &SlogOptions{Params: true}, answers(nil, nil), call("m", params))
	if len(got) > 1400 {
		t.Errorf("%d bytes were logged, want about 1 KiB of params", len(got))
	}
}

func TestSlogPassesThrough(t *testing.T) {
	boom := errors.New("boom")
	for _, logger := range []*slog.Logger{nil, slog.New(slog.DiscardHandler)} {
		h := Slog(logger, nil)(answers(3, boom))
		if result, err := h.Handle(t.Context(), call("m", ``)); result != 3 || err != boom {
			t.Errorf("Handle = %v, %v, want what the handler said", result, err)
		}
		p := Slog(logger, nil)(jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { panic(boom) }))
		func() {
			defer func() {
				if v := recover(); v != boom {
					t.Errorf("recovered %v, want the handler's panic", v)
				}
			}()
			_, _ = p.Handle(t.Context(), call("m", ``)) // panics
		}()
	}
}
