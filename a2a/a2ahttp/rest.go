package a2ahttp

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file implements the REST binding of v1.0 (A2A 1.0.1, section 11). The engine parses the body
// of a request as the params of its method, and check completes them.

// A route is the meaning of one path and HTTP method.
type route struct {
	method string            // method of the protocol
	path   map[string]string // members of params from the path
	body   bool              // the body holds the other params; otherwise the query does
}

// find returns the route of a request, and the HTTP methods that its path supports. If there are
// none, the path is not part of the binding.
func find(r *http.Request) (to *route, allow []string) {
	path := strings.Trim(r.URL.EscapedPath(), "/")
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			return nil, nil
		}
		segments[i] = plain
	}
	routes := match(segments)
	tenant := ""
	if routes == nil && len(segments) > 1 {
		tenant = segments[0]
		routes = match(segments[1:])
	}
	if routes == nil {
		return nil, nil
	}
	if to = routes[r.Method]; to != nil && tenant != "" {
		to.path["tenant"] = tenant
	}
	return to, slices.Sorted(maps.Keys(routes))
}

// match returns the routes of a path by HTTP method.
func match(s []string) map[string]*route {
	set := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	switch {
	case len(s) == 1 && s[0] == "message:send":
		return map[string]*route{"POST": {a2a.MethodSend, set(), true}}
	case len(s) == 1 && s[0] == "message:stream":
		return map[string]*route{"POST": {a2a.MethodStreamSend, set(), true}}
	case len(s) == 1 && s[0] == "extendedAgentCard":
		return map[string]*route{"GET": {a2a.MethodExtendedCard, set(), false}}
	case len(s) == 1 && s[0] == "tasks":
		return map[string]*route{"GET": {a2a.MethodListTasks, set(), false}}
	case len(s) < 2 || s[0] != "tasks" || s[1] == "":
		return nil
	case len(s) == 2:
		id, verb, _ := cutLast(s[1])
		switch verb {
		case "cancel":
			return map[string]*route{"POST": {a2a.MethodCancelTask, set("id", id), true}}
		case "subscribe": // the proto file defines GET, the text POST
			return map[string]*route{"GET": {a2a.MethodSubscribe, set("id", id), false}, "POST": {a2a.MethodSubscribe, set("id", id), true}}
		}
		return map[string]*route{"GET": {a2a.MethodGetTask, set("id", s[1]), false}}
	case s[2] != "pushNotificationConfigs":
		return nil
	case len(s) == 3:
		return map[string]*route{"GET": {a2a.MethodListPush, set("taskId", s[1]), false}, "POST": {a2a.MethodCreatePush, set("taskId", s[1]), true}}
	case len(s) == 4 && s[3] != "":
		return map[string]*route{"GET": {a2a.MethodGetPush, set("taskId", s[1], "id", s[3]), false},
			"DELETE": {a2a.MethodDeletePush, set("taskId", s[1], "id", s[3]), false}}
	}
	return nil
}

func cutLast(s string) (before, after string, found bool) {
	at := strings.LastIndexByte(s, ':')
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+1:], true
}

// isREST reports whether the path of a request is part of the REST binding, even if the request is
// invalid.
func isREST(r *http.Request) bool {
	_, allow := find(r)
	return allow != nil
}

func (s *Server) serveREST(w http.ResponseWriter, r *http.Request) {
	to, allow := find(r)
	if to == nil {
		f := &guard.Refusal{Status: http.StatusNotFound, Text: "not found"}
		if allow != nil {
			f = guard.MethodOnly(strings.Join(allow, ", "))
		}
		f.Write(w, r)
		return
	}
	style := restStyle{plainJSON(r)}
	principal, denied := s.admit(r)
	if denied != nil {
		denied.write(w, style.failure)
		return
	}
	svc := service(r, principal)
	s.extensions(w.Header(), r.Header, svc)
	x := s.exchange(w, r, style)
	defer x.Close()
	params, ok := []byte("{}"), false
	if to.body && r.ContentLength != 0 {
		params, ok = x.Read()
	} else {
		ok = x.Skip()
	}
	if !ok {
		return
	}
	x.params = func(params jsonrpc.Raw) (jsonrpc.Raw, *jsonrpc.Error) {
		params, bad := to.params(params, r)
		if bad == nil && strings.TrimSpace(svc.Version) != "" && a2a.ParseVersion(svc.Version) != a2a.V10 {
			bad = a2a.Fault(a2a.ErrVersionNotSupported, "This protocol version is not supported here; supported: 1.0", "supported", "1.0")
		}
		return params, bad
	}
	out, fault := x.Answer(a2a.WithService(r.Context(), svc), restAnswering{&s.answerer, to.method}, params)
	if fault != nil && r.ProtoMajor == 1 {
		if status, _ := restStatus(fault.Code); status == http.StatusServiceUnavailable {
			w.Header().Set("Connection", "close")
		}
	}
	x.finish(out, fault)
}

// restID is the id of requests, which have none in REST.
var restID = jsonrpc.IntID(1)

// restAnswering answers payloads that are the params of a method.
type restAnswering struct {
	answerer *jsonrpc.Answerer
	method   string
}

func (a restAnswering) Answer(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
	return a.answerer.AnswerRequest(ctx, dst, restID, a.method, payload, x)
}

// params completes the params of the body, which are valid JSON, with those of path and query.
func (to *route) params(body jsonrpc.Raw, r *http.Request) (jsonrpc.Raw, *jsonrpc.Error) {
	if body == nil { // a2a-go 2.3.1 sends null for an empty body
		body = jsonrpc.Raw("{}")
	}
	members := map[string]jsonrpc.Raw{}
	twice := false
	for name, value := range body.Members() {
		_, known := members[string(name)]
		twice = twice || known
		members[string(name)] = value
	}
	if twice || body[0] != '{' {
		return nil, a2a.BadParams("", "the body must be one object without duplicate members")
	}
	if to.body && len(to.path) == 0 {
		return body, nil
	}
	if !to.body {
		if bad := fromQuery(r.URL.Query(), members); bad != nil {
			return nil, bad
		}
	}
	for name, value := range to.path {
		members[name] = quote(value)
	}
	return encodeMembers(members), nil
}

// encodeMembers encodes an object.
func encodeMembers(members map[string]jsonrpc.Raw) jsonrpc.Raw {
	out := jsonrpc.Raw("{")
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(name)...), ':'), members[name]...)
	}
	return append(out, '}')
}

// invalid UTF-8 is replaced
func quote(s string) jsonrpc.Raw { return jsonrpc.StringID(s).Append(nil) }

// fromQuery reads the members of params that are allowed in a query (A2A 1.0.1, section 11.5).
// Others are ignored.
func fromQuery(q url.Values, members map[string]jsonrpc.Raw) *jsonrpc.Error {
	for name := range q {
		value := q.Get(name)
		switch name {
		case "contextId", "pageToken", "statusTimestampAfter", "tenant":
			members[name] = quote(value)
		case "status":
			members[name] = quote(stateName(value))
		case "pageSize", "historyLength":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				return a2a.BadParams(name, "want an integer")
			}
			members[name] = strconv.AppendInt(nil, n, 10)
		case "includeArtifacts":
			if value != "true" && value != "false" {
				return a2a.BadParams(name, "want true or false")
			}
			members[name] = jsonrpc.Raw(value)
		}
	}
	return nil
}

// stateName accepts the short names in the specification's own example besides the full ones:
// status=working.
func stateName(value string) string {
	if value == "" || strings.HasPrefix(value, "TASK_STATE_") {
		return value
	}
	return "TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(value, "-", "_"))
}

// plainJSON reports whether a client accepts application/json explicitly, and not the protocol's
// own media type.
func plainJSON(r *http.Request) bool {
	accept := r.Header["Accept"]
	own, named := guard.Quality(accept, ContentType)
	_, json := guard.Quality(accept, "application/json")
	return json && (!named || own == 0)
}

// restStyle encodes events and responses as the objects themselves.
type restStyle struct{ json bool }

func (s restStyle) contentType() string {
	if s.json {
		return "application/json"
	}
	return ContentType
}

func (restStyle) event(_ jsonrpc.ID, response jsonrpc.Raw) ([]byte, error) { return response, nil }

func (s restStyle) last(out []byte, e *jsonrpc.Error) []byte {
	_, _, body := s.plain(out, e)
	return body
}

func (s restStyle) plain(out []byte, e *jsonrpc.Error) (status int, contentType string, body []byte) {
	if e != nil {
		status, _ = restStatus(e.Code)
		contentType, body = s.failure(e)
		return status, contentType, body
	}
	out = bytes.TrimSuffix(bytes.TrimPrefix(out, resultHead), resultTail)
	return http.StatusOK, s.contentType(), out
}

// resultHead and resultTail are what the engine writes around the result of a request with restID.
var resultHead, resultTail = func() (head, tail []byte) {
	empty, _ := jsonrpc.AppendResult(nil, jsonrpc.Version2, restID, jsonrpc.Raw("{}")) // a value
	head, tail, _ = bytes.Cut(empty, []byte("{}"))
	return head, tail
}()

func (s restStyle) unsupported(e *jsonrpc.Error) (contentType string, body []byte) {
	contentType, body = s.failure(e)
	return contentType, withCode(body, http.StatusUnsupportedMediaType)
}

// failure returns the body of an error: google.rpc.Status as JSON, AIP-193.
func (s restStyle) failure(e *jsonrpc.Error) (contentType string, body []byte) {
	code, status := restStatus(e.Code)
	body = strconv.AppendInt([]byte(`{"error":{"code":`), int64(code), 10)
	body = append(append(body, `,"status":"`...), status...)
	body = append(append(body, `","message":`...), quote(e.Message)...)
	details := jsonrpc.Raw("[]")
	if len(e.Data) > 0 && e.Data[0] == '[' {
		details = e.Data
	}
	body = append(append(body, `,"details":`...), details...)
	return s.contentType(), append(body, "}}"...)
}

// withCode replaces the code of a failure.
func withCode(body []byte, code int) []byte {
	rest := strings.TrimLeft(strings.TrimPrefix(string(body), `{"error":{"code":`), "0123456789")
	return []byte(`{"error":{"code":` + strconv.Itoa(code) + rest)
}

// restStatus returns the HTTP status of an error (A2A 1.0.1, section 5.4).
func restStatus(code int64) (status int, name string) {
	switch code {
	case a2a.CodeTaskNotFound, jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound, "NOT_FOUND"
	case a2a.CodeContentTypeNotSupported, jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest, jsonrpc.CodeParseError:
		return http.StatusBadRequest, "INVALID_ARGUMENT"
	case a2a.CodeTaskNotCancelable, a2a.CodePushNotificationNotSupported, a2a.CodeUnsupportedOperation,
		a2a.CodeExtendedAgentCardNotConfigured, a2a.CodeExtensionSupportRequired, a2a.CodeVersionNotSupported:
		return http.StatusBadRequest, "FAILED_PRECONDITION"
	case a2a.CodeUnauthenticated:
		return http.StatusUnauthorized, "UNAUTHENTICATED"
	case a2a.CodeForbidden:
		return http.StatusForbidden, "PERMISSION_DENIED"
	case jsonrpc.CodeBusy:
		return http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"
	case jsonrpc.CodeDeadline:
		return http.StatusGatewayTimeout, "DEADLINE_EXCEEDED"
	case jsonrpc.CodeShuttingDown, storageUnavailable:
		return http.StatusServiceUnavailable, "UNAVAILABLE"
	case jsonrpc.CodeUnavailable:
		return http.StatusBadGateway, "UNAVAILABLE"
	}
	return http.StatusInternalServerError, "INTERNAL"
}
