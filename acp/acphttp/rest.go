package acphttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// headerRunID is the header with the id of the run, in the spelling of the protocol.
const headerRunID = "Run-ID"

// headerAfter reports that a list of events begins after a number: servers that do not support the
// query "after" return all events.
const headerAfter = "Events-After"

// NewREST returns a handler for the released binding (ACP 0.2.0, paths) below the path where it is
// mounted, such as with [http.StripPrefix]. In addition to the specification it serves: sessions
// also at /sessions, as the reference server does; /resources for the messages of sessions; and GET
// /runs/{run_id}/events as an event stream, for clients that accept one, starting after the header
// Last-Event-ID or the query "after". Each event of a stream has its number as id. NewREST returns
// an error if a name in the options is invalid.
func NewREST(s *acp.Server, o *Options) (http.Handler, error) {
	if o == nil {
		o = &Options{}
	}
	b := &rest{server: s, opts: *o}
	b.responses = httprpc.Server{MaxMessage: o.MaxMessage, KeepAlive: o.KeepAlive, WriteTimeout: o.WriteTimeout}
	return b.opts.door(b)
}

type rest struct {
	server    *acp.Server
	opts      Options
	responses httprpc.Server
}

// A visit is one request and its response.
type visit struct {
	*rest
	*httprpc.Response
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context
	path string // below the mount path
}

// ServeHTTP handles one request.
func (b *rest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	v := &visit{rest: b, Response: b.responses.Begin(w, r), w: w, r: r, ctx: r.Context(), path: r.URL.Path}
	defer v.Close()
	route, id := v.route()
	switch {
	case route == nil:
		v.fail(noSuchPath)
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		v.get(route, id)
	case r.Method == http.MethodPost:
		v.post(route, id)
	default:
		guard.MethodOnly(route.allow()).Write(w, r)
	}
}

var noSuchPath = &acp.Error{Code: acp.CodeNotFound, Message: "Not found."}

// A route holds the handlers of a path.
type route struct {
	get  func(*visit, string) error
	post func(v *visit, id string, body []byte) error

	streams bool // get may send a stream, which lasts; otherwise its response is counted by Skip
}

func (t *route) allow() string {
	switch {
	case t.post == nil:
		return "GET, HEAD"
	case t.get == nil:
		return "POST"
	}
	return "GET, HEAD, POST"
}

// route returns the route of the path, and the id in the path.
func (v *visit) route() (t *route, id string) {
	head, rest, more := strings.Cut(strings.TrimPrefix(v.path, "/"), "/")
	id, action, acts := strings.Cut(rest, "/")
	if acts && head != "runs" || more && id == "" {
		return nil, ""
	}
	key := head
	if more {
		key += "/"
	}
	if acts {
		key += "/" + action
	}
	return routes[key], id
}

var routes = map[string]*route{
	"ping":         {get: (*visit).ping},
	"agents":       {get: (*visit).agents},
	"agents/":      {get: (*visit).agent},
	"runs":         {post: (*visit).create},
	"runs/":        {get: (*visit).run, post: (*visit).resume},
	"runs//cancel": {post: (*visit).cancel},
	"runs//events": {get: (*visit).events, streams: true},
	"session/":     {get: (*visit).session}, // as in the specification
	"sessions/":    {get: (*visit).session}, // as in the reference server and its clients
	"resources/":   {get: (*visit).resource},
}

func (v *visit) get(t *route, id string) {
	if t.get == nil {
		guard.MethodOnly(t.allow()).Write(v.w, v.r)
		return
	}
	if !t.streams && !v.Skip() {
		return
	}
	if err := t.get(v, id); err != nil {
		v.fail(err)
	}
}

func (v *visit) post(t *route, id string) {
	if t.post == nil {
		guard.MethodOnly(t.allow()).Write(v.w, v.r)
		return
	}
	text, ok := v.Read()
	if !ok {
		return
	}
	if err := t.post(v, id, text); err != nil {
		v.fail(err)
	}
}

// accepts reports whether the client accepts a media type.
func (v *visit) accepts(kind string) bool {
	q, _ := guard.Quality(v.r.Header["Accept"], kind)
	return q > 0
}

// answer writes a value as JSON.
func (v *visit) answer(status int, value any) error {
	if !v.accepts("application/json") {
		return guard.NotAcceptable()
	}
	return v.write(status, value)
}

func (v *visit) write(status int, value any) error {
	text, ok := value.(jsonrpc.Raw)
	if !ok {
		var err error
		if text, err = json.Marshal(value); err != nil {
			return err
		}
	}
	v.Status = status
	v.Finish(text, nil)
	return nil
}

// fail writes an error response. Details of private errors are not sent, and nothing is sent if the
// client has gone.
func (v *visit) fail(err error) {
	if refused, ok := errors.AsType[*guard.Refusal](err); ok {
		refused.Write(v.w, v.r)
		return
	}
	public, ok := errors.AsType[*acp.Error](err)
	if !ok {
		public = &acp.Error{Code: acp.CodeServerError, Message: "Internal error"}
	}
	status := statusOf(public)
	if status == http.StatusServiceUnavailable {
		v.w.Header().Set("Retry-After", "1")
	}
	if err := v.write(status, public); err != nil {
		v.w.WriteHeader(http.StatusInternalServerError) // unreachable: an error consists of strings
	}
}

// statusOf returns the HTTP status of an error.
func statusOf(e *acp.Error) int {
	switch {
	case e.Is(acp.ErrNotFound):
		return http.StatusNotFound
	case e.Is(acp.ErrMismatch):
		return http.StatusBadRequest
	case e.Is(acp.ErrInvalid):
		return http.StatusUnprocessableEntity
	case e.Is(acp.ErrOver), e.Is(acp.ErrNotAwaiting):
		return http.StatusForbidden // as in the reference server
	case e.Is(acp.ErrNotKept):
		return http.StatusGone
	case e.Is(acp.ErrBusy):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func (v *visit) ping(string) error { return v.answer(http.StatusOK, jsonrpc.Raw("{}")) }

func (v *visit) agents(string) error {
	limit, err := v.number("limit", 1)
	if err != nil {
		return err
	}
	offset, err := v.number("offset", 0)
	if err != nil {
		return err
	}
	all, err := v.server.Agents(int(limit), int(offset))
	if err != nil {
		return err
	}
	return v.answer(http.StatusOK, acp.AgentsListResponse{Agents: all})
}

// number returns a number of the query, 0 if it is missing.
func (v *visit) number(name string, least int64) (int64, error) {
	text := v.r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	return parseNumber(name, text, least)
}

func parseNumber(name, text string, least int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < least {
		return 0, &acp.Error{Code: acp.CodeInvalidInput, Message: name + " must be a number from " + strconv.FormatInt(least, 10) + " on."}
	}
	return n, nil
}

func (v *visit) agent(name string) error {
	m, err := v.server.Agent(name)
	if err != nil {
		return err
	}
	return v.answer(http.StatusOK, m)
}

func (v *visit) run(id string) error {
	run, err := v.server.Run(v.ctx, id)
	if err != nil {
		return err
	}
	return v.answer(http.StatusOK, run)
}

func (v *visit) cancel(id string, _ []byte) error {
	if err := v.admits(acp.ModeAsync); err != nil {
		return err
	}
	run, err := v.server.Cancel(v.ctx, id)
	if err != nil {
		return err
	}
	return v.write(http.StatusAccepted, run)
}

func (v *visit) session(id string) error {
	session, err := v.server.SessionAt(v.ctx, id, v.resourceURL)
	if err != nil {
		return err
	}
	return v.answer(http.StatusOK, session)
}

// resourceURL returns the URL of the resource with an id.
func (v *visit) resourceURL(id string) string {
	base := strings.TrimSuffix(v.opts.BaseURL, "/")
	if base == "" {
		base = "http://" + v.r.Host
		if v.r.TLS != nil {
			base = "https://" + v.r.Host
		}
		// The original path includes the mount path, which v.path does not.
		asked, _, _ := strings.Cut(v.r.RequestURI, "?")
		if mount, ok := strings.CutSuffix(asked, v.r.URL.EscapedPath()); ok && strings.HasPrefix(asked, "/") {
			base += mount
		}
	}
	return base + "/resources/" + id
}

func (v *visit) resource(id string) error {
	text, err := v.server.Resource(v.ctx, id)
	if err != nil {
		return err
	}
	return v.answer(http.StatusOK, text)
}

func (v *visit) create(_ string, body []byte) error {
	var in acp.RunCreateRequest
	if err := acp.Parse(body, &in); err != nil {
		return err
	}
	if err := v.admits(in.Mode); err != nil {
		return err
	}
	run, err := v.server.Create(v.ctx, &in)
	if err != nil {
		return err
	}
	return v.attend(in.Mode, run, 0)
}

func (v *visit) resume(id string, body []byte) error {
	var in acp.RunResumeRequest
	if err := acp.Parse(body, &in); err != nil {
		return err
	}
	if in.RunID != "" && in.RunID != id {
		return &acp.Error{Code: acp.CodeInvalidInput, Message: "run_id does not match the path."}
	}
	if err := v.admits(in.Mode); err != nil {
		return err
	}
	in.RunID = id
	run, after, err := v.server.Resume(v.ctx, &in)
	if err != nil {
		return err
	}
	return v.attend(in.Mode, run, after)
}

// admits checks that the client accepts the media type of the mode's response, before the request
// takes effect.
func (v *visit) admits(mode acp.RunMode) error {
	kind := "application/json"
	if mode == acp.ModeStream {
		kind = eventstream.ContentType
	}
	if !v.accepts(kind) {
		return guard.NotAcceptable()
	}
	return nil
}

// attend writes the response as the mode requires.
func (v *visit) attend(mode acp.RunMode, run acp.Run, after int64) error {
	v.w.Header()[headerRunID] = []string{run.ID}
	switch mode {
	case acp.ModeAsync:
		return v.write(http.StatusAccepted, run)
	case acp.ModeStream:
		if err := v.stream(run.ID, after); err != nil {
			v.server.Abandoned(v.ctx, run.ID)
		}
		return nil
	}
	id := run.ID
	run, err := v.server.Wait(v.ctx, id)
	if err != nil {
		v.server.Abandoned(v.ctx, id)
		return err
	}
	return v.write(http.StatusOK, run)
}
