package check_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// A plainServer is a JSON-RPC 2.0 server that uses nothing of parley. If defect is not empty, it
// has the defect of that name. The words of defects are in mutants.
type plainServer struct {
	defect string

	mu       sync.Mutex // guards the fields below
	lastID   string
	cross    bool // the next response gets the ID of another one
	lastData json.RawMessage
	last     json.RawMessage // params of the last call
	calls    int
	crashed  bool
	running  map[string]chan []byte // open calls by ID, for defects; closed with the response
	shared   *rpcError              // the last error, for defects
	only     sync.Mutex             // held while a call runs, for defects
	conns    atomic.Int64
	counted  atomic.Int64 // payloads of a kind, for defects
}

// has reports whether the server has one of the defects.
func (s *plainServer) has(names ...string) bool {
	for _, name := range names {
		if s.defect == name {
			return true
		}
	}
	return false
}

type rpcError struct {
	code    int
	message string
	data    json.RawMessage
}

var null = json.RawMessage("null")

// A call is one parsed request.
type parsedCall struct {
	id     json.RawMessage // nil for a notification
	method string
	params json.RawMessage
}

// fields splits an object into its members, whose names are compared exactly.
func fields(text json.RawMessage) map[string]json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	out := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil
		}
		out[name.(string)] = value
	}
	return out
}

// answer returns the response to one payload, or nil.
func (s *plainServer) answer(payload []byte) []byte {
	untrimmed := payload
	payload = bytes.TrimSpace(payload)
	switch {
	case s.dies(payload), s.has("dies-of-notifications") && s.counts(!bytes.Contains(payload, []byte(`"id"`))) > 80, s.has("dies-of-parse-errors") && s.counts(!json.Valid(payload)) > 20:
		s.mu.Lock()
		s.crashed = true
		s.mu.Unlock()
		return nil
	case s.has("loses-4096-bytes") && len(payload) == 4096, s.has("byte-order-mark-silent") && bytes.HasPrefix(payload, []byte("\uFEFF")):
		return nil
	case s.has("batch-not-trimmed") && payload[0] == '[' && len(untrimmed) > 0 && untrimmed[0] != '[':
		return s.fail(null, &rpcError{-32600, "Invalid Request", nil})
	}
	if !json.Valid(payload) || !utf8.Valid(payload) {
		return s.invalid(payload)
	}
	if payload[0] != '[' {
		return s.one(payload, false)
	}
	if s.has("no-batches") {
		return s.fail(null, &rpcError{-32600, "Invalid Request", nil})
	}
	var list []json.RawMessage
	_ = json.Unmarshal(payload, &list) // it is valid
	if len(list) == 0 && !s.has("empty-batch-empty-array", "empty-batch-silent") {
		out := s.fail(null, &rpcError{-32600, "Invalid Request", nil})
		if s.has("empty-batch-in-array") {
			return append(append([]byte("["), out...), ']')
		}
		return out
	}
	responses := make([][]byte, len(list))
	if s.has("batch-stops-at-error") {
		for i := range list {
			responses[i] = s.one(list[i], true)
			if bytes.Contains(responses[i], []byte(`"error"`)) {
				break
			}
		}
	} else {
		var wait sync.WaitGroup
		slots := make(chan struct{}, 8)
		for i := range list {
			slots <- struct{}{}
			wait.Go(func() {
				responses[i] = s.one(list[i], true)
				<-slots
			})
		}
		wait.Wait()
	}
	return s.join(responses)
}

// counts counts payloads of a kind, for defects.
func (s *plainServer) counts(one bool) int64 {
	if !one {
		return 0
	}
	return s.counted.Add(1)
}

// dies reports whether a payload ends the server, for defects.
func (s *plainServer) dies(payload []byte) bool {
	switch {
	case s.has("dies-of-depth"):
		return bytes.Contains(payload, bytes.Repeat([]byte("["), 900)) || bytes.Contains(payload, bytes.Repeat([]byte(`{"a":`), 900))
	case s.has("dies-of-length"):
		return len(payload) > 150_000
	case s.has("dies-of-invalid-batches"):
		return bytes.HasPrefix(payload, []byte("[1,1,1,1"))
	case s.has("dies-of-exponents"):
		return bytes.Contains(payload, []byte("1e999999999"))
	}
	return false
}

func (s *plainServer) join(responses [][]byte) []byte {
	var all [][]byte
	seen := map[string]bool{}
	for _, r := range responses {
		if r == nil {
			continue
		}
		if s.has("batch-by-id") {
			id := string(fields(r)["id"])
			if id != "null" && seen[id] {
				continue
			}
			seen[id] = true
		}
		all = append(all, r)
	}
	switch {
	case s.has("batch-loses-last") && len(all) > 2:
		all = all[:len(all)-1]
	case s.has("batch-over-64-loses") && len(all) > 64:
		all = all[:64]
	case s.has("batch-doubles") && len(all) > 1:
		all = append(all, all[0])
	case s.has("batch-of-one-single") && len(all) == 1:
		return all[0]
	case s.has("batch-single") && len(all) > 0:
		return all[0]
	case s.has("batch-lines"):
		return bytes.Join(all, []byte("\n"))
	}
	if len(all) == 0 && !s.has("notifications-empty-array", "empty-batch-empty-array") {
		return nil
	}
	return append(append([]byte("["), bytes.Join(all, []byte(","))...), ']')
}

// invalid returns the response to a text that is not JSON.
func (s *plainServer) invalid(payload []byte) []byte {
	id, code := null, -32700
	switch {
	case s.has("parse-error-silent"):
		return nil
	case s.has("parse-error-is-32600"):
		code = -32600
	case s.has("parse-error-is-32603"):
		code = -32603
	case s.has("parse-error-last-id"):
		s.mu.Lock()
		if s.lastID != "" {
			id = json.RawMessage(s.lastID)
		}
		s.mu.Unlock()
	case s.has("parse-error-id-zero"):
		id = json.RawMessage("0")
	case s.has("parse-error-no-id"):
		return []byte(`{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}`)
	case s.has("trailing-garbage"):
		if i := bytes.LastIndexByte(payload, '}'); i > 0 && json.Valid(payload[:i+1]) {
			return s.one(payload[:i+1], false)
		}
	case s.has("hex-numbers"):
		if fixed := bytes.ReplaceAll(payload, []byte("0x10"), []byte("16")); json.Valid(fixed) {
			return s.one(fixed, false)
		}
	case s.has("bare-fractions"):
		if fixed := bytes.ReplaceAll(payload, []byte("[.5]"), []byte("[0.5]")); json.Valid(fixed) {
			return s.one(fixed, false)
		}
	case s.has("form-feeds"):
		if fixed := bytes.ReplaceAll(payload, []byte("\f"), nil); json.Valid(fixed) {
			return s.one(fixed, false)
		}
	case s.has("missing-values"):
		if fixed := bytes.ReplaceAll(payload, []byte(`"params":,`), nil); json.Valid(fixed) {
			return s.one(fixed, false)
		}
	case s.has("trailing-comma"):
		if fixed := bytes.ReplaceAll(payload, []byte(",}"), []byte("}")); json.Valid(fixed) {
			return s.one(fixed, false)
		}
	case s.has("parse-error-in-batch-array") && payload[0] == '[':
		return append(append([]byte("["), s.fail(id, &rpcError{code, "Parse error", nil})...), ']')
	}
	return s.fail(id, &rpcError{code, "Parse error", nil})
}

// parse splits a request. An error has the ID for its response.
func (s *plainServer) parse(text json.RawMessage) (c parsedCall, id json.RawMessage, bad *rpcError) {
	invalid := &rpcError{-32600, "Invalid Request", nil}
	if s.has("invalid-request-is-32700") {
		invalid.code = -32700
	}
	if s.has("invalid-request-is-32602") {
		invalid.code = -32602
	}
	m := fields(text)
	if s.has("names-any-case") {
		for name, value := range m {
			m[strings.ToLower(name)] = value
		}
	}
	if m == nil {
		return c, null, invalid
	}
	if s.has("rejects-unknown-members") {
		for name := range m {
			if !strings.Contains("jsonrpc method params id", name) {
				return c, null, invalid
			}
		}
	}
	id, there := m["id"]
	if there {
		switch id[0] {
		case '{', '[', 't', 'f':
			if !s.has("any-id") {
				if s.has("bad-id-echoed") {
					return c, id, invalid
				}
				return c, null, invalid
			}
		case 'n':
			if s.has("null-id-is-notification") {
				there = false
			}
		}
	}
	if !there {
		id = null
	}
	var version, method string
	if v := m["jsonrpc"]; json.Unmarshal(v, &version) != nil || version != "2.0" || v[0] != '"' {
		switch {
		case s.has("version-not-checked"), s.has("version-may-be-missing") && v == nil, s.has("version-number") && string(v) == "2.0", s.has("version-prefix") && strings.HasPrefix(version, "2"):
		default:
			return c, id, invalid
		}
	}
	if v := m["method"]; v == nil || v[0] != '"' || json.Unmarshal(v, &method) != nil {
		if !s.has("method-any-type") || v == nil {
			return c, id, invalid
		}
		method = string(v)
	}
	if p := m["params"]; p != nil && p[0] != '{' && p[0] != '[' && p[0] != 'n' && !s.has("scalar-params") {
		return c, id, invalid
	}
	c = parsedCall{method: method, params: m["params"]}
	if there {
		c.id = id
	}
	return c, id, nil
}

// one returns the response to one request, or nil for a notification.
func (s *plainServer) one(text json.RawMessage, inBatch bool) (out []byte) {
	c, id, bad := s.parse(text)
	if s.has("duplicate-member-silent") && bytes.Count(text, []byte(`"method":`)) > 1 || s.has("null-params-silent") && string(c.params) == "null" {
		return nil
	}
	if bad != nil {
		if s.has("responses-are-calls") && bytes.Contains(text, []byte(`"result":`)) {
			return s.fail(id, &rpcError{-32601, "Method not found", nil})
		}
		if s.has("invalid-request-silent") || s.has("invalid-in-batch-silent") && inBatch {
			return nil
		}
		if s.has("invalid-in-batch-has-id-zero") && inBatch {
			id = json.RawMessage("0")
		}
		return s.fail(id, bad)
	}
	s.mu.Lock()
	s.calls++
	n := s.calls
	crashed := s.crashed
	s.mu.Unlock()
	if crashed {
		return nil
	}
	if s.has("loses-every-50th") && n%50 == 0 && c.id != nil {
		return nil
	}
	if s.has("one-at-a-time") {
		s.only.Lock()
		defer s.only.Unlock()
	}
	if c.id != nil && s.has("duplicate-id-dropped", "same-id-joined") {
		ended, first := s.begin(string(c.id))
		if !first {
			if s.has("duplicate-id-dropped") {
				return nil
			}
			return <-ended
		}
		defer func() {
			ended <- out
			s.mu.Lock()
			delete(s.running, string(c.id))
			s.mu.Unlock()
		}()
	}
	result, fault := s.run(c)
	if inBatch {
		switch {
		case s.has("batch-through-float") && result != nil:
			var v any
			_ = json.Unmarshal(result, &v) // it is valid
			result, _ = json.Marshal(v)    // it was JSON
		case s.has("batch-loses-data") && fault != nil:
			fault.data = nil
		}
	}
	if c.id != nil {
		s.mu.Lock()
		// Connections may use the same IDs at the same time, which no exchange of IDs would show.
		s.cross = s.cross || s.has("crosses-ids") && n%40 == 0
		if s.cross && s.lastID != "" && s.lastID != string(c.id) {
			c.id, s.lastID, s.cross = json.RawMessage(s.lastID), string(c.id), false
		} else {
			s.lastID = string(c.id)
		}
		s.mu.Unlock()
	}
	if c.id == nil {
		switch {
		case s.has("notification-answered") && fault == nil, s.has("failing-notification-answered") && fault != nil && fault.code > -32000,
			s.has("unknown-notification-answered") && fault != nil && fault.code == -32601, s.has("batch-notification-answered") && inBatch,
			s.has("wrong-params-notification-answered") && fault != nil && fault.code == -32602:
			c.id = null
		default:
			return nil
		}
	}
	if fault != nil {
		return s.fail(c.id, fault)
	}
	return s.succeed(c.id, result)
}

// begin registers an open call, and reports whether it is the first with its ID.
func (s *plainServer) begin(id string) (ended chan []byte, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ended = s.running[id]; ended != nil {
		return ended, false
	}
	if s.running == nil {
		s.running = map[string]chan []byte{}
	}
	s.running[id] = make(chan []byte, 1)
	return s.running[id], true
}

// id returns the ID as the server writes it.
func (s *plainServer) id(id json.RawMessage) json.RawMessage {
	isString, isNumber := id[0] == '"', id[0] == '-' || id[0] >= '0' && id[0] <= '9'
	switch {
	case s.has("id-as-string") && isNumber:
		return json.RawMessage(strconv.Quote(string(id)))
	case s.has("id-as-number") && isString:
		var text string
		_ = json.Unmarshal(id, &text) // it is valid
		if _, err := strconv.Atoi(text); err == nil {
			return json.RawMessage(text)
		}
	case s.has("id-through-float") && isNumber:
		f, _ := strconv.ParseFloat(string(id), 64) // it is a number
		out, _ := json.Marshal(f)                  // it is finite
		return out
	case s.has("id-integer") && isNumber:
		f, _ := strconv.ParseFloat(string(id), 64) // it is a number
		return json.RawMessage(strconv.FormatInt(int64(f), 10))
	case s.has("id-lower-case") && isString:
		return bytes.ToLower(id)
	case s.has("id-zero-is-null") && string(id) == "0", s.has("id-empty-is-null") && string(id) == `""`:
		return null
	case s.has("id-over-1024-is-null") && len(id) > 1024:
		return null
	case s.has("id-cut") && len(id) > 200:
		return append(bytes.Clone(id[:100]), '"')
	case s.has("id-32-bit") && isNumber:
		n, err := strconv.ParseInt(string(id), 10, 64)
		if err == nil {
			return json.RawMessage(strconv.Itoa(int(int32(n))))
		}
	case s.has("id-trimmed") && isString:
		return json.RawMessage(`"` + strings.TrimSpace(strings.Trim(string(id), `"`)) + `"`)
	case s.has("id-ascii") && isString:
		return []byte(strings.Map(func(r rune) rune {
			if r > 126 {
				return '?'
			}
			return r
		}, string(id)))
	case s.has("id-abs") && isNumber:
		return bytes.TrimPrefix(id, []byte("-"))
	}
	return id
}

func (s *plainServer) version() string {
	switch {
	case s.has("no-version"):
		return ""
	case s.has("version-1.0"):
		return `"jsonrpc":"1.0",`
	case s.has("version-as-number"):
		return `"jsonrpc":2.0,`
	case s.has("version-upper"):
		return `"JSONRPC":"2.0",`
	}
	return `"jsonrpc":"2.0",`
}

func (s *plainServer) succeed(id, result json.RawMessage) []byte {
	more := ""
	switch {
	case s.has("error-null-beside-result"):
		more = `,"error":null`
	case s.has("result-also-error"):
		more = `,"error":{"code":0,"message":""}`
	case s.has("unknown-member"):
		more = `,"time":1`
	case s.has("omits-null-result") && string(result) == "null", s.has("omits-empty-result") && (string(result) == "[]" || string(result) == "{}" || string(result) == "0"):
		return fmt.Appendf(nil, `{%s"id":%s}`, s.version(), s.id(id))
	case s.has("result-no-id"):
		return fmt.Appendf(nil, `{%s"result":%s}`, s.version(), result)
	case s.has("pretty"):
		return fmt.Appendf(nil, "{\n  %s\n  \"result\":%s,\n  \"id\":%s\n}", s.version(), result, s.id(id))
	case s.has("bom"):
		return fmt.Appendf(nil, "\uFEFF{%s\"result\":%s,\"id\":%s}", s.version(), result, s.id(id))
	case s.has("result-twice"):
		more = `,"result":` + string(result)
	}
	return fmt.Appendf(nil, `{%s"result":%s%s,"id":%s}`, s.version(), result, more, s.id(id))
}

func (s *plainServer) fail(id json.RawMessage, e *rpcError) []byte {
	code, message, data := strconv.Itoa(e.code), strconv.Quote(e.message), ""
	if text, err := json.Marshal(e.message); err == nil {
		message = string(text)
	}
	if s.has("message-empty") && e.code <= -32600 {
		message = `""`
	}
	if s.has("message-unescaped") {
		message = `"` + e.message + `"`
	}
	if e.data != nil {
		data = `,"data":` + string(e.data)
	}
	switch {
	case s.has("code-string"):
		code = strconv.Quote(code)
	case s.has("code-float"):
		code += ".5"
	case s.has("code-missing"):
		return fmt.Appendf(nil, `{%s"error":{"message":%s},"id":%s}`, s.version(), message, s.id(id))
	case s.has("message-missing"):
		return fmt.Appendf(nil, `{%s"error":{"code":%s},"id":%s}`, s.version(), code, s.id(id))
	case s.has("message-null"):
		message = "null"
	case s.has("message-object"):
		message = `{"text":` + message + `}`
	case s.has("error-string"):
		return fmt.Appendf(nil, `{%s"error":%s,"id":%s}`, s.version(), message, s.id(id))
	case s.has("result-null-beside-error"):
		return fmt.Appendf(nil, `{%s"result":null,"error":{"code":%s,"message":%s%s},"id":%s}`, s.version(), code, message, data, s.id(id))
	case s.has("error-no-id") && string(id) != "null":
		return fmt.Appendf(nil, `{%s"error":{"code":%s,"message":%s%s}}`, s.version(), code, message, data)
	case s.has("error-id-null"):
		id = null
	case s.has("error-unknown-member"):
		data += `,"stack":"at f (server.js:10:5)"`
	}
	return fmt.Appendf(nil, `{%s"error":{"code":%s,"message":%s%s},"id":%s}`, s.version(), code, message, data, s.id(id))
}
