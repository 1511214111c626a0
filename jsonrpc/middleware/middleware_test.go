package middleware

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func call(method, params string) *jsonrpc.Request {
	return &jsonrpc.Request{ID: jsonrpc.IntID(7), Method: method, Params: jsonrpc.Raw(params)}
}

func answers(result any, err error) jsonrpc.Handler {
	return jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { return result, err })
}

func TestRecover(t *testing.T) {
	var reported *PanicError
	h := Recover(func(_ context.Context, e *PanicError) { reported = e })(
		jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { panic("the secret is 42") }))
	result, err := h.Handle(t.Context(), call("boom", `[]`))
	if result != nil || !errors.Is(err, jsonrpc.ErrInternal) {
		t.Errorf("Handle = %v, %v, want nil and an internal error", result, err)
	}
	e, ok := errors.AsType[*PanicError](err)
	if !ok || e != reported || e.Method != "boom" || e.Value != "the secret is 42" || !strings.Contains(string(e.Stack), "TestRecover") {
		t.Errorf("error %#v, reported %#v", err, reported)
	}
	if _, public := err.(*jsonrpc.Error); public {
		t.Error("the error is a *jsonrpc.Error and would go out as it is")
	}
}

func TestRecoverWithoutPanic(t *testing.T) {
	h := Recover(nil)(answers(5, errors.New("fails")))
	if result, err := h.Handle(t.Context(), call("m", ``)); result != 5 || err == nil || err.Error() != "fails" {
		t.Errorf("Handle = %v, %v, want what the handler said", result, err)
	}
	var e runtime.Error
	h = Recover(nil)(jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		return []int{}[len("past its end")], nil
	}))
	_, err := h.Handle(t.Context(), call("m", ``))
	if p, ok := errors.AsType[*PanicError](err); !ok || !errors.As(p.Value.(error), &e) {
		t.Errorf("error %v holds no runtime error", err)
	}
}

// TestRecoveredPanicStaysHere checks that, with the engine, a recovered panic is an "Internal
// error" for the peer and complete in the report.
func TestRecoveredPanicStaysHere(t *testing.T) {
	var reported error
	a := &jsonrpc.Answerer{
		Handler: Recover(nil)(jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { panic("the secret is 42") })),
		Report:  func(_ string, err error) { reported = err },
	}
	err := jsonrpc.Local(a, nil).Call(t.Context(), "boom", nil, nil)
	e, ok := err.(*jsonrpc.Error)
	if !ok || e.Code != jsonrpc.CodeInternalError || strings.Contains(e.Message+string(e.Data), "42") {
		t.Errorf("the peer got %v", err)
	}
	if p, ok := errors.AsType[*PanicError](reported); !ok || p.Value != "the secret is 42" {
		t.Errorf("reported %v", reported)
	}
}

func TestTimeout(t *testing.T) {
	waits := jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("query: %w", ctx.Err())
		case <-time.After(time.Hour):
			return "done", nil
		}
	})
	deadline := jsonrpc.NewError(jsonrpc.CodeDeadline, "")
	m := Timeout(30*time.Second, map[string]time.Duration{"short": time.Second, "free": 0, "negative": -1})
	tests := []struct {
		method string
		took   time.Duration
		err    error
	}{
		{"any", 30 * time.Second, deadline},
		{"short", time.Second, deadline},
		{"free", time.Hour, nil},
		{"negative", time.Hour, nil},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			result, err := m(waits).Handle(t.Context(), call(tt.method, ``))
			if got := time.Since(start); got != tt.took || !errors.Is(err, tt.err) || (err == nil && result != "done") {
				t.Errorf("%s: Handle = %v, %v after %v, want %v after %v", tt.method, result, err, got, tt.err, tt.took)
			}
			if e, ok := err.(*jsonrpc.Error); ok && string(e.Data) != `{"reason":"deadline","retryable":true}` {
				t.Errorf("data = %s", e.Data)
			}
		})
	}
}

func TestTimeoutKeepsOtherAnswers(t *testing.T) {
	mine := jsonrpc.NewError(-5, "no")
	after := func(err error) jsonrpc.Handler {
		return jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), jsonrpc.ErrTimeout) {
				return nil, fmt.Errorf("cause is %w", context.Cause(ctx))
			}
			return "late", err
		})
	}
	private := errors.New("disk")
	for _, want := range []error{nil, mine, private} {
		synctest.Test(t, func(t *testing.T) {
			result, err := Timeout(time.Second, nil)(after(want)).Handle(t.Context(), call("m", ``))
			if err != want || result != "late" {
				t.Errorf("Handle = %v, %v, want late, %v", result, err, want)
			}
		})
	}
	// A deadline of the caller is not a deadline of Timeout.
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h := jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if _, err := Timeout(time.Minute, nil)(h).Handle(ctx, call("m", ``)); err != context.DeadlineExceeded {
			t.Errorf("Handle = %v, want the caller's deadline", err)
		}
	})
}
