package acp

import (
	"context"
	"errors"
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file implements the JSON-RPC binding, "acp-jsonrpc 1" (docs/guides/acp.md).

// Serve handles the calls of one client until it disconnects, ctx is canceled or t is closed. Runs
// continue.
func (s *Server) Serve(ctx context.Context, t jsonrpc.Transport) error {
	conn := jsonrpc.NewConn(t)
	s.Configure(&conn.Answerer)
	return conn.Serve(ctx)
}

// Configure sets the fields of a [jsonrpc.Answerer] that handles calls for this server.
func (s *Server) Configure(a *jsonrpc.Answerer) {
	a.Handler, a.Mode, a.Cancellation, a.Report = s, Mode, jsonrpc.CancelRequest, s.opts.Report
}

// Mount adds the methods to a Mux, which may have others too.
func (s *Server) Mount(m *jsonrpc.Mux) {
	for _, method := range []string{MethodPing, MethodAgentsList, MethodAgentsGet, MethodRunsCreate, MethodRunsGet, MethodRunsResume,
		MethodRunsCancel, MethodRunsEvents, MethodRunsSubscribe, MethodSessionsGet} {
		m.Add(method, s, Mode(method))
	}
}

// Handle handles one call.
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
		s.report(ReportRequest, err)
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

// params decodes the params of a request, which must be an object.
func params(req *jsonrpc.Request, v any) error {
	if req.Params == nil {
		req.Params = emptyObject
	}
	if !isObject(req.Params) {
		return invalid("params must be an object: this protocol has no positional params.")
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
			limit = -1 // the minimum is 1
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

// attend waits as the mode requires, and cancels the run if the caller has gone and
// CancelOnDisconnect is set.
func (s *Server) attend(ctx context.Context, req *jsonrpc.Request, mode RunMode, id string, after int64) (run Run, err error) {
	if mode == ModeStream {
		run, err = s.streamEvents(ctx, req, id, after)
	} else {
		run, err = s.Wait(ctx, id)
	}
	if errors.Is(err, jsonrpc.ErrOneWay) { // an event cannot be sent
		_, _ = s.Cancel(context.WithoutCancel(ctx), id) // it may be over
		return run, invalid("The response to this request cannot be a stream: the request does not accept one.")
	}
	if err != nil {
		s.Abandoned(ctx, id)
	}
	return run, err
}

// Abandoned reports that the caller that waited for a run with ctx, since it was created or
// resumed, has stopped waiting. It cancels the run if Options.CancelOnDisconnect is set. Bindings
// call it.
func (s *Server) Abandoned(ctx context.Context, id string) {
	if s.opts.CancelOnDisconnect {
		_, _ = s.Cancel(context.WithoutCancel(ctx), id) // it may be over
	}
}

// streamEvents sends the events of a run to the caller of a request.
func (s *Server) streamEvents(ctx context.Context, req *jsonrpc.Request, id string, after int64) (Run, error) {
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
		return nil, nil // a notification gets no events
	}
	run, err := s.streamEvents(ctx, req, in.RunID, in.After)
	if errors.Is(err, jsonrpc.ErrOneWay) {
		return nil, invalid("The response to this request cannot be a stream: the request does not accept one.")
	}
	return run, err
}

func noStreamInBatch(req *jsonrpc.Request, mode RunMode) error {
	if req.Batched() && mode == ModeStream {
		return invalid("Streams are not supported in a batch.")
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

// EventList encodes records as the list of events that both bindings return.
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
