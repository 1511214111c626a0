package acphttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// headerRunID names the run that an answer is about. It is written as the protocol spells it.
const headerRunID = "Run-ID"

// headerAfter tells that a list of events begins behind a number: servers that do not know the query "after" return all.
const headerAfter = "Events-After"

// NewREST serves the released binding (ACP 0.2.0, paths) below the path that it is mounted at, as by [http.StripPrefix]. Beyond the
// specification: sessions also at /sessions, as the reference server has them; /resources for the messages of sessions; and
// GET /runs/{run_id}/events as an event stream, for those who accept one, behind the header Last-Event-ID or the query "after". Each
// event of a stream has its number as id. The error is about names in the options.
func NewREST(s *acp.Server, o *Options) (http.Handler, error) {
	if o == nil {
		o = &Options{}
	}
	b := &rest{server: s, opts: *o}
	return b.opts.door(b)
}

type rest struct {
	server *acp.Server
	opts   Options
	memory guard.Memory // bodies that are read: 512 MiB together, then the next ones wait
	watch  guard.Watch
}

// A visit is one request and its answer.
type visit struct {
	*rest
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context
	path string // below the mount
}

// ServeHTTP answers one request.
func (b *rest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{rest: b, w: w, r: r, ctx: r.Context(), path: r.URL.Path}
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

var noSuchPath = &acp.Error{Code: acp.CodeNotFound, Message: "There is nothing at this path."}

// A route is what can be done at a path.
type route struct {
	get  func(*visit, string) error
	post func(v *visit, id string, body []byte) error
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

// route finds the route of the path, and the id in it.
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
	"runs//events": {get: (*visit).events},
	"session/":     {get: (*visit).session}, // as the specification has it
	"sessions/":    {get: (*visit).session}, // as the reference server and its clients have it
	"resources/":   {get: (*visit).resource},
}

func (v *visit) get(t *route, id string) {
	if t.get == nil {
		guard.MethodOnly(t.allow()).Write(v.w, v.r)
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
	body := guard.Body{Max: v.opts.MaxMessage, Memory: &v.memory, Watch: &v.watch}
	text, refused := body.Read(v.w, v.r, nil)
	if refused != nil {
		refused.Write(v.w, v.r)
		return
	}
	err := t.post(v, id, text)
	body.Done(len(text))
	if err != nil {
		v.fail(err)
	}
}

// accepts reports whether the client takes a media type.
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
	h := v.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(v.opts.writeTimeout())) // without deadlines the server's own limits hold
	v.w.WriteHeader(status)
	_, _ = v.w.Write(text) // if the client is gone there is nobody to tell
	return nil
}

// fail answers with an error. One that is private, or whose reader has gone, says nothing.
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
		v.w.WriteHeader(http.StatusInternalServerError) // cannot be: an error is made of strings
	}
}

// statusOf is the HTTP status of an error.
func statusOf(e *acp.Error) int {
	switch {
	case e.Is(acp.ErrNotFound):
		return http.StatusNotFound
	case e.Is(acp.ErrMismatch):
		return http.StatusBadRequest
	case e.Is(acp.ErrInvalid):
		return http.StatusUnprocessableEntity
	case e.Is(acp.ErrOver), e.Is(acp.ErrNotAwaiting):
		return http.StatusForbidden // as the reference server has it
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

// number reads a number of the query, 0 if it is not there.
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
		return 0, &acp.Error{Code: acp.CodeInvalidInput, Message: name + " is a number from " + strconv.FormatInt(least, 10) + " on."}
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

// resourceURL is where the resource with an id can be had.
func (v *visit) resourceURL(id string) string {
	base := strings.TrimSuffix(v.opts.BaseURL, "/")
	if base == "" {
		base = "http://" + v.r.Host
		if v.r.TLS != nil {
			base = "https://" + v.r.Host
		}
		// The path as it came has the mount in it, which the path that we see has not.
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
		return &acp.Error{Code: acp.CodeInvalidInput, Message: "run_id is not the run of this path."}
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

// admits looks whether the client takes what the mode answers, before anything has happened.
func (v *visit) admits(mode acp.RunMode) error {
	kind := "application/json"
	if mode == acp.ModeStream {
		kind = sse.ContentType
	}
	if !v.accepts(kind) {
		return guard.NotAcceptable()
	}
	return nil
}

// attend answers in the way of the mode.
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
