package check_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// run runs a method.
func (s *plainServer) run(c parsedCall) (result json.RawMessage, fault *rpcError) {
	method := c.method
	switch {
	case s.has("method-any-case"):
		method = strings.ToLower(method)
	case s.has("method-trimmed"):
		method = strings.TrimSpace(method)
	case s.has("method-prefix") && strings.HasPrefix(method, "echo"):
		method = "echo"
	case s.has("method-until-nul"):
		method, _, _ = strings.Cut(method, "\x00")
	case s.has("method-last-part"):
		method = method[strings.LastIndexByte(method, '.')+1:]
	case s.has("rpc-open") && strings.HasPrefix(method, "rpc."):
		return null, nil
	}
	invalid := &rpcError{-32602, "Invalid params", nil}
	if s.has("invalid-params-is-32603") {
		invalid.code = -32603
	}
	if s.has("invalid-params-is-32600") {
		invalid.code = -32600
	}
	defer func() {
		if p := recover(); p != nil {
			fault = &rpcError{-32603, "Internal error", nil}
			switch {
			case s.has("panic-is-32000"):
				fault.code = -32000
			case s.has("panic-leaks"):
				fault.data, _ = json.Marshal("panic: boom\n\ngoroutine 7 [running]:\nmain.handler(0x1)\n\t/srv/main.go:42") // a string
			case s.has("panic-ends-server"):
				s.mu.Lock()
				s.crashed = true
				s.mu.Unlock()
			case s.has("panic-holds-lock"):
				s.only.Lock()
				fault.message = "locked"
			case s.has("panic-is-result"):
				result, fault = null, nil
			}
		}
	}()
	switch method {
	case "echo":
		return s.echo(c.params)
	case "fail":
		return nil, s.failure(c.params, invalid)
	case "sleep":
		var in struct{ Ms int }
		if json.Unmarshal(c.params, &in) != nil {
			return nil, invalid
		}
		if s.has("long-call-fails") && in.Ms > 1000 {
			return nil, &rpcError{-32000, "Timeout", nil}
		}
		time.Sleep(time.Duration(in.Ms) * time.Millisecond) // as the method sleep requires
		return json.RawMessage(strconv.Itoa(in.Ms)), nil
	case "panic":
		panic("boom")
	case "subtract":
		return s.subtract(c.params, invalid)
	}
	if s.has("unknown-method-is-null") {
		return null, nil
	}
	fault = &rpcError{-32601, "Method not found", nil}
	switch {
	case s.has("message-unescaped"):
		fault.message += ": " + method
	case s.has("unknown-method-is-32600"):
		fault.code = -32600
	case s.has("unknown-method-is-32000"):
		fault.code = -32000
	case s.has("unknown-method-is-32800"):
		fault.code = -32500
	}
	return nil, fault
}

func (s *plainServer) echo(params json.RawMessage) (json.RawMessage, *rpcError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if params == nil {
		if s.has("params-remembered") && s.last != nil {
			return s.last, nil
		}
		return null, nil
	}
	before := s.last
	s.last = params
	switch {
	case s.has("through-float"):
		var v any
		if json.Unmarshal(params, &v) != nil {
			return nil, &rpcError{-32602, "Invalid params", nil}
		}
		out, _ := json.Marshal(v) // it was JSON
		return out, nil
	case s.has("drops-null-members"):
		m := fields(params)
		for name, v := range m {
			if string(v) == "null" {
				delete(m, name)
			}
		}
		if m != nil {
			out, _ := json.Marshal(m) // it was JSON
			return out, nil
		}
	case s.has("names-lower-case"):
		if m := fields(params); m != nil {
			low := map[string]json.RawMessage{}
			for name, v := range m {
				low[strings.ToLower(name)] = v
			}
			out, _ := json.Marshal(low) // it was JSON
			return out, nil
		}
	case s.has("empty-array-is-null") && string(params) == "[]":
		return null, nil
	case s.has("empty-object-is-array") && string(params) == "{}":
		return json.RawMessage("[]"), nil
	case s.has("cut-at-a-mebibyte") && len(params) > 1<<20:
		return json.RawMessage(`["cut"]`), nil
	case s.has("prototype-lost"):
		return bytes.ReplaceAll(params, []byte(`"__proto__":{"a":1},`), nil), nil
	case s.has("templates-filled"):
		return bytes.ReplaceAll(params, []byte("%%"), []byte("%")), nil
	case s.has("duplicates-removed"):
		return bytes.ReplaceAll(params, []byte("1,1,1"), []byte("1")), nil
	case s.has("cut-at-64-KiB") && len(params) > 65536:
		return json.RawMessage(`["cut"]`), nil
	case s.has("html-stripped"):
		return bytes.ReplaceAll(params, []byte("<script>"), nil), nil
	case s.has("nul-lost"):
		return bytes.ReplaceAll(params, []byte(`\u0000`), nil), nil
	case s.has("unicode-lost"):
		return []byte(strings.Map(func(r rune) rune {
			if r > 0xffff {
				return '?'
			}
			return r
		}, string(params))), nil
	case s.has("string-trimmed"):
		return bytes.ReplaceAll(params, []byte(`" a  b "`), []byte(`"a  b"`)), nil
	case s.has("result-wrapped") && len(params) > 1 && params[0] == '[':
		return append(append([]byte("["), params...), ']'), nil
	case s.has("result-as-string"):
		out, _ := json.Marshal(string(params)) // a string
		return out, nil
	case s.has("one-is-unwrapped"):
		var list []json.RawMessage
		if json.Unmarshal(params, &list) == nil && len(list) == 1 {
			return list[0], nil
		}
	case s.has("params-merged"):
		a, b := fields(before), fields(params)
		if a != nil && b != nil {
			for name, v := range b {
				a[name] = v
			}
			out, _ := json.Marshal(a) // it was JSON
			return out, nil
		}
	case s.has("negative-zero"):
		return bytes.ReplaceAll(params, []byte("-0."), []byte("0.")), nil
	}
	return params, nil
}

func (s *plainServer) failure(params json.RawMessage, invalid *rpcError) *rpcError {
	m := fields(params)
	e := &rpcError{data: m["data"]}
	if json.Unmarshal(m["code"], &e.code) != nil || json.Unmarshal(m["message"], &e.message) != nil {
		return invalid
	}
	switch {
	case s.has("data-lost"):
		e.data = nil
	case s.has("data-falsy-lost") && (string(e.data) == "0" || string(e.data) == "false" || string(e.data) == `""`):
		e.data = nil
	case s.has("data-as-string") && e.data != nil:
		e.data, _ = json.Marshal(string(e.data)) // a string
	case s.has("code-is-32000"):
		e.code = -32000
	case s.has("code-zero-lost") && e.code == 0:
		e.code = -32000
	case s.has("message-cut") && len(e.message) > 1000:
		e.message = e.message[:1000]
	case s.has("message-control-lost"):
		e.message = strings.ReplaceAll(e.message, "\x00", "")
	case s.has("errors-shared"):
		s.mu.Lock()
		s.shared = e
		s.mu.Unlock()
		time.Sleep(time.Millisecond) // so that another error may come in between, which is the fault
		s.mu.Lock()
		e = s.shared
		s.mu.Unlock()
	case s.has("code-positive") && e.code < 0:
		e.code = -e.code
	case s.has("message-standard"):
		e.message = "Server error"
	case s.has("message-empty-replaced") && e.message == "":
		e.message = "error"
	case s.has("data-remembered"):
		s.mu.Lock()
		if e.data == nil {
			e.data = s.lastData
		}
		s.lastData = e.data
		s.mu.Unlock()
	}
	return e
}

func (s *plainServer) subtract(params json.RawMessage, invalid *rpcError) (json.RawMessage, *rpcError) {
	var values []json.RawMessage
	if m := fields(params); m != nil {
		switch {
		case s.has("names-ignored"):
			d := json.NewDecoder(bytes.NewReader(params))
			_, _ = d.Token() // the brace
			for d.More() {
				_, _ = d.Token() // the name
				var v json.RawMessage
				_ = d.Decode(&v) // it is valid
				values = append(values, v)
			}
		case s.has("names-fold"):
			for name, v := range m {
				m[strings.ToLower(name)] = v
			}
			fallthrough
		default:
			values = []json.RawMessage{m["minuend"], m["subtrahend"]}
		}
	} else if json.Unmarshal(params, &values) != nil {
		return nil, invalid
	}
	if s.has("positions-swapped") && params[0] == '[' && len(values) == 2 {
		values[0], values[1] = values[1], values[0]
	}
	if s.has("named-unsupported") && params[0] == '{' || s.has("positional-unsupported") && params[0] == '[' || len(values) != 2 {
		return nil, invalid
	}
	var n [2]*big.Int
	for i, v := range values {
		if s.has("decimals-cut") {
			v, _, _ = bytes.Cut(v, []byte("."))
		}
		var number json.Number
		if len(v) == 0 || v[0] == '"' || json.Unmarshal(v, &number) != nil {
			if s.has("wrong-types-are-zero") {
				v = json.RawMessage("0")
			} else {
				return nil, invalid
			}
		}
		var ok bool
		if n[i], ok = new(big.Int).SetString(string(v), 10); !ok {
			return nil, invalid
		}
	}
	return json.RawMessage(n[0].Sub(n[0], n[1]).String()), nil
}
