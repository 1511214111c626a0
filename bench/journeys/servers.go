package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/capture/tap"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/playground"
	"github.com/da1ed7bb/parley/transport/stream"
)

// post sends a body and returns a function that checks that the response contains want.
func post(ctx context.Context, client *http.Client, address, body, want string, header map[string]string) func() error {
	return func() error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for name, value := range header {
			r.Header.Set(name, value)
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && !strings.Contains(string(text), want) {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	}
}

type subtraction struct {
	Minuend    float64 `json:"minuend"`
	Subtrahend float64 `json:"subtrahend"`
}

const subtract = `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}`

// listen serves the method subtract at an address of this machine.
func listen(ctx context.Context) (address string, end func(), err error) {
	var mux jsonrpc.Mux
	mux.Add("subtract", jsonrpc.Func(func(_ context.Context, in subtraction) (float64, error) { return in.Minuend - in.Subtrahend, nil }))
	bound, err := (&parley.Listener{Handler: &mux, Mode: mux.Mode}).Listen(ctx, parley.Target{Scheme: "http", Address: "127.0.0.1:0", Path: "/rpc"})
	if err != nil {
		return "", nil, err
	}
	done := make(chan error, 1)
	go func() { done <- bound.Serve(ctx) }()
	return bound.Targets()[0].URL(), func() {
		_ = bound.Close() // the process ends soon
		<-done
	}, nil
}

func overHTTP(ctx context.Context) (func() error, func(), error) {
	address, end, err := listen(ctx)
	if err != nil {
		return nil, nil, err
	}
	return post(ctx, new(http.Client), address, subtract, `"result":19`, nil), end, nil
}

type guest struct {
	Name string `json:"name"`
}

// asking returns an MCP server with a tool that asks the user for a name, and one that does not.
func asking() *mcp.Server {
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	form := mcp.FormOf[guest]()
	mcp.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		var who guest
		answer, err := r.Elicit(ctx, "who", &mcp.Elicitation{Message: "Who are you?", RequestedSchema: form})
		if err == nil {
			err = answer.Content.Decode(&who)
		}
		return who.Name, err
	})
	mcp.AddTool(s, mcp.Tool{Name: "subtract"}, func(_ context.Context, _ *mcp.Request, in subtraction) (string, error) {
		return fmt.Sprint(in.Minuend - in.Subtrahend), nil
	})
	return s
}

func mcpLines(ctx context.Context) (func() error, func(), error) {
	s := asking()
	here, there := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, stream.New(there, stream.Line, nil)) }()
	lines := bufio.NewReader(here)
	// say sends a line, if it is not "", and reads one that contains want.
	say := func(line, want string) error {
		if line != "" {
			if _, err := io.WriteString(here, line+"\n"); err != nil {
				return err
			}
		}
		if want == "" {
			return nil
		}
		got, err := lines.ReadString('\n')
		if err == nil && !strings.Contains(got, want) {
			err = fmt.Errorf("want %s in %s", want, got)
		}
		return err
	}
	if err := say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`, `"result"`); err != nil {
		return nil, nil, err
	}
	if err := say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""); err != nil {
		return nil, nil, err
	}
	n := 0
	once := func() error {
		n++
		if err := say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask","arguments":{}}}`, n), "elicitation/create"); err != nil {
			return err
		}
		return say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"action":"accept","content":{"name":"Ada"}}}`, n), "Ada")
	}
	return once, func() {
		_ = here.Close() // its peer notices
		<-done
		s.Close()
	}, nil
}

func mcpHTTP(ctx context.Context) (func() error, func(), error) {
	s := asking()
	web := httptest.NewServer(mcphttp.NewHandler(s, nil))
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"subtract","arguments":{"minuend":42,"subtrahend":23},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	header := map[string]string{mcp.HeaderProtocolVersion: "2026-07-28", mcp.HeaderMethod: "tools/call", mcp.HeaderName: "subtract"}
	return post(ctx, web.Client(), web.URL, body, "19", header), func() {
		web.Close()
		s.Close()
	}, nil
}

func a2aStream(ctx context.Context) (func() error, func(), error) {
	worker := &agent.Agent{Card: agent.Card{Name: "words"}, Run: func(ctx context.Context, r *agent.Run) error { return r.Say(ctx, r.Text()) }}
	s := a2a.NewServer(a2aagent.Card(&worker.Card), a2aagent.New(worker), nil)
	web := httptest.NewServer(&a2ahttp.Server{A2A: s})
	n := 0
	once := func() error {
		n++
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{"message":{"kind":"message","messageId":"m%d","role":"user","parts":[{"kind":"text","text":"one"}]}}}`, n)
		var text bytes.Buffer
		err := postTo(ctx, web, body, &text)
		if events := strings.Count(text.String(), "data: "); err == nil && events != 5 {
			err = fmt.Errorf("%d events:\n%s", events, text.String())
		}
		return err
	}
	return once, func() {
		web.Close()
		s.Close()
	}, nil
}

func postTo(ctx context.Context, web *httptest.Server, body string, to io.Writer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := web.Client().Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(to, answer.Body)
	return err
}

// tapPage records a call to a server that is not parley, and waits until the page has its rows.
func tapPage(ctx context.Context) (func() error, func(), error) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a local client
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","result":19,"id":1}`) // likewise
	}))
	where, err := url.Parse(server.URL)
	if err != nil {
		return nil, nil, err
	}
	page, err := playground.New(&playground.Options{Tap: &playground.Tap{Server: server.URL}, Judges: lens.Judges, Recording: capture.Options{MaxDisk: -1}})
	if err != nil {
		return nil, nil, err
	}
	shown := httptest.NewServer(page)
	bound, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	relay := &tap.Relay{Carrier: tap.HTTP, Record: page.Recorder(), Info: capture.WireInfo{Target: server.URL, Carrier: "http"},
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", where.Host)
		}}
	results := make(chan struct{}, 16)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, shown.URL+"/rpc", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"follow","params":{"short":true}}`))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+page.Token())
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := shown.Client().Do(r) //nolint:bodyclose // the goroutine below closes it
	if err != nil {
		return nil, nil, err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- relay.Serve(running, bound) }()
	go func() {
		defer answer.Body.Close()
		lines := bufio.NewReader(answer.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if strings.Contains(line, `"result"`) || strings.Contains(line, `"rows"`) && strings.Contains(line, "subtract") {
				results <- struct{}{}
			}
		}
	}()
	call := post(ctx, new(http.Client), "http://"+bound.Addr().String(), subtract, `"result":19`, nil)
	once := func() error {
		if err := call(); err != nil {
			return err
		}
		select {
		case <-results:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return once, func() {
		stop()
		_ = answer.Body.Close() // the page stops
		<-done
		_ = page.Close() // the process ends soon
		shown.Close()
		server.Close()
	}, nil
}
