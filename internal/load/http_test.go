package load_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/internal/load"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// A rawServer answers each request with bytes, in which ID is replaced by that of the request. A
// text that ends with CLOSE ends the connection after it.
type rawServer struct {
	reply    func(n int) string // of request n, from 0; "" never answers
	at       *url.URL
	conns    atomic.Int64
	requests atomic.Int64
	heads    chan string // of the requests, if not nil
}

func startRaw(t *testing.T, reply func(n int) string) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{reply: reply, at: &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/rpc", RawQuery: "a=b"}, heads: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			wait.Go(func() {
				defer stop()
				defer c.Close()
				s.serve(ctx, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // the test is over
		cancel()
		wait.Wait()
	})
	return s
}

func (s *rawServer) serve(ctx context.Context, c net.Conn) {
	for r := bufio.NewReader(c); ; {
		var head strings.Builder
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
			if line == "\r\n" {
				break
			}
		}
		var size int
		for line := range strings.Lines(head.String()) {
			_, _ = fmt.Sscanf(line, "Content-Length: %d", &size) // most lines are others
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		s.heads <- head.String() + string(body)
		var id string
		_ = jsonrpc.Scan(body, func(m *jsonrpc.Message) { id = m.ID.String() }) // it is valid
		text := s.reply(int(s.requests.Add(1)) - 1)
		if text == "" {
			<-ctx.Done()
			return
		}
		text, closes := strings.CutSuffix(text, "CLOSE")
		if _, err := io.WriteString(c, strings.ReplaceAll(text, "ID", id)); err != nil || closes {
			return
		}
	}
}

// json is a response with a JSON body, whose IDs have one digit.
func json(status, fields, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", status, fields, len(body)-strings.Count(body, "ID"), body)
}

const answer = `{"jsonrpc":"2.0","result":19,"id":ID}`

// outcome describes the error of a call: that of one client must be that of the other.
func outcome(err error) string {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Sprint(e.Code)
	}
	if err != nil {
		return "failed"
	}
	return "ok"
}

// TestHTTPAgrees compares the outcomes of calls with those of the client that all other commands
// use, and counts connections.
func TestHTTPAgrees(t *testing.T) {
	const failure = `{"jsonrpc":"2.0","error":{"code":-32601,"message":"no"},"id":ID}`
	for name, c := range map[string]struct {
		reply, want string
		conns       int64 // for two calls
	}{
		"usual":              {json("200 OK", "", answer), "ok", 1},
		"fields":             {json("200 OK", "Date: now\r\nServer: x\r\nVary: a\r\n", answer), "ok", 1},
		"lower case":         {"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:36\r\n\r\n" + answer, "ok", 1},
		"charset":            {strings.Replace(json("200 OK", "", answer), "/json", "/json; charset=utf-8", 1), "ok", 1},
		"other type":         {strings.Replace(json("200 OK", "", answer), "/json", "/json-rpc", 1), "ok", 1},
		"suffix":             {strings.Replace(json("200 OK", "", answer), "/json", "/x+json", 1), "ok", 1},
		"close":              {json("200 OK", "Connection: close\r\n", answer) + "CLOSE", "ok", 2},
		"HTTP/1.0":           {strings.Replace(json("200 OK", "", answer), "1.1", "1.0", 1) + "CLOSE", "ok", 2},
		"until the end":      {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + answer + "CLOSE", "ok", 2},
		"chunked":            {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + answer[:16] + "\r\n14\r\n" + answer[16:] + "\r\n0\r\n\r\n", "ok", 1},
		"interim":            {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + json("200 OK", "", answer), "ok", 1},
		"long head":          {json("200 OK", "X: "+strings.Repeat("x", 8000)+"\r\n", answer), "ok", 1},
		"error":              {json("200 OK", "", failure), "-32601", 1},
		"error with 404":     {json("404 Not Found", "", failure), "-32601", 1},
		"error without ID":   {json("200 OK", "", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"},"id":null}`), "-32700", 1},
		"stream":             {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: message\ndata: " + `{"jsonrpc":"2.0","method":"tick"}` + "\n\n: comment\n\ndata: " + answer + "\n\nCLOSE", "ok", 2},
		"stream without end": {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: comment\n\nCLOSE", "failed", 2},
		"wrong ID":           {json("200 OK", "", strings.Replace(answer, "ID", `"x"`, 1)), "failed", 0},
		"no message":         {json("200 OK", "", `[]`), "failed", 0},
		"no JSON":            {json("200 OK", "", `{"jsonrpc":`), "failed", 0},
		"request":            {json("200 OK", "", `{"jsonrpc":"2.0","method":"x"}`), "failed", 0},
		"page":               {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p/>", "failed", 0},
		"page with 502":      {"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p/>", "failed", 0},
		"nothing":            {"HTTP/1.1 204 No Content\r\n\r\n", "failed", 0},
		"redirect":           {"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "failed", 0},
		"cut body":           {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n" + answer + "CLOSE", "failed", 0},
		"two lengths":        {json("200 OK", "Content-Length: 1\r\n", answer), "failed", 0},
		"no HTTP":            {answer + "\n", "failed", 0},
		"closed":             {"CLOSE", "failed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startRaw(t, func(int) string { return c.reply })
			h := load.NewHTTP(s.at, load.HTTPOptions{Method: "x", Callers: 1, Timeout: time.Minute})
			defer h.Close()
			for range 2 {
				if err := h.Call(t.Context(), 0); outcome(err) != c.want {
					t.Errorf("%v, want %s", err, c.want)
				}
			}
			if n := s.conns.Load(); c.conns != 0 && n != c.conns {
				t.Errorf("%d connections, want %d", n, c.conns)
			}
			usual := httprpc.NewClient(s.at.String(), &httprpc.Options{Report: func(string, error) {}})
			defer usual.Close()
			if err := usual.Call(t.Context(), "x", nil, nil); outcome(err) != c.want {
				t.Errorf("the other client: %v, want %s", err, c.want)
			}
		})
	}
}

// TestHTTPRequest checks the bytes of the requests, and that nothing is sent twice.
func TestHTTPRequest(t *testing.T) {
	s := startRaw(t, func(n int) string {
		if n == 1 {
			return "CLOSE"
		}
		return json("200 OK", "", answer)
	})
	h := load.NewHTTP(s.at, load.HTTPOptions{
		Header: http.Header{"Authorization": {"Bearer x"}}, Method: "subtract", Params: jsonrpc.Raw(`[42,23]`), Callers: 1, Timeout: time.Minute,
	})
	defer h.Close()
	for i, want := range []error{nil, jsonrpc.ErrClosed, nil} {
		if err := h.Call(t.Context(), 0); !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":%d}`, i+1)
		request := fmt.Sprintf("POST /rpc?a=b HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer x\r\nContent-Length: %d\r\n\r\n%s", s.at.Host, len(body), body)
		if got := <-s.heads; got != request {
			t.Errorf("call %d sent %q, want %q", i, got, request)
		}
	}
	if n := s.requests.Load(); n != 3 {
		t.Errorf("%d requests for 3 calls", n)
	}
}

// TestHTTPEnds checks that a call without a response ends by its timeout, and by Close.
func TestHTTPEnds(t *testing.T) {
	s := startRaw(t, func(int) string { return "" })
	h := load.NewHTTP(s.at, load.HTTPOptions{Method: "x", Callers: 1, Timeout: 50 * time.Millisecond})
	if err := h.Call(t.Context(), 0); !errors.Is(err, jsonrpc.ErrTimeout) {
		t.Errorf("%v, want a timeout", err)
	}
	h.Close()
	h = load.NewHTTP(s.at, load.HTTPOptions{Method: "x", Callers: 1})
	ended := make(chan error, 1)
	go func() { ended <- h.Call(t.Context(), 0) }()
	<-s.heads
	<-s.heads // the call has been sent
	h.Close()
	if err := <-ended; !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("%v, want the end of the client", err)
	}
	if err := h.Call(t.Context(), 0); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("%v after Close", err)
	}
}
