package mcp

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/internal/x/httptoken"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Over HTTP, a modern request repeats some of its content in headers, so that intermediaries need
// not read the body (MCP 2026-07-28, Transports, Standard Headers). This file implements the rules
// for these headers; package mcphttp implements HTTP itself.

// The header names of the specification. Header names are not case-sensitive.
const (
	// MCP-Protocol-Version in the specification; net/http uses this canonical form without a copy
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderSession         = "Mcp-Session-Id" // legacy
	HeaderParamPrefix     = "Mcp-Param-"
)

// A HeaderParam is a tool argument that is also sent in a header, because its schema has
// x-mcp-header.
type HeaderParam struct {
	Path   []string // member names from the root of the arguments to the value
	Header string   // the header name after HeaderParamPrefix
	Type   string   // "string", "integer" or "boolean"
}

// A HeaderField is one header of a request.
type HeaderField struct{ Name, Value string }

// HeaderParams returns the x-mcp-header annotations of an input schema. It returns an error if one
// of them breaks the rules; a client over HTTP drops such a tool from its list.
func HeaderParams(input jsonrpc.Raw) ([]HeaderParam, error) {
	if !strings.Contains(string(input), headerKeyword) {
		return nil, nil
	}
	var found []HeaderParam
	names := map[string]bool{}
	err := walkHeaders(input, nil, true, func(p HeaderParam) error {
		if !httptoken.Valid(p.Header) {
			return fmt.Errorf("x-mcp-header %q is not a valid header name", p.Header)
		}
		key := strings.ToLower(p.Header)
		if names[key] {
			return fmt.Errorf("duplicate x-mcp-header %q", p.Header)
		}
		names[key] = true
		found = append(found, p)
		return nil
	})
	return found, err
}

const headerKeyword = "x-mcp-header"

// walkHeaders visits a schema. reachable reports whether the path to it consists of properties
// only.
func walkHeaders(schema jsonrpc.Raw, path []string, reachable bool, f func(HeaderParam) error) error {
	if len(path) > 100 {
		return errors.New("schema is too deep")
	}
	for name, value := range schema.Members() {
		switch string(name) {
		case headerKeyword:
			header, ok := textOf(value)
			kind, _ := textOf(lastMember(schema, "type"))
			switch {
			case !ok:
				return errors.New("x-mcp-header is not a string")
			case !reachable || len(path) == 0:
				return fmt.Errorf("x-mcp-header %q is not reached by properties alone", header)
			case kind != "string" && kind != "integer" && kind != "boolean":
				return fmt.Errorf("x-mcp-header %q is on a %q; only string, integer and boolean may have one", header, kind)
			default:
				if err := f(HeaderParam{Path: append([]string{}, path...), Header: header, Type: kind}); err != nil {
					return err
				}
			}
		case "properties":
			for name, sub := range value.Members() {
				if err := walkHeaders(sub, append(path[:len(path):len(path)], string(name)), reachable, f); err != nil {
					return err
				}
			}
		case "const", "enum", "default", "examples":
			// values, not schemas
		case "$defs", "definitions", "patternProperties", "dependentSchemas":
			for _, sub := range value.Members() {
				if err := walkHeaders(sub, append(path[:len(path):len(path)], "*"), false, f); err != nil {
					return err
				}
			}
		default:
			below := append(path[:len(path):len(path)], "*")
			if isObject(value) {
				if err := walkHeaders(value, below, false, f); err != nil {
					return err
				}
			}
			for sub := range value.Elements() {
				if isObject(sub) {
					if err := walkHeaders(sub, below, false, f); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// EncodeHeader encodes a header value: unchanged if possible, otherwise in base64 between markers.
func EncodeHeader(value string) string {
	plain := !strings.HasPrefix(value, base64Open) && strings.Trim(value, " \t") == value
	for _, c := range []byte(value) {
		plain = plain && (c >= 0x20 && c < 0x7f || c == '\t')
	}
	if plain {
		return value
	}
	return base64Open + base64.StdEncoding.EncodeToString([]byte(value)) + base64Close
}

const base64Open, base64Close = "=?base64?", "?="

// DecodeHeader decodes a header value. It returns an error for invalid base64 and for text that is
// not UTF-8.
func DecodeHeader(value string) (string, error) {
	value = strings.Trim(value, " \t")
	inner, ok := strings.CutPrefix(value, base64Open)
	if !ok {
		return value, nil
	}
	if inner, ok = strings.CutSuffix(inner, base64Close); !ok {
		return value, nil // not a marker without its end
	}
	text, err := base64.StdEncoding.Strict().DecodeString(inner)
	if err != nil {
		return "", fmt.Errorf("mcp: header is not base64: %w", err)
	}
	if !utf8.Valid(text) {
		return "", errors.New("mcp: header is not UTF-8")
	}
	return string(text), nil
}

// headerValue returns the header value of an argument, and whether the argument is present.
func (p *HeaderParam) headerValue(arguments jsonrpc.Raw) (string, bool) {
	value := arguments
	for _, name := range p.Path {
		if value = lastMember(value, name); value == nil {
			return "", false
		}
	}
	switch {
	case isNull(value):
		return "", false
	case value[0] == '"':
		return textOf(value)
	case isObject(value) || value[0] == '[':
		return "", false // does not fit the schema; the schema check reports it
	}
	return string(value), true
}

// matches reports whether a header and an argument have the same value.
func (p *HeaderParam) matches(header, body string) bool {
	if header == body {
		return true
	}
	if p.Type != "integer" {
		return false
	}
	a, aerr := strconv.ParseFloat(header, 64)
	b, berr := strconv.ParseFloat(body, 64)
	return aerr == nil && berr == nil && a == b && a > -1<<53 && a < 1<<53
}

// standardName returns the value of Mcp-Name for a request, and whether the request has that
// header. text is what p was read from.
func (p *params) standardName(method string, text jsonrpc.Raw) (string, bool) {
	switch method {
	case MethodToolsCall, MethodPromptsGet:
		return textOf(p.name)
	case MethodResourcesRead:
		return textOf(p.uri)
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel:
		return textOf(lastMember(text, "taskId"))
	}
	return "", false
}

// NameInHeader returns the value that the header Mcp-Name must have for a request of the modern
// era, without the encoding of headers, and whether the request has that header (MCP 2026-07-28,
// Streamable HTTP).
func NameInHeader(method string, body jsonrpc.Raw) (string, bool) {
	var p params
	p.read(body)
	return p.standardName(method, body)
}

// CheckHeaders compares the headers of a modern request with its body, and checks that the envelope
// in the body is complete. It returns the error to respond with, or nil. get returns all values of
// a header. It is meant for [jsonrpc.Exchange] Check, and checks only requests: the specification
// defines no rules for notifications.
func (s *Server) CheckHeaders(req *jsonrpc.Request, get func(name string) []string) error {
	return s.CheckHeadersFor(context.Background(), req, get)
}

// CheckHeadersFor is CheckHeaders for a server with a [Source], which may offer each caller other
// tools: ctx is the context of the request.
func (s *Server) CheckHeadersFor(ctx context.Context, req *jsonrpc.Request, get func(name string) []string) error {
	if req.IsNotification() {
		return nil
	}
	r := &Request{server: s, rpc: req, Method: req.Method, live: ctx}
	r.p.read(req.Params)
	version, _ := textOf(r.p.version)
	if version == "" {
		return invalidParams("_meta has no " + MetaProtocolVersion)
	}
	if err := checkHeader(HeaderProtocolVersion, version, get); err != nil {
		return err
	}
	// Mcp-Method is never encoded; only names and arguments may be
	if values := get(HeaderMethod); len(values) != 1 || strings.Trim(values[0], " \t") != req.Method {
		if len(values) != 1 {
			return mismatch(HeaderMethod + " is missing or duplicated")
		}
		return mismatch(HeaderMethod + " differs from the body")
	}
	if name, ok := r.p.standardName(req.Method, req.Params); ok {
		if err := checkHeader(HeaderName, name, get); err != nil {
			return err
		}
	}
	if err := s.checkModern(r); err != nil {
		return err
	}
	if req.Method != MethodToolsCall {
		return nil
	}
	arguments := r.p.arguments
	headers := s.headersOf(ctx, r)
	for i := range headers {
		p := &headers[i]
		header := HeaderParamPrefix + p.Header
		want, inBody := p.headerValue(arguments)
		values := get(header)
		switch {
		case !inBody && len(values) == 0:
		case !inBody:
			return mismatch(header + " is set, but the argument is missing")
		case len(values) != 1:
			return mismatch(header + " is missing or duplicated")
		default:
			got, err := DecodeHeader(values[0])
			if err != nil || !p.matches(got, want) {
				return mismatch(header + " differs from the body")
			}
		}
	}
	return nil
}

// headersOf returns the header parameters of the tool that a request calls.
func (s *Server) headersOf(ctx context.Context, r *Request) []HeaderParam {
	name, _ := unquoted(r.p.name)
	if s.opts.Source != nil {
		if e, ok := s.opts.Source.Find(ctx, r, ListOfTools, string(name)); ok {
			return e.Headers
		}
		return nil
	}
	if t, ok := s.tools.find(name); ok {
		return t.headers
	}
	return nil
}

func checkHeader(name, want string, get func(string) []string) error {
	values := get(name)
	if len(values) != 1 {
		return mismatch(name + " is missing or duplicated")
	}
	if got, err := DecodeHeader(values[0]); err != nil || got != want {
		return mismatch(name + " differs from the body")
	}
	return nil
}

func mismatch(reason string) error {
	return &jsonrpc.Error{Code: CodeHeaderMismatch, Message: "Header mismatch: " + reason}
}

// standardHeaders returns the headers of a modern request from a client. For tools/call, headers
// are the tool's header parameters.
func (p *params) standardHeaders(v Version, method string, text jsonrpc.Raw, headers []HeaderParam) []HeaderField {
	fields := []HeaderField{{HeaderProtocolVersion, v.String()}, {HeaderMethod, method}}
	if name, ok := p.standardName(method, text); ok {
		fields = append(fields, HeaderField{HeaderName, EncodeHeader(name)})
	}
	if method == MethodToolsCall {
		for i := range headers {
			if value, ok := headers[i].headerValue(p.arguments); ok {
				fields = append(fields, HeaderField{HeaderParamPrefix + headers[i].Header, EncodeHeader(value)})
			}
		}
	}
	return fields
}
