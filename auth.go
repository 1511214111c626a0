package parley

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// MethodAuthenticate shows a bearer token on a carrier that has no headers: tcp and tls. Its params are {"token": "…"}, its
// result is true. It is ours alone; JSON-RPC leaves names with "rpc." to such extensions (JSON-RPC 2.0, section 8).
const MethodAuthenticate = "rpc.authenticate"

const (
	authTime   = 10 * time.Second // how long a connection may stay without credentials
	authTrials = 3                // requests that are refused before the connection is closed
)

// credentials are the params of rpc.authenticate.
type credentials struct {
	Token string `json:"token"`
}

var (
	errUnauthenticated = errors.New("the peer did not say who it is")
	faultNoToken       = &jsonrpc.Error{Code: jsonrpc.CodeUnauthorized, Message: "Unauthenticated",
		Data: jsonrpc.Raw(`{"reason":"unauthenticated","retryable":false}`)}
	faultBadToken = &jsonrpc.Error{Code: jsonrpc.CodeUnauthorized, Message: "Unauthenticated",
		Data: jsonrpc.Raw(`{"reason":"invalid_token","retryable":false}`)}
)

// A streamDoor stands before the handler of one conversation until a token was shown.
type streamDoor struct {
	conn   *jsonrpc.Conn
	next   jsonrpc.Handler
	tokens []guard.Digest
	late   *time.Timer

	mu      sync.Mutex // guards what is below
	open    bool
	refused int
}

// lock puts a door before the handler of conn. It returns a function to call when the conversation is over.
func lock(conn *jsonrpc.Conn, tokens []string) (over func()) {
	d := &streamDoor{conn: conn, next: conn.Handler}
	for _, token := range tokens {
		d.tokens = append(d.tokens, guard.DigestOf(token))
	}
	mode := conn.Mode
	conn.Handler = d
	conn.Mode = func(method string) jsonrpc.Mode {
		switch {
		case method == MethodAuthenticate:
			return jsonrpc.Quick // what stands behind it on the wire finds the door open
		case mode == nil:
			return 0
		}
		return mode(method)
	}
	d.late = time.AfterFunc(authTime, func() { conn.Hangup(fmt.Errorf("%w within %v", errUnauthenticated, authTime)) })
	return func() { d.late.Stop() }
}

func (d *streamDoor) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if req.Method == MethodAuthenticate {
		return d.authenticate(req)
	}
	d.mu.Lock()
	open := d.open
	d.mu.Unlock()
	if !open {
		return nil, d.refuse(req, faultNoToken)
	}
	return d.next.Handle(ctx, req)
}

func (d *streamDoor) authenticate(req *jsonrpc.Request) (any, error) {
	var shown credentials
	if req.Params == nil || req.Params.Decode(&shown) != nil || !d.knows(shown.Token) {
		return nil, d.refuse(req, faultBadToken)
	}
	d.mu.Lock()
	d.open = true
	d.mu.Unlock()
	d.late.Stop()
	return true, nil
}

// knows compares with all tokens, in a time that does not depend on which one it is.
func (d *streamDoor) knows(token string) bool {
	digest := guard.DigestOf(token)
	found := 0
	for i := range d.tokens {
		found |= subtle.ConstantTimeCompare(digest[:], d.tokens[i][:])
	}
	return found == 1
}

// refuse counts what was turned away, and hangs up behind the last answer.
func (d *streamDoor) refuse(req *jsonrpc.Request, fault *jsonrpc.Error) error {
	d.mu.Lock()
	d.refused++
	last := d.refused >= authTrials
	d.mu.Unlock()
	if last {
		req.After(func() {
			go d.end() // whoever serves the conversation waits for its end
		})
	}
	return fault
}

// end hangs up once the refusals are written.
func (d *streamDoor) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = d.conn.Shutdown(ctx) // the end comes either way
}

// authenticate shows the dialer's token on a carrier without headers.
func (d *Dialer) authenticate(ctx context.Context, conn *jsonrpc.Conn) error {
	err := conn.Call(ctx, MethodAuthenticate, credentials{d.Token}, nil)
	if errors.Is(err, jsonrpc.ErrMethodNotFound) {
		return fmt.Errorf("the server knows no tokens on this carrier: %w", err)
	}
	return err
}
