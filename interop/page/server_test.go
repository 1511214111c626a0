package page

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A raw is a server below every protocol: it stores the received bytes, and sends what the test
// specifies.
type raw struct {
	address string

	mu      sync.Mutex
	got     []byte        // guarded by mu
	changed chan struct{} // closed at the next byte; guarded by mu
	conns   []net.Conn    // guarded by mu
}

// A request is the part of a line that a responding server examines.
type request struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params jsontext.Value `json:"params"`
}

// listen starts a server for newline-delimited messages. answer returns the lines to send in
// response to a request; if nil, nothing is sent.
func listen(t *testing.T, answer func(r request) []string) *raw {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &raw{address: "tcp://" + l.Addr().String(), changed: make(chan struct{})}
	var running sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		running.Wait()
	})
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			running.Go(func() { s.serve(c, answer) })
		}
	})
	return s
}

func (s *raw) serve(c net.Conn, answer func(r request) []string) {
	lines := bufio.NewReader(io.TeeReader(c, s))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if answer == nil || json.Unmarshal(bytes.TrimSpace(line), &r) != nil {
			continue
		}
		for _, text := range answer(r) {
			io.WriteString(c, text+"\n")
		}
	}
}

// Write stores the received bytes.
func (s *raw) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, b...)
	close(s.changed)
	s.changed = make(chan struct{})
	return len(b), nil
}

// say sends bytes to all connections.
func (s *raw) say(t *testing.T, text []byte) {
	t.Helper()
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	if len(conns) == 0 {
		t.Fatal("nobody is connected")
	}
	for _, c := range conns {
		if _, err := c.Write(text); err != nil {
			t.Error(err)
		}
	}
}

// gets waits until the last received bytes are want.
func (s *raw) gets(t *testing.T, want []byte) {
	t.Helper()
	end := time.After(patience)
	for {
		s.mu.Lock()
		got, changed := s.got, s.changed
		s.mu.Unlock()
		if bytes.HasSuffix(got, want) {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("on the other side\n%q\ncame, want at the end\n%q", got, want)
		}
	}
}

// listenHTTP starts a server that stores the body of each POST and responds with a result.
func listenHTTP(t *testing.T) *raw {
	t.Helper()
	s := &raw{changed: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = s.Write(body) // writes to memory
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`)
	}))
	t.Cleanup(server.Close)
	s.address = server.URL + "/rpc"
	return s
}

// result returns a response line.
func result(id jsontext.Value, value string) string {
	return `{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + value + `}`
}

// refuse responds to every request with "method not found".
func refuse(r request) []string {
	if r.ID == nil || r.Method == "" {
		return nil
	}
	return []string{`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"error":{"code":-32601,"message":"Method not found"}}`}
}
