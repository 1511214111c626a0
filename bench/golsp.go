package main

import (
	"bytes"
	"context"
	"fmt"
	"net"

	"github.com/go-json-experiment/json"
	golsp "go.lsp.dev/jsonrpc2"
)

// goLSP is go.lsp.dev/jsonrpc2: with handlers on the reading goroutine, with handlers on separate
// goroutines, and with each of its clients.
func goLSP() []Entry {
	async := golsp.AsyncHandler(golspHandler)
	inline := half{serve: golspServe(golspHandler), ask: golspAsk}
	open := inline.on(Pipe, Unix, TCP, Feed)
	open[Memory] = golspMemory
	open[Dispatch] = golspDispatch
	return []Entry{
		{"go.lsp.dev", Peer, open},
		{"go.lsp.dev async", Peer, half{serve: golspServe(async), ask: golspAsk}.on(Pipe, Unix, TCP, Feed)},
		{"go.lsp.dev pipeline", Peer, half{serve: golspServe(golspHandler), ask: golspPipeline}.on(Pipe, Unix, TCP)},
		{"go.lsp.dev sync", Peer, half{serve: golspServe(golspHandler), ask: golspSync}.on(UnixAlone)},
		{"go.lsp.dev batch", Peer, half{serve: golspServe(golspHandler), ask: golspBatch}.on(Unix)},
	}
}

func golspHandler(_ context.Context, req *golsp.Request) (any, error) {
	switch req.Method() {
	case "subtract":
		var in Pair
		if err := golsp.DefaultCodec.Unmarshal(req.Params(), &in); err != nil {
			return nil, golsp.ErrInvalidParams
		}
		return in.Minuend - in.Subtrahend, nil
	case "echo":
		return req.Params(), nil
	}
	return nil, golsp.ErrMethodNotFound
}

func golspServe(h golsp.Handler) func(net.Conn) (func(), error) {
	return func(conn net.Conn) (func(), error) {
		c := golsp.NewConn(golsp.NewNDJSONStream(conn))
		c.Go(context.Background(), h)
		return func() { c.Close() }, nil
	}
}

func golspAsk(conn net.Conn) (*Session, error) {
	c := golsp.NewConn(golsp.NewNDJSONStream(conn))
	c.Go(context.Background(), golsp.MethodNotFoundHandler)
	s := golspSession(c.Call)
	s.Close = func() { c.Close() }
	return s, nil
}

func golspPipeline(conn net.Conn) (*Session, error) {
	c := golsp.NewPipelineClient(golsp.NewNDJSONStream(conn))
	c.Go(context.Background(), nil)
	s := golspSession(c.Call)
	s.Close = func() { c.Close() }
	return s, nil
}

func golspSync(conn net.Conn) (*Session, error) {
	c, err := golsp.NewSyncClient(golsp.NewNDJSONStream(conn))
	if err != nil {
		return nil, err
	}
	s := golspSession(c.Call)
	s.Close = func() { c.Close() }
	return s, nil
}

func golspSession(call func(ctx context.Context, method string, params, result any) (golsp.ID, error)) *Session {
	return &Session{
		Call: func(ctx context.Context) error {
			var got int
			if _, err := call(ctx, "subtract", Pair{minuend, subtrahend}, &got); err != nil {
				return err
			}
			return checkDifference(got)
		},
		Echo: func(ctx context.Context, document []byte) error {
			var got golsp.RawMessage
			if _, err := call(ctx, "echo", golsp.RawMessage(document), &got); err != nil {
				return err
			}
			return checkEcho(document, got)
		},
	}
}

// golspBatch is the client for batches, which returns frames. The library has no parser for an
// array of responses.
func golspBatch(conn net.Conn) (*Session, error) {
	c, err := golsp.NewBatchClient(golsp.NewNDJSONStream(conn))
	if err != nil {
		return nil, err
	}
	var id int64
	var frame []byte
	batch := func(ctx context.Context) error {
		calls := make([]golsp.Message, batchSize)
		for i := range calls {
			params, err := golsp.DefaultCodec.Marshal(Pair{minuend, subtrahend})
			if err != nil {
				return err
			}
			calls[i] = golsp.NewCall(golsp.NewNumberID(id+int64(i)), "subtract", params)
		}
		frame = golsp.AppendBatch(frame[:0], calls)
		if _, err := c.WriteFrame(ctx, frame); err != nil {
			return err
		}
		answer, _, err := c.ReadFrame(ctx)
		if err != nil {
			return err
		}
		var responses []struct {
			ID     int64 `json:"id"`
			Result int   `json:"result"`
		}
		if err := json.Unmarshal(answer, &responses); err != nil {
			return err
		}
		if len(responses) != batchSize {
			return fmt.Errorf("%d responses", len(responses))
		}
		for i, r := range responses {
			if r.ID != id+int64(i) {
				return fmt.Errorf("response %d has the id %d", i, r.ID)
			}
			if err := checkDifference(r.Result); err != nil {
				return err
			}
		}
		id += batchSize
		return nil
	}
	return &Session{Batch: batch, Close: func() { c.Close() }}, nil
}

func golspMemory() (*Session, error) {
	a, b := golsp.NewChannelStreamPair(64)
	server := golsp.NewConn(a)
	server.Go(context.Background(), golspHandler)
	c := golsp.NewConn(b)
	c.Go(context.Background(), golsp.MethodNotFoundHandler)
	s := golspSession(c.Call)
	s.Close = func() { c.Close(); server.Close() }
	return s, nil
}

// golspDispatch combines the library's parts as its Conn does: the view of a message, the codec,
// the response.
func golspDispatch() (*Session, error) {
	request := []byte(smallRequest)
	var out []byte
	return &Session{
		Call: func(context.Context) error {
			v, err := golsp.ScanMessageView(request)
			if err != nil {
				return err
			}
			id, ok := v.ID.ID()
			if !ok || string(v.MethodBytes) != "subtract" {
				return golsp.ErrMethodNotFound
			}
			var in Pair
			if err := golsp.DefaultCodec.Unmarshal(v.Params, &in); err != nil {
				return err
			}
			result, err := golsp.DefaultCodec.Marshal(in.Minuend - in.Subtrahend)
			if err != nil {
				return err
			}
			out = golsp.AppendResponse(out[:0], id, result, nil)
			if len(out) != len(smallAnswer) || !bytes.Contains(out, []byte(`"result":19`)) {
				return fmt.Errorf("the answer is %s", out)
			}
			return nil
		},
		Close: func() {},
	}, nil
}
