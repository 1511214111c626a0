package acp

import (
	"context"
	"errors"
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// The JSON-RPC binding: "acp-jsonrpc 1" (docs/guides/acp.md).

// Serve answers the calls of one client until it hangs up, ctx ends or t is closed. Runs go on.
func (s *Server) Serve(ctx context.Context, t jsonrpc.Transport) error {
	conn := jsonrpc.NewConn(t)
	s.Configure(&conn.Answerer)
	return conn.Serve(ctx)
}

// Configure sets what a [jsonrpc.Answerer] needs to answer for this server.
func (s *Server) Configure(a *jsonrpc.Answerer) {
	a.Handler, a.Mode, a.Cancellation, a.Report = s, Mode, jsonrpc.CancelRequest, s.opts.Report
}

// Mount adds the methods to a Mux that has others too.
func (s *Server) Mount(m *jsonrpc.Mux) {
	for _, method := range []string{MethodPing, MethodAgentsList, MethodAgentsGet, MethodRunsCreate, MethodRunsGet, MethodRunsResume,
		MethodRunsCancel, MethodRunsEvents, MethodRunsSubscribe, MethodSessionsGet} {
		m.Add(method, s, Mode(method))
	}
}

// Handle answers one call.
func (s *Server) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	result, err := s.dispatch(ctx, req)
	if err == nil {
		return result, nil
	}
	public, isOurs := errors.AsType[*Error](err)
	_, isRPC := errors.AsType[*jsonrpc.Error](err)
	switch {
	case isOurs:
		return nil, public.RPC()
	case isRPC:
		return nil, err
	}
	if ctx.Err() == nil {
		s.report("request", err)
	}
	return nil, (&Error{Code: CodeServerError, Message: "Internal error"}).RPC()
}

func (s *Server) dispatch(ctx context.Context, req *jsonrpc.Request) (any, error) {
	switch req.Method {
	case MethodPing:
		return emptyObject, params(req, &struct{}{})
	case MethodAgentsList:
		return s.handleList(req)
	case MethodAgentsGet:
		var in NameParams
		if err := params(req, &in); err != nil {
			return nil, err
		}
		return s.Agent(in.Name)
	case MethodRunsCreate:
		return s.handleCreate(ctx, req)
	case MethodRunsResume:
		return s.handleResume(ctx, req)
	case MethodRunsGet, MethodRunsCancel:
		var in RunParams
		if err := params(req, &in); err != nil {
			return nil, err
		}
		if req.Method == MethodRunsCancel {
			return s.Cancel(ctx, in.RunID)
		}
		return s.Run(ctx, in.RunID)
	case MethodRunsEvents:
		return s.handleEvents(ctx, req)
	case MethodRunsSubscribe:
		return s.handleSubscribe(ctx, req)
	case MethodSessionsGet:
		var in SessionParams
		if err := params(req, &in); err != nil {
			return nil, err
		}
		return s.Session(ctx, in.SessionID)
	}
	return nil, jsonrpc.ErrMethodNotFound
}

// params reads the params of a request, which have names.
func params(req *jsonrpc.Request, v any) error {
	if req.Params == nil {
		req.Params = emptyObject
	}
	if !isObject(req.Params) {
		return invalid("params are an object: this protocol has no params by position.")
	}
	if err := req.Params.Decode(v); err != nil {
		return unfit(err)
	}
	return nil
}

func (s *Server) handleList(req *jsonrpc.Request) (any, error) {
	in := struct {
		Limit  *int `json:"limit"`
		Offset int  `json:"offset"`
	}{}
	if err := params(req, &in); err != nil {
		return nil, err
	}
	limit := 0
	if in.Limit != nil {
		if limit = *in.Limit; limit == 0 {
			limit = -1 // the least is 1
		}
	}
	agents, err := s.Agents(limit, in.Offset)
	return AgentsListResponse{agents}, err
}

func (s *Server) handleCreate(ctx context.Context, req *jsonrpc.Request) (any, error) {
	var in RunCreateRequest
	if err := params(req, &in); err != nil {
		return nil, err
	}
	if err := noStreamInBatch(req, in.Mode); err != nil {
		return nil, err
	}
	run, err := s.Create(ctx, &in)
	if err != nil || in.Mode == ModeAsync || req.IsNotification() {
		return run, err
	}
	return s.attend(ctx, req, in.Mode, run.ID, 0)
}

func (s *Server) handleResume(ctx context.Context, req *jsonrpc.Request) (any, error) {
	var in RunResumeRequest
	if err := params(req, &in); err != nil {
		return nil, err
	}
	if in.RunID == "" {
		return nil, invalid("run_id is missing.")
	}
	if err := noStreamInBatch(req, in.Mode); err != nil {
		return nil, err
	}
	run, after, err := s.Resume(ctx, &in)
	if err != nil || in.Mode == ModeAsync || req.IsNotification() {
		return run, err
	}
	return s.attend(ctx, req, in.Mode, run.ID, after)
}

// attend waits for what the mode asks for, and cancels the run if nobody waits any more and that is wanted.
func (s *Server) attend(ctx context.Context, req *jsonrpc.Request, mode RunMode, id string, after int64) (run Run, err error) {
	if mode == ModeStream {
		run, err = s.stream(ctx, req, id, after)
	} else {
		run, err = s.Wait(ctx, id)
	}
	if errors.Is(err, jsonrpc.ErrOneWay) { // there is no way to send an event
		_, _ = s.Cancel(context.WithoutCancel(ctx), id) // it may be over
		return run, invalid("Events cannot be sent in answer to this request: it accepts no stream.")
	}
	if err != nil {
		s.Abandoned(ctx, id)
	}
	return run, err
}

// Abandoned tells that whoever waited for a run since it was created or resumed, with ctx, does not do so any more. It cancels the run if
// Options.CancelOnDisconnect says so. It is for bindings.
func (s *Server) Abandoned(ctx context.Context, id string) {
	if s.opts.CancelOnDisconnect {
		_, _ = s.Cancel(context.WithoutCancel(ctx), id) // it may be over
	}
}

// stream sends the events of a run to whoever made a request.
func (s *Server) stream(ctx context.Context, req *jsonrpc.Request, id string, after int64) (Run, error) {
	peer := req.Peer()
	return s.Follow(ctx, id, after, func(page []Record) error {
		for _, record := range page {
			if err := peer.Notify(ctx, NotifyRunEvent, &RunEvent{id, record.Seq, req.ID, record.Event}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Server) handleSubscribe(ctx context.Context, req *jsonrpc.Request) (any, error) {
	var in EventsParams
	if err := params(req, &in); err != nil {
		return nil, err
	}
	if err := noStreamInBatch(req, ModeStream); err != nil {
		return nil, err
	}
	if req.IsNotification() {
		return nil, nil // there is nobody to tell
	}
	run, err := s.stream(ctx, req, in.RunID, in.After)
	if errors.Is(err, jsonrpc.ErrOneWay) {
		return nil, invalid("Events cannot be sent in answer to this request: it accepts no stream.")
	}
	return run, err
}

func noStreamInBatch(req *jsonrpc.Request, mode RunMode) error {
	if req.Batched() && mode == ModeStream {
		return invalid("There are no streams in a batch.")
	}
	return nil
}

func (s *Server) handleEvents(ctx context.Context, req *jsonrpc.Request) (any, error) {
	var in EventsParams
	if err := params(req, &in); err != nil {
		return nil, err
	}
	page, err := s.Events(ctx, in.RunID, in.After)
	if err != nil {
		return nil, err
	}
	return EventList(page), nil
}

// EventList writes records as the list of events that both bindings answer.
func EventList(page []Record) jsonrpc.Raw {
	size := 0
	for _, r := range page {
		size += len(r.Event) + 1
	}
	out := append(slices.Grow([]byte(nil), size+16), `{"events":[`...)
	for i, r := range page {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, r.Event...)
	}
	return append(out, "]}"...)
}
