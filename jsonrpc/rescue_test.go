package jsonrpc_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	. "github.com/da1ed7bb/parley/jsonrpc"
)

// A fragile transport panics where its fields are set.
type fragile struct {
	*scripted
	read, try, write, close bool
}

func (f *fragile) Read() ([]byte, bool, error) {
	if f.read {
		panic("in Read")
	}
	return f.scripted.Read()
}

func (f *fragile) TryWrite(b Burst) bool {
	if f.try {
		panic("in TryWrite")
	}
	return f.scripted.TryWrite(b)
}

func (f *fragile) Write(b Burst) error {
	if f.write {
		panic("in Write")
	}
	return f.scripted.Write(b)
}

func (f *fragile) Close() error {
	_ = f.scripted.Close()
	if f.close {
		panic("in Close")
	}
	return nil
}

// TestPanicsOfUsersEndTheConnection: functions of a user that run on the goroutines of a Conn end
// the connection when they panic, and not the process. The panic is reported with its stack.
func TestPanicsOfUsersEndTheConnection(t *testing.T) {
	const request, notification = `{"jsonrpc":"2.0","method":"m","id":1}`, `{"jsonrpc":"2.0","method":"n"}`
	for name, c := range map[string]struct {
		set      func(*Conn, *fragile)
		payloads []string
		lives    bool // the connection goes on
	}{
		"Read":     {set: func(_ *Conn, f *fragile) { f.read = true }},
		"TryWrite": {set: func(_ *Conn, f *fragile) { f.try = true }, payloads: []string{request}},
		"Write":    {set: func(_ *Conn, f *fragile) { f.write = true }, payloads: []string{request}},
		"Close":    {set: func(c *Conn, f *fragile) { f.read, f.close = true, true }},
		"Related":  {set: func(c *Conn, _ *fragile) { c.Related = func(*Request) (ID, bool) { panic("in Related") } }, payloads: []string{notification}},
		"Mode":     {set: func(c *Conn, _ *fragile) { c.Mode = func(string) Mode { panic("in Mode") } }, payloads: []string{request}},
		"Mode, in a batch": {set: func(c *Conn, _ *fragile) { c.Mode = func(string) Mode { panic("in Mode") } },
			payloads: []string{"[" + request + "," + notification + "]"}},
		"Ending": {set: func(c *Conn, f *fragile) { f.read = true; c.Ending = func(error) { panic("in Ending") } }},
		"Report": {set: func(c *Conn, _ *fragile) {
			c.Handler = HandlerFunc(func(context.Context, *Request) (any, error) { return nil, errors.New("leads to a report") })
			c.Report = func(string, error) { panic("in Report") }
		}, payloads: []string{notification, request}, lives: true},
		"Handler": {set: func(c *Conn, _ *fragile) {
			c.Handler = HandlerFunc(func(context.Context, *Request) (any, error) { panic("in Handler") })
		}, payloads: []string{notification, request}, lives: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fragile{scripted: newScripted()}
				conn := NewConn(f)
				var mu sync.Mutex
				var reports []string
				conn.Handler = HandlerFunc(func(context.Context, *Request) (any, error) { return 1, nil })
				conn.Report = func(what string, err error) {
					mu.Lock()
					defer mu.Unlock()
					reports = append(reports, what+": "+err.Error())
				}
				c.set(conn, f)
				conn.Start(t.Context())
				for _, p := range c.payloads {
					f.reads <- scriptedRead{payload: p}
				}
				synctest.Wait()
				if conn.Err() == nil != c.lives {
					t.Errorf("the connection ended with %v", conn.Err())
				}
				if err := conn.Close(); c.lives && err != nil {
					t.Errorf("Close = %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				if text := strings.Join(reports, "\n"); name != "Report" && (!strings.Contains(text, "panic: ") || !strings.Contains(text, "rescue_test.go")) {
					t.Errorf("reported %q", text)
				}
			})
		})
	}
}

// brittle panics in the codec.
type brittle struct{}

func (brittle) MarshalJSON() ([]byte, error)  { panic("in MarshalJSON") }
func (*brittle) UnmarshalJSON(b []byte) error { panic("in UnmarshalJSON") }

// TestPanicsInABatch: the items of a batch that a peer rejected are sent from goroutines of ours.
func TestPanicsInABatch(t *testing.T) {
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	defer slog.SetDefault(before)
	w, c := serveWire(t, func(*Conn) {})
	done := make(chan []Item)
	go func() {
		items := []Item{{Method: "a"}, {Method: "b"}}
		_ = c.Batch(t.Context(), items)
		var bad brittle
		items = []Item{{Method: "x", Params: bad}, {Method: "y", Result: &bad}}
		_ = c.Batch(t.Context(), items)
		done <- items
	}()
	w.want(`[{"jsonrpc":"2.0","method":"a","id":1},{"jsonrpc":"2.0","method":"b","id":2}]`)
	w.send(`{"jsonrpc":"2.0","error":{"code":-32600,"message":"no arrays"},"id":null}`)
	for range 3 { // a, b and y
		line, err := w.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_, id, _ := strings.Cut(strings.TrimSuffix(line, "}\n"), `"id":`)
		w.send(`{"jsonrpc":"2.0","result":{},"id":` + id + `}`)
	}
	for _, item := range <-done {
		if _, ok := errors.AsType[*rescue.Error](item.Err); !ok {
			t.Errorf("%s: %v", item.Method, item.Err)
		}
	}
}
