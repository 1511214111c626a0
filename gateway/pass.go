package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// maxSessionID bounds the session ID of an upstream, in bytes. A sealed one is half as long again.
const maxSessionID = 256

// A pass is the endpoint /s/NAME of a server that is reached over HTTP. It passes the requests of
// clients on, one HTTP request for each: POST, and for MCP also GET and DELETE. A server with a
// REST binding (A2A, ACP) also gets the paths below.
//
// The body is parsed, checked and written again. Only the headers that passedOn and passedBack list
// are copied: credentials, cookies and forwarding headers of the client are not sent.
type pass struct {
	gateway *Gateway
	to      *upstream
	base    *url.URL
	prefix  string // the path of the endpoint
	proxy   *httputil.ReverseProxy
	memory  guard.Memory
}

// isREST reports whether the paths below the endpoint belong to the server.
func isREST(protocol string) bool { return protocol == config.A2A || protocol == config.ACP }

// passedOn are the headers of a client that are sent upstream; mcp.HeaderParamPrefix and "A2a-" are
// prefixes of others. Session IDs are opened first.
var passedOn = []string{
	"Accept", "Content-Type", "Last-Event-Id", mcp.HeaderProtocolVersion, mcp.HeaderSession, "Traceparent", "Tracestate",
}

// passedBack are the headers of an upstream that are sent to the client.
var passedBack = []string{
	"Cache-Control", "Content-Length", "Content-Type", "Etag", "Last-Modified", mcp.HeaderProtocolVersion, mcp.HeaderSession, "Retry-After", "Run-Id",
}

func newPass(g *Gateway, u *upstream, prefix string) (*pass, error) {
	base, err := origin.Parse(u.target.URL())
	if err != nil {
		return nil, fmt.Errorf("gateway: server %s: %w", u.entry.Name, err)
	}
	client, _ := origin.Client(nil, nil)
	if t, ok := client.Transport.(*http.Transport); ok {
		t.ResponseHeaderTimeout = u.timeout()
	}
	p := &pass{gateway: g, to: u, base: base, prefix: prefix}
	p.proxy = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      u.creds.trip(finalOnly{client.Transport}, nil),
		FlushInterval:  -1,
		BufferPool:     passBuffers,
		ModifyResponse: p.modify,
		ErrorHandler:   p.failed,
		ErrorLog:       log.New(io.Discard, "", 0), // ErrorHandler reports
	}
	return p, nil
}

// A finalOnly drops informational responses (status 1xx): a ReverseProxy would send their headers
// to the client, and replace those of the gateway.
type finalOnly struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t finalOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	// The hook of the ReverseProxy is a value of the context.
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		stop()
		cancel(err)
		return nil, err
	}
	resp.Request = r // its context ends with the request of the client, and ends ctx
	return resp, nil
}

// passBuffers are the buffers for bodies of responses.
var passBuffers = &bufferPool{sync.Pool{New: func() any { return new([passBuffer]byte) }}}

const passBuffer = 16 << 10

type bufferPool struct{ pool sync.Pool }

// Get implements [httputil.BufferPool].
func (p *bufferPool) Get() []byte {
	b := p.pool.Get().(*[passBuffer]byte)
	return b[:]
}

// Put implements [httputil.BufferPool].
func (p *bufferPool) Put(b []byte) {
	if len(b) == passBuffer {
		p.pool.Put((*[passBuffer]byte)(b))
	}
}

// A passing is one HTTP request on its way. It is in the context of the request.
type passing struct {
	id       jsonrpc.ID // of a single request; zero otherwise
	messages bool       // the body has JSON-RPC messages
	rest     string     // the path below the endpoint
	header   http.Header

	// end gives the place of the request at the upstream back; nil if it has none.
	end func(v verdict)

	// subscribes means that the response is a stream that does not end by itself.
	subscribes bool

	accounts []*account // of the messages
	bytes    int        // of the response, if its length is known
	err      error      // why there is no response of the upstream
	broken   error      // why the body of the response could not be read to its end
}

// finish ends the accounts.
func (x *passing) finish(ctx context.Context) {
	err := x.err
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	for _, a := range x.accounts {
		a.end(x.bytes, err)
	}
}

// ended gives the place back, once.
func (x *passing) ended(v verdict) {
	if x.end != nil {
		x.end(v)
		x.end = nil
	}
}

// over ends a request whose response was passed back. If the response was not complete, that is a
// failure of the upstream, unless the client has left.
func (x *passing) over(upstream string, complete, left bool) {
	switch {
	case complete && x.broken == nil:
		x.ended(verdictSuccess)
	case left || x.broken == nil:
		x.ended(verdictNone)
	default:
		x.ended(verdictFailure)
		if x.err == nil {
			x.err = faultOf(upstream, fmt.Errorf("%w: %w", jsonrpc.ErrBadResponse, x.broken)).error()
		}
	}
}

// A passedBody is the body of a response, which notes whether it breaks off.
type passedBody struct {
	io.ReadCloser
	x *passing
}

// Read implements [io.Reader].
func (b passedBody) Read(dst []byte) (int, error) {
	n, err := b.ReadCloser.Read(dst)
	if err != nil && err != io.EOF {
		b.x.broken = err
	}
	return n, err
}

type passingKey struct{}

// A refusal is a response that the gateway itself makes.
type refusal struct {
	status int
	err    *jsonrpc.Error
	id     jsonrpc.ID
}

// ServeHTTP passes on one request.
func (p *pass) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	if p.gateway.draining.Load() {
		f := newFault(jsonrpc.CodeShuttingDown, "Shutting down", reasonDraining, "", true)
		(&refusal{status: httpStatus(f.code), err: f.error()}).write(w)
		return
	}
	body := &guard.Body{Memory: &p.memory, Key: guard.KeyOf(r), Types: []string{"application/a2a+json"}}
	payload, f := body.Read(w, r, nil)
	if f != nil {
		f.Write(w, r)
		return
	}
	defer body.Done()
	x := &passing{header: make(http.Header)}
	out, bad := p.prepare(x, r, payload)
	if bad != nil {
		bad.write(w)
		return
	}
	defer x.finish(r.Context())
	if bad := p.enter(x, r, len(payload)); bad != nil {
		x.err = bad.err
		bad.write(w)
		return
	}
	ctx := context.WithValue(r.Context(), passingKey{}, x)
	if r.Method == http.MethodGet || x.subscribes {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(p.gateway.streaming, cancel)()
	}
	next := r.WithContext(ctx)
	next.Body, next.ContentLength = http.NoBody, 0
	if len(out) > 0 {
		next.Body, next.ContentLength = io.NopCloser(bytes.NewReader(out)), int64(len(out))
		next.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out)), nil }
	}
	next.TransferEncoding, next.Trailer = nil, nil
	complete := false
	defer func() { x.over(p.to.entry.Name, complete, ctx.Err() != nil) }() // before ctx is cancelled
	p.proxy.ServeHTTP(w, next)                                             // panics if the response breaks off
	complete = true
}

// enter waits for a place at the upstream. A GET has none: it is the stream of a session, or asks
// for the state of something, and the rest of the session has its own requests.
func (p *pass) enter(x *passing, r *http.Request, size int) *refusal {
	if r.Method == http.MethodGet {
		if now := time.Now(); !p.to.member.usable(now) {
			return p.refused(x, p.to.member.refusal(now))
		}
		return nil
	}
	var tried memberSet
	l, err := p.to.alone.acquire(r.Context(), callInfo{principal: principal.Of(r.Context()), bytes: int64(size)}, &tried, true)
	if err != nil {
		return p.refused(x, err)
	}
	x.end = func(v verdict) {
		now := time.Now()
		l.end(v, now.Sub(l.start), now)
	}
	return nil
}

// refused returns the response to a request that the upstream cannot get.
func (p *pass) refused(x *passing, err error) *refusal {
	e, ok := errors.AsType[*callError](err)
	if !ok {
		e = failure(p.to.entry.Name, failed, err, 0) // the client has left
	}
	f := e.fault()
	return &refusal{status: httpStatus(f.code), err: f.error(), id: x.id}
}

// httpStatus returns the status of an error that the gateway itself makes.
func httpStatus(code int64) int {
	switch code {
	case jsonrpc.CodeBusy:
		return http.StatusTooManyRequests
	case jsonrpc.CodeDeadline:
		return http.StatusGatewayTimeout
	case jsonrpc.CodeShuttingDown:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}

// prepare checks a request, and returns the body for the upstream.
func (p *pass) prepare(x *passing, r *http.Request, payload []byte) ([]byte, *refusal) {
	protocol := p.to.entry.Protocol
	rest, ok := p.below(r)
	if !ok {
		return nil, &refusal{status: http.StatusNotFound}
	}
	x.rest = rest
	x.messages = r.Method == http.MethodPost && (rest == "" || !isREST(protocol) || isMessage(payload))
	methods := []string{http.MethodGet, http.MethodPost, http.MethodDelete}
	if isREST(protocol) {
		methods = append(methods, http.MethodPut, http.MethodPatch)
	}
	if !slices.Contains(methods, r.Method) || !x.messages && r.Method != http.MethodPost && len(payload) > 0 && !isREST(protocol) {
		return nil, &refusal{status: http.StatusMethodNotAllowed}
	}
	if bad := p.headers(x, r); bad != nil {
		return nil, bad
	}
	if x.messages {
		return p.checkMessages(x, r, payload)
	}
	c := &access{server: p.to.entry.Name, method: r.Method + " /" + strings.TrimPrefix(rest, "/"), params: payload}
	if e := p.check(x, r, c, jsonrpc.ID{}); e != nil {
		return nil, &refusal{status: http.StatusForbidden, err: e}
	}
	if len(payload) == 0 {
		return nil, nil
	}
	checked, err := jsonrpc.ParseRaw(payload)
	if err != nil {
		return nil, &refusal{status: http.StatusBadRequest, err: jsonrpc.ErrParseError}
	}
	return checked, nil
}

// isMessage reports whether the body of a POST has JSON-RPC messages, and not a request of a REST
// binding.
func isMessage(payload []byte) bool {
	is := false
	// what is not JSON has no message
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { is = is || m.Method != "" || m.Bad == nil })
	return is
}

// errNoSession is the error for a session ID that was not sealed for this server and principal.
var errNoSession = jsonrpc.NewError(-32001, "Session not found")

// below returns the path of the request below the endpoint. It is false for a path that the server
// does not have, or that it could read in another way than the checks do.
func (p *pass) below(r *http.Request) (string, bool) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), p.prefix)
	switch {
	case !ok, rest != "" && rest[0] != '/':
		return "", false
	case rest == "":
		return "", true
	case !isREST(p.to.entry.Protocol):
		return "", false
	}
	plain, err := url.PathUnescape(rest)
	clean := path.Clean(plain)
	if strings.HasSuffix(plain, "/") && clean != "/" {
		clean += "/"
	}
	if err != nil || clean != plain || strings.ContainsAny(plain, "\\%;\x00") || strings.Count(plain, "/") != strings.Count(rest, "/") {
		return "", false
	}
	return rest, true
}

// headers collects the headers for the upstream.
func (p *pass) headers(x *passing, r *http.Request) *refusal {
	bad := &refusal{status: http.StatusBadRequest, err: jsonrpc.ErrInvalidRequest}
	forwarded := p.to.entry.Upstream.ForwardHeaders
	for name, values := range r.Header {
		switch {
		case slices.Contains(passedOn, name), slices.Contains(forwarded, name), strings.HasPrefix(name, "A2a-"):
		default:
			continue
		}
		if len(values) > 1 && name != "Accept" && name != "Tracestate" {
			return bad // the server could use another one than the checks
		}
		x.header[name] = values
	}
	if sealed := x.header.Get(mcp.HeaderSession); sealed != "" {
		id, err := p.openSession(r.Context(), sealed)
		if err != nil {
			return &refusal{status: http.StatusNotFound, err: errNoSession}
		}
		x.header.Set(mcp.HeaderSession, id)
	}
	return nil
}

// checkMessages checks each message of a POST, and returns them as they are written again.
func (p *pass) checkMessages(x *passing, r *http.Request, payload []byte) (out []byte, bad *refusal) {
	isBatch := len(bytes.TrimLeft(payload, " \t\r\n")) > 0 && bytes.TrimLeft(payload, " \t\r\n")[0] == '['
	n := 0
	err := jsonrpc.ScanVersion(p.to.target.Version, payload, func(m *jsonrpc.Message) {
		if bad != nil {
			return
		}
		if n++; n == 1 && m.Request && !isBatch {
			x.id = m.ID
		}
		if m.Bad != nil {
			bad = &refusal{status: p.badStatus(), err: m.Bad, id: m.ID}
			return
		}
		if m.Request {
			c := &access{server: p.to.entry.Name, method: m.Method, params: m.Params}
			if p.to.entry.Protocol == config.MCP {
				if bad = p.checkNames(x, r, m, c); bad != nil {
					return
				}
			}
			if e := p.check(x, r, c, m.ID); e != nil {
				bad = &refusal{status: statusOfRefusal(e), err: e, id: m.ID}
				return
			}
		}
		if n == 1 && isBatch {
			out = append(out, '[')
		} else if n > 1 {
			out = append(out, ',')
		}
		out = appendMessage(out, m)
	})
	if err != nil {
		return nil, &refusal{status: p.badStatus(), err: err, id: jsonrpc.NullID}
	}
	if bad != nil {
		if isBatch {
			bad.id = jsonrpc.NullID
		}
		return nil, bad
	}
	if isBatch {
		out = append(out, ']')
	}
	return out, nil
}

// check checks one call, and begins its account.
func (p *pass) check(x *passing, r *http.Request, a *access, id jsonrpc.ID) *jsonrpc.Error {
	account := p.gateway.account(r.Context(), a, p.to.entry.Protocol, id)
	if e := p.gateway.state.Load().check(r.Context(), a); e != nil {
		account.deny(e)
		return e
	}
	kind := pinTool
	if a.method == mcp.MethodPromptsGet {
		kind = pinPrompt
	}
	if a.named && !p.gateway.pins.allows(a.server, kind, a.tool) {
		e := pinFault(a.server)
		account.deny(e)
		return e
	}
	account.entry.tool = a.tool
	account.sent("", 1, 0)
	x.accounts = append(x.accounts, account)
	return nil
}

// badStatus returns the status of errors about the message itself.
func (p *pass) badStatus() int {
	if p.to.entry.Protocol == config.MCP {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// statusOfRefusal returns the status of an error of the checks.
func statusOfRefusal(e *jsonrpc.Error) int {
	if e.Code == jsonrpc.CodeBusy {
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}

// checkNames sets the headers that repeat parts of an MCP message, which a client may have set to
// something else (MCP 2026-07-28, Streamable HTTP), and the name of the called tool.
func (p *pass) checkNames(x *passing, r *http.Request, m *jsonrpc.Message, c *access) *refusal {
	x.subscribes = x.subscribes || m.Method == mcp.MethodListen
	name, hasName := mcp.NameInHeader(m.Method, m.Params)
	if m.Method == mcp.MethodToolsCall || m.Method == mcp.MethodPromptsGet {
		c.tool, c.named = name, true
	}
	mismatch := &refusal{status: http.StatusBadRequest, err: mcp.ErrHeaderMismatch, id: m.ID}
	set := func(header, want string) bool {
		values := r.Header[header]
		if len(values) == 0 {
			return true
		}
		got, err := mcp.DecodeHeader(values[0])
		x.header.Set(header, mcp.EncodeHeader(want))
		return len(values) == 1 && err == nil && got == want
	}
	if !set(mcp.HeaderMethod, m.Method) || hasName && !set(mcp.HeaderName, name) {
		return mismatch
	}
	arguments := memberIn(m.Params, "arguments")
	for name, values := range r.Header {
		if !strings.HasPrefix(name, mcp.HeaderParamPrefix) {
			continue
		}
		got, err := mcp.DecodeHeader(values[0])
		if len(values) > 1 || err != nil || !hasScalar(arguments, got) {
			return mismatch
		}
		x.header[name] = values
	}
	return nil
}

// hasScalar reports whether a string, number or boolean in value has this text.
func hasScalar(value jsonrpc.Raw, text string) bool {
	if len(value) == 0 {
		return false
	}
	switch value[0] {
	case '{':
		for _, member := range value.Members() {
			if hasScalar(member, text) {
				return true
			}
		}
		return false
	case '[':
		for element := range value.Elements() {
			if hasScalar(element, text) {
				return true
			}
		}
		return false
	case '"':
		is, ok := stringIn(value)
		return ok && is == text
	case 'n': // null
		return false
	}
	return string(value) == text || isSameNumber(string(value), text)
}

// isSameNumber compares numbers that may be spelled in different ways, such as 1 and 1.0.
func isSameNumber(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y && x > -1<<53 && x < 1<<53
}

// appendMessage appends a checked message, written again.
func appendMessage(dst []byte, m *jsonrpc.Message) []byte {
	dst = append(dst, '{')
	if m.Version == jsonrpc.Version2 {
		dst = append(dst, `"jsonrpc":"2.0",`...)
	}
	if !m.ID.IsZero() {
		dst = append(m.ID.Append(append(dst, `"id":`...)), ',')
	}
	member := func(name string, value jsonrpc.Raw) {
		if value != nil {
			dst = append(append(append(dst, name...), value...), ',')
		}
	}
	if m.Request {
		dst = append(jsonrpc.AppendString(append(dst, `"method":`...), m.Method), ',')
	}
	member(`"params":`, m.Params)
	member(`"result":`, m.Result)
	member(`"error":`, m.Error)
	dst[len(dst)-1] = '}'
	return dst
}

// rewrite makes the request to the upstream.
func (p *pass) rewrite(r *httputil.ProxyRequest) {
	x := r.In.Context().Value(passingKey{}).(*passing)
	u := *p.base
	if x.rest != "" {
		u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + x.rest
		u.Path, _ = url.PathUnescape(u.RawPath) // below has checked it
		u.RawQuery = r.In.URL.RawQuery
	}
	r.Out.URL, r.Out.Host, r.Out.Header = &u, u.Host, x.header
	for name, values := range p.to.entry.Header {
		r.Out.Header[name] = values
	}
	if r.Out.Header.Get("User-Agent") == "" {
		r.Out.Header["User-Agent"] = nil // net/http would set its own
	}
}

// modify checks the response of the upstream, and removes what is not passed back.
func (p *pass) modify(resp *http.Response) error {
	x := resp.Request.Context().Value(passingKey{}).(*passing)
	switch {
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
		x.ended(verdictNone)
		p.to.member.breaker.pause(retryAfter(resp.Header, time.Now()), time.Now())
	case resp.StatusCode >= 500 && !isJSON(resp.Header):
		x.ended(verdictFailure)
	case isStream(resp.Header):
		x.ended(verdictSuccess) // it may remain open for long, as a subscription
	}
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.StatusCode != http.StatusNotModified,
		resp.StatusCode == http.StatusSwitchingProtocols,
		resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden && len(resp.Header["Www-Authenticate"]) > 0:
		return fmt.Errorf("%w: HTTP status %d", jsonrpc.ErrBadResponse, resp.StatusCode)
	}
	if x.bytes = int(max(resp.ContentLength, 0)); resp.StatusCode >= 400 {
		x.err = &jsonrpc.Error{Code: jsonrpc.CodeUnavailable}
	}
	kept := make(http.Header, len(resp.Header))
	for name, values := range resp.Header {
		if slices.Contains(passedBack, name) || strings.HasPrefix(name, "A2a-") {
			kept[name] = values
		}
	}
	if id := kept.Get(mcp.HeaderSession); id != "" {
		if len(id) > maxSessionID {
			return fmt.Errorf("%w: its session ID is too long", jsonrpc.ErrBadResponse)
		}
		kept.Set(mcp.HeaderSession, p.sealSession(resp.Request.Context(), id))
	}
	guard.Secure(kept)
	resp.Header, resp.Trailer = kept, nil
	resp.Body = passedBody{resp.Body, x}
	return nil
}

// failed responds in place of the upstream.
func (p *pass) failed(w http.ResponseWriter, r *http.Request, err error) {
	x := r.Context().Value(passingKey{}).(*passing)
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		x.ended(verdictNone)
		return // the client has left
	}
	p.gateway.report(ReportUpstream, fmt.Errorf("%s: %w", p.to.entry.Name, err))
	x.ended(verdictFailure)
	if t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && t.Timeout() {
		err = errTimeout
	}
	f := faultOf(p.to.entry.Name, err)
	x.err = f.error()
	(&refusal{status: httpStatus(f.code), err: f.error(), id: x.id}).write(w)
}

// isJSON and isStream report the type of a body.
func isJSON(h http.Header) bool   { return hasType(h, "application/json") }
func isStream(h http.Header) bool { return hasType(h, "text/event-stream") }

func hasType(h http.Header, want string) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == want
}

// write sends the response.
func (f *refusal) write(w http.ResponseWriter) {
	guard.Secure(w.Header())
	if f.err == nil {
		if f.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", "DELETE, GET, POST")
		}
		http.Error(w, http.StatusText(f.status), f.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	id := f.id
	if id.IsZero() {
		id = jsonrpc.NullID
	}
	w.WriteHeader(f.status)
	// the client may have left
	_, _ = w.Write(jsonrpc.AppendError(nil, jsonrpc.Version2, id, f.err))
}

// binding is what a session ID is bound to: a client cannot use it at another server, nor another
// client at this one.
func (p *pass) binding(ctx context.Context) []byte {
	return []byte("session\x00" + p.to.entry.Name + "\x00" + principal.Of(ctx))
}

func (p *pass) sealSession(ctx context.Context, id string) string {
	return p.gateway.sealer.Seal([]byte(id), p.binding(ctx))
}

func (p *pass) openSession(ctx context.Context, text string) (string, error) {
	if len(text) > 2*maxSessionID {
		return "", errors.New("gateway: the session ID is too long")
	}
	id, err := p.gateway.sealer.Open(text, p.binding(ctx))
	return string(id), err
}
