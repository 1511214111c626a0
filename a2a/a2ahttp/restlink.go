package a2ahttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A restLink makes calls in the REST binding of v1.0.
type restLink struct{ *link }

// Batch implements [a2a.Link]: REST has no batches.
func (l restLink) Batch(ctx context.Context, items []jsonrpc.Item) error {
	return oneByOne(ctx, l, l.o.Parallel, items)
}

// Do implements [a2a.Link].
func (l restLink) Do(ctx context.Context, item *jsonrpc.Item) error {
	item.Err = l.do(ctx, item)
	return item.Err
}

func (l restLink) do(ctx context.Context, item *jsonrpc.Item) error {
	raw, _ := item.Params.(jsonrpc.Raw)
	members := map[string]jsonrpc.Raw{}
	if len(raw) > 0 {
		if err := raw.Decode(&members); err != nil {
			return err
		}
	}
	method, path, ok := l.path(item.Method, members)
	if !ok {
		return fmt.Errorf("a2ahttp: %s: %w over REST", item.Method, errors.ErrUnsupported)
	}
	ctx, end, err := l.begin(ctx, a2a.Open(item.Method))
	if err != nil {
		return err
	}
	defer end(nil)
	var body []byte
	to := *l.url
	to.Path, to.RawPath = "", ""
	at, err := url.Parse(strings.TrimSuffix(l.url.EscapedPath(), "/") + path)
	if err != nil {
		return err
	}
	to.Path, to.RawPath = at.Path, at.RawPath
	if method == http.MethodPost {
		body = encodeMembers(members)
	} else {
		to.RawQuery = query(members)
	}
	req := l.request(ctx, method, &to, body, accepts(item.On != nil, ContentType+", application/json"))
	if body != nil {
		// Servers of 1.0.0 accept nothing else, those of 1.0.1 both.
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := l.http.Do(req)
	if err != nil {
		return failed(ctx, err)
	}
	defer answer.Body.Close()
	in := inbox{l: l.link, ctx: ctx, end: end, item: item, id: restID}
	return in.read(answer, func(data []byte, seq int64, event bool) error {
		if len(data) == 0 {
			return nil // 204
		}
		value, err := jsonrpc.ParseRaw(data)
		if err != nil {
			return fmt.Errorf("%w: %w", jsonrpc.ErrBadResponse, err)
		}
		if e := restError(value, answer.StatusCode); e != nil {
			return e
		}
		if event && item.On != nil {
			return item.On(notification(restID, seq, value))
		}
		if item.Result == nil {
			return nil
		}
		return value.Decode(item.Result)
	})
}

// path returns the HTTP method and path for a method, and removes from members those that are in
// the path.
func (l restLink) path(method string, members map[string]jsonrpc.Raw) (verb, path string, ok bool) {
	take := func(name string) string {
		var s string
		_ = members[name].Decode(&s) // our own string
		delete(members, name)
		return url.PathEscape(s)
	}
	prefix := ""
	if members["tenant"] != nil {
		prefix = "/" + take("tenant")
	}
	switch method {
	case a2a.MethodSend:
		return http.MethodPost, prefix + "/message:send", true
	case a2a.MethodStreamSend:
		return http.MethodPost, prefix + "/message:stream", true
	case a2a.MethodGetTask:
		return http.MethodGet, prefix + "/tasks/" + take("id"), true
	case a2a.MethodListTasks:
		return http.MethodGet, prefix + "/tasks", true
	case a2a.MethodCancelTask:
		return http.MethodPost, prefix + "/tasks/" + take("id") + ":cancel", true
	case a2a.MethodSubscribe: // the proto file defines GET, the text POST; the SDKs serve both or POST
		return http.MethodPost, prefix + "/tasks/" + take("id") + ":subscribe", true
	case a2a.MethodCreatePush:
		return http.MethodPost, prefix + "/tasks/" + take("taskId") + "/pushNotificationConfigs", true
	case a2a.MethodListPush:
		return http.MethodGet, prefix + "/tasks/" + take("taskId") + "/pushNotificationConfigs", true
	case a2a.MethodGetPush:
		return http.MethodGet, prefix + "/tasks/" + take("taskId") + "/pushNotificationConfigs/" + take("id"), true
	case a2a.MethodDeletePush:
		return http.MethodDelete, prefix + "/tasks/" + take("taskId") + "/pushNotificationConfigs/" + take("id"), true
	case a2a.MethodExtendedCard:
		return http.MethodGet, prefix + "/extendedAgentCard", true
	}
	return "", "", false
}

// query encodes plain members as a query.
func query(members map[string]jsonrpc.Raw) string {
	q := url.Values{}
	for name, raw := range members {
		var s string
		if raw.Decode(&s) != nil {
			s = string(raw) // a number or a boolean
		}
		q.Set(name, s)
	}
	return q.Encode()
}

// restError returns the protocol error in an AIP-193 body, or nil if the body has no such error.
func restError(value jsonrpc.Raw, status int) error {
	var in struct {
		Error *struct {
			Code    int         `json:"code"`
			Status  string      `json:"status"`
			Message string      `json:"message"`
			Details jsonrpc.Raw `json:"details"`
		} `json:"error"`
	}
	if err := value.Decode(&in); err != nil || in.Error == nil {
		if status < 300 {
			return nil
		}
		return &StatusError{Status: status, Body: value[:min(len(value), 1024)]}
	}
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: in.Error.Message, Data: in.Error.Details}
	for _, d := range a2a.Details(e) {
		if code := a2a.CodeOf(d.Reason); code != 0 {
			e.Code = code
			return e
		}
	}
	switch in.Error.Code {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		e.Code = jsonrpc.CodeInvalidParams
	case http.StatusUnauthorized:
		e.Code = a2a.CodeUnauthenticated
	case http.StatusForbidden:
		e.Code = a2a.CodeForbidden
	case http.StatusNotFound:
		e.Code = jsonrpc.CodeMethodNotFound
	case http.StatusTooManyRequests:
		e.Code = jsonrpc.CodeBusy
	case http.StatusServiceUnavailable:
		e.Code = jsonrpc.CodeShuttingDown
	case http.StatusBadGateway:
		e.Code = jsonrpc.CodeUnavailable
	}
	return e
}
