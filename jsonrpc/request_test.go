package jsonrpc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// TestAnswerRequest checks that a request in parts gets the response to the same request as one
// text, within the same limits.
func TestAnswerRequest(t *testing.T) {
	echo := HandlerFunc(func(_ context.Context, req *Request) (any, error) {
		if req.Params == nil {
			return "none", nil
		}
		return req.Params.Clone(), nil
	})
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	var limits Limits
	limits.Depth, limits.Tokens = 10, 20
	a := &Answerer{Handler: muxOf(map[string]Handler{"echo": echo, `a"b`: echo}), Limits: limits}
	for _, method := range []string{"echo", `a"b`, "missing", ""} {
		for _, params := range []string{
			`{}`, `[]`, ` [1,"x"] `, `{"a":{"b":[9007199254740993]}}`, `null`, "\tnull\n", ``, ` `, `{`, `[1,]`, `{} {}`, `{},"id":2`, `{}}`, "[\"\xff\"]",
			deep(8), deep(9), deep(10), `[` + strings.Repeat(`1,`, 9) + `1]`, `[` + strings.Repeat(`1,`, 10) + `1]`, `[` + strings.Repeat(`1,`, 11) + `1]`, `[` + strings.Repeat(`1,`, 12) + `1]`,
		} {
			want, wantError := a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","id":7,"method":`+string(AppendString(nil, method))+`,"params":`+params+`}`), &Exchange{})
			if strings.Contains(params, `"id"`) { // in one text it is a member of the envelope
				want, wantError = AppendError(nil, Version2, NullID, ErrParseError), ErrParseError
			}
			got, gotError := a.AnswerRequest(t.Context(), nil, IntID(7), method, []byte(params), &Exchange{})
			if string(got) != string(want) || gotError != wantError {
				t.Errorf("%s of %.40s: %s, %v, want %s, %v", method, params, got, gotError, want, wantError)
			}
		}
	}
}

// TestAnswerRequestIsChecked checks that the access check gets any value and may replace it.
func TestAnswerRequestIsChecked(t *testing.T) {
	var a Answerer
	a.Handler = muxOf(map[string]Handler{"echo": HandlerFunc(func(_ context.Context, req *Request) (any, error) { return req.Params.Clone(), nil })})
	x := &Exchange{Check: func(_ context.Context, req *Request) error {
		if string(req.Params) != "5" {
			return ErrInvalidParams
		}
		req.Params = Raw(`{"five":5}`)
		return nil
	}}
	for params, want := range map[string]string{
		" 5": `{"jsonrpc":"2.0","result":{"five":5},"id":"i"}`,
		"6":  `{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params"},"id":"i"}`,
	} {
		if got, _ := a.AnswerRequest(t.Context(), nil, StringID("i"), "echo", []byte(params), x); string(got) != want {
			t.Errorf("%s: %s, want %s", params, got, want)
		}
	}
}

// TestConvert checks that every error response is converted once, and that the error beside the
// response is the one that was sent. A panic of Convert leaves the error as it is.
func TestConvert(t *testing.T) {
	convert := func(e *Error) *Error {
		if strings.Contains(e.Message, "!") {
			t.Errorf("%v is converted twice", e)
		}
		return &Error{Code: e.Code, Message: e.Message + "!"}
	}
	handlers := muxOf(map[string]Handler{
		"fail": HandlerFunc(func(context.Context, *Request) (any, error) { return nil, ErrInvalidParams }),
		"ok":   HandlerFunc(func(context.Context, *Request) (any, error) { return 1, nil }),
	})
	text := func(code int, message, id string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":%d,"message":"%s!"},"id":%s}`, code, message, id)
	}
	for _, test := range []struct{ payload, want string }{
		{`{`, text(-32700, "Parse error", "null")},
		{`{"id":1}`, text(-32600, "Invalid Request", "1")},
		{`{"jsonrpc":"2.0","id":1,"method":"x"}`, text(-32601, "Method not found", "1")},
		{`{"jsonrpc":"2.0","id":1,"method":"fail"}`, text(-32602, "Invalid params", "1")},
		{`{"jsonrpc":"2.0","id":null,"method":"ok"}`, text(-32600, "Invalid Request", "null")},
		{`{"jsonrpc":"2.0","id":1,"method":"ok"}`, `{"jsonrpc":"2.0","result":1,"id":1}`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ok"},1,{"jsonrpc":"2.0","id":2,"method":"fail"}]`,
			`[{"jsonrpc":"2.0","result":1,"id":1},` + text(-32600, "Invalid Request", "null") + `,` + text(-32602, "Invalid params", "2") + `]`},
		{`[1]`, `[` + text(-32600, "Invalid Request", "null") + `]`},
		{`[]`, text(-32600, "Invalid Request", "null")},
	} {
		a := &Answerer{Handler: handlers, Convert: convert, NoNull: true}
		got, e := a.Answer(t.Context(), nil, []byte(test.payload), &Exchange{})
		if string(got) != test.want {
			t.Errorf("%s: %s, want %s", test.payload, got, test.want)
		}
		if e != nil && !strings.HasSuffix(e.Message, "!") {
			t.Errorf("%s: the error beside it is %v", test.payload, e)
		}
		w, c := serveWire(t, func(c *Conn) { c.Handler, c.Convert, c.NoNull = handlers, convert, true })
		w.send(test.payload)
		w.want(test.want)
		_ = c.Close() // ends with the test
	}
	var reports int
	a := &Answerer{Convert: func(*Error) *Error { panic("convert") }, Report: func(string, error) { reports++ }}
	if got, e := a.Answer(t.Context(), nil, []byte(`{`), &Exchange{}); string(got) != string(AppendError(nil, Version2, NullID, ErrParseError)) || e != ErrParseError || reports != 1 {
		t.Errorf("after a panic: %s, %v, %d reports", got, e, reports)
	}
}

// A lateErrorSender also gets the error of a late response.
type lateErrorSender struct {
	lateSender
	errors []*Error
}

func (l *lateErrorSender) SendLateError(response []byte, e *Error) {
	l.mu.Lock()
	l.errors = append(l.errors, e)
	l.mu.Unlock()
	l.SendLate(response)
}

// TestLateErrors checks that a transport gets the error of a late response, converted, unless it is
// the response to a batch.
func TestLateErrors(t *testing.T) {
	for payload, want := range map[string]int{
		`{"jsonrpc":"2.0","method":"stuck","id":1}`:   1,
		`[{"jsonrpc":"2.0","method":"stuck","id":1}]`: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			a := &Answerer{Handler: muxOf(map[string]Handler{"stuck": stuck(release, nil)}), Convert: func(e *Error) *Error { return &Error{Code: e.Code, Message: "late"} }}
			var late lateErrorSender
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = a.Answer(context.Background(), nil, []byte(payload), &Exchange{Late: &late})
			}()
			time.Sleep(64 * time.Second)
			late.mu.Lock()
			if len(late.out) != 1 || !strings.Contains(late.out[0], `"message":"late"`) || len(late.errors) != want || want == 1 && late.errors[0].Message != "late" {
				t.Errorf("%s: got %q, %v", payload, late.out, late.errors)
			}
			late.mu.Unlock()
			close(release)
			<-done
			time.Sleep(2 * time.Second) // the timer of the deadlines stops
		})
	}
}
