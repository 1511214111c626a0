package mcp

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Handle answers the requests of a legacy server, and processes the notifications of any server.
func (c *Client) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if req.IsNotification() {
		c.heard(req)
		return nil, nil
	}
	if c.Version().Modern() && req.Method != MethodPing {
		// a modern server sends no requests (MCP 2026-07-28, Transports)
		return nil, jsonrpc.ErrMethodNotFound
	}
	switch req.Method {
	case MethodPing:
		return empty, nil
	case MethodRootsList, MethodCreateMessage, MethodElicit:
		if c.opts.Ask != nil {
			return c.opts.Ask(ctx, InputRequest{Method: req.Method, Params: req.Params.Clone()})
		}
		return c.asTask(ctx, req)
	case MethodTasksGet, MethodTasksResult, MethodTasksList, MethodTasksCancel:
		if c.opts.HostTasks && c.Version().HasCoreTasks() {
			return c.hosted.handle(ctx, req)
		}
	}
	return nil, jsonrpc.ErrMethodNotFound
}

// answer answers one question. A panic of the called function is reported and becomes an internal
// error for the server: answer may run on a goroutine of the client, where nothing else recovers.
func (c *Client) answer(ctx context.Context, method string, params jsonrpc.Raw) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			c.report(jsonrpc.ReportPanic, &jsonrpc.PanicError{Method: method, Value: v, Stack: debug.Stack()})
			result, err = nil, jsonrpc.ErrInternal
		}
	}()
	return c.respond(ctx, method, params)
}

func (c *Client) respond(ctx context.Context, method string, params jsonrpc.Raw) (any, error) {
	switch method {
	case MethodRootsList:
		if c.opts.Roots == nil {
			return nil, jsonrpc.ErrMethodNotFound
		}
		roots, err := c.opts.Roots(ctx)
		if err != nil {
			return nil, err
		}
		if roots == nil {
			roots = []Root{}
		}
		return &ListRootsResult{Roots: roots}, nil
	case MethodCreateMessage:
		if c.opts.Sample == nil {
			return nil, jsonrpc.ErrMethodNotFound
		}
		var q SamplingRequest
		if err := params.Decode(&q); err != nil {
			return nil, invalidParams("sampling/createMessage is malformed")
		}
		if (q.Tools != nil || q.ToolChoice != nil) && !c.opts.SampleTools {
			return nil, invalidParams("tools in sampling are not supported")
		}
		if err := checkToolTurns(q.Messages); err != nil {
			return nil, err
		}
		return c.opts.Sample(ctx, &q)
	case MethodElicit:
		if c.opts.Elicit == nil {
			return nil, jsonrpc.ErrMethodNotFound
		}
		var e Elicitation
		if err := params.Decode(&e); err != nil {
			return nil, invalidParams("elicitation/create is malformed")
		}
		switch {
		case e.Mode == "":
			e.Mode = ElicitForm
		case e.Mode == ElicitURL && c.opts.ElicitURL:
		case e.Mode != ElicitForm:
			return nil, invalidParams("mode is not supported")
		}
		result, err := c.opts.Elicit(ctx, &e)
		if err != nil {
			return nil, err
		}
		if result == nil {
			return nil, errors.New("mcp: no answer to an elicitation")
		}
		if e.Mode == ElicitForm && result.Action == ActionAccept {
			filled := *result
			filled.Content = withDefaults(e.RequestedSchema, result.Content)
			result = &filled
		}
		return result, nil
	}
	return nil, jsonrpc.ErrMethodNotFound
}

// checkToolTurns enforces the rules for tools in sampling (MCP 2025-11-25, Sampling): a message
// with tool results contains only those, and they answer all tool uses of the message before it.
func checkToolTurns(messages []SamplingMessage) error {
	var open map[string]bool
	for _, m := range messages {
		results := 0
		next := map[string]bool{}
		for _, block := range m.Content {
			switch {
			case block.Kind == KindToolResult && block.Result != nil:
				results++
				if !open[block.Result.ToolUseID] {
					return invalidParams("a tool_result without its tool_use")
				}
				delete(open, block.Result.ToolUseID)
			case block.Kind == KindToolUse && block.Use != nil:
				next[block.Use.ID] = true
			}
		}
		if results > 0 && (m.Role != RoleUser || results != len(m.Content)) {
			return invalidParams("a message with tool results must contain only tool results")
		}
		if len(open) > 0 {
			return invalidParams("a tool_use without its tool_result")
		}
		open = next
	}
	return nil
}

// withDefaults adds the form's defaults for the fields that the user left out.
func withDefaults(form, content jsonrpc.Raw) jsonrpc.Raw {
	if !isObject(content) {
		content = empty
	}
	given := map[string]bool{}
	for name := range content.Members() {
		given[string(name)] = true
	}
	out := append([]byte{}, content[:len(content)-1]...)
	count := len(given)
	for name, field := range lastMember(form, "properties").Members() {
		value := lastMember(field, "default")
		if value == nil || given[string(name)] {
			continue
		}
		if count > 0 {
			out = append(out, ',')
		}
		count++
		out = append(append(jsonrpc.AppendString(out, string(name)), ':'), value...)
	}
	return append(out, '}')
}

// answerAll answers all questions of a result concurrently, and returns the answers by key.
func (c *Client) answerAll(ctx context.Context, asked map[string]InputRequest) (map[string]jsonrpc.Raw, error) {
	if len(asked) > maxQuestions {
		return nil, fmt.Errorf("%w: %d questions in one response", ErrTooManyRounds, len(asked))
	}
	var mu sync.Mutex
	out := make(map[string]jsonrpc.Raw, len(asked))
	var errs []error
	var all sync.WaitGroup
	for key, in := range asked {
		all.Go(func() {
			result, err := c.answer(ctx, in.Method, in.Params)
			var raw jsonrpc.Raw
			if err == nil {
				raw, err = encode(result)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, ownError(key, in.Method, err))
				return
			}
			out[key] = raw
		})
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	stuck, release := grace.After(ctx, grace.Time)
	defer release()
	select {
	case <-ended:
		return out, errors.Join(errs...)
	case <-stuck: // a function of the caller ignores its context, and continues in the background
		return nil, context.Cause(ctx)
	}
}

// ownError converts a *jsonrpc.Error of this side, so that it does not look like an error of the
// peer.
func ownError(key, method string, err error) error {
	if errors.Is(err, jsonrpc.ErrMethodNotFound) {
		return fmt.Errorf("mcp: question %s: %s: %w", key, method, ErrNotSupported)
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Errorf("mcp: question %s: %s: %s", key, method, e.Message)
	}
	return fmt.Errorf("mcp: question %s: %s: %w", key, method, err)
}

// maxQuestions is the maximum number of questions in one result.
const maxQuestions = 100
