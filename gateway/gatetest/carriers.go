package gatetest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/da1ed7bb/parley/jsonrpc"
)

const garbage = "<html><body>502 Bad Gateway</body></html>"

func idOf(m *jsonrpc.Message) string {
	if m.ID.IsZero() {
		return ""
	}
	return string(m.ID.Append(nil))
}

// track numbers the connections of HTTP.
func (u *Upstream) track(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		u.enter(c)
	case http.StateClosed, http.StateHijacked:
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.conns, c)
	}
}

// enter numbers a connection.
func (u *Upstream) enter(c net.Conn) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.accepted++
	u.conns[c] = u.accepted
	return u.accepted
}

func (u *Upstream) serveHTTP(w http.ResponseWriter, r *http.Request) {
	defer u.begin()()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has left
	}
	p := &Payload{Text: text, Header: r.Header.Clone()}
	s := u.arrive(p)
	if !u.pass(s, r.Context().Done()) {
		panic(http.ErrAbortHandler)
	}
	if s.RetryAfter != "" {
		w.Header().Set("Retry-After", s.RetryAfter)
	}
	body := u.answers(p, s.Fault)
	switch s.Fault {
	case Cut:
		panic(http.ErrAbortHandler)
	case CutHalf:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
		_, _ = w.Write(body[:len(body)/2])        // the connection is closed next
		_ = http.NewResponseController(w).Flush() // otherwise nothing is sent
		panic(http.ErrAbortHandler)
	case Garbage, Status:
		w.Header().Set("Content-Type", "text/html")
		status := http.StatusOK
		if s.Fault == Status {
			if status = s.Status; status == 0 {
				status = http.StatusInternalServerError
			}
		}
		w.WriteHeader(status)
		body = []byte(garbage)
	default:
		if body == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
	}
	_, _ = w.Write(body) // the client may have left
}

func (u *Upstream) serveTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // Refuse
		}
		number := u.enter(c)
		u.work.Go(func() {
			u.serveConn(c, number)
			u.mu.Lock()
			defer u.mu.Unlock()
			delete(u.conns, c)
		})
	}
}

// serveConn handles the lines of one connection. Each line is handled on a goroutine of its own, so
// that a slow answer does not delay the next one.
func (u *Upstream) serveConn(c net.Conn, number int) {
	defer c.Close()
	gone := make(chan struct{})
	defer close(gone)
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		end := u.begin()
		p := &Payload{Text: line[:len(line)-1], Conn: number}
		s := u.arrive(p)
		u.work.Go(func() {
			defer end()
			if !u.pass(s, gone) {
				return
			}
			body := u.answers(p, s.Fault)
			switch s.Fault {
			case Cut:
				_ = c.Close()
				return
			case CutHalf:
				_, _ = c.Write(body[:len(body)/2]) // the connection is closed next
				_ = c.Close()
				return
			case Garbage, Status:
				body = []byte(garbage)
			default:
				if body == nil {
					return
				}
			}
			_, _ = c.Write(append(body, '\n')) // the client may have left
		})
	}
}
