package mcp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Over HTTP a modern request says some of itself in headers too, so that what stands between client and server need not read its body
// (MCP 2026-07-28, Transports, Standard Headers). These functions know the rules; HTTP itself is mcphttp's.

// The headers, as the specification spells them. Names compare without case.
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version" // MCP-Protocol-Version in the specification; so written, net/http need not copy it
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderSession         = "Mcp-Session-Id" // legacy
	HeaderParamPrefix     = "Mcp-Param-"
)

// A HeaderParam is an argument of a tool that stands in a header as well: its schema says x-mcp-header.
type HeaderParam struct {
	Path   []string // the members that lead to it from the root of the arguments
	Header string   // behind HeaderParamPrefix
	Type   string   // "string", "integer" or "boolean"
}

// A HeaderField is one header of a request.
type HeaderField struct{ Name, Value string }

// HeaderParams finds the annotations x-mcp-header in an input schema, and returns an error when one breaks the rules: a client over HTTP drops
// such a tool from its list.
func HeaderParams(input jsonrpc.Raw) ([]HeaderParam, error) {
	if !strings.Contains(string(input), headerKeyword) {
		return nil, nil
	}
	var found []HeaderParam
	names := map[string]bool{}
	err := walkHeaders(input, nil, true, func(p HeaderParam) error {
		if !isToken(p.Header) {
			return fmt.Errorf("x-mcp-header %q is no name for a header", p.Header)
		}
		key := strings.ToLower(p.Header)
		if names[key] {
			return fmt.Errorf("x-mcp-header %q comes twice", p.Header)
		}
		names[key] = true
		found = append(found, p)
		return nil
	})
	return found, err
}

const headerKeyword = "x-mcp-header"

// walkHeaders visits a schema. reachable tells whether only properties led here.
func walkHeaders(schema jsonrpc.Raw, path []string, reachable bool, f func(HeaderParam) error) (err error) {
	if len(path) > 100 {
		return errors.New("schema is too deep")
	}
	members(schema, func(name []byte, value jsonrpc.Raw) {
		if err != nil {
			return
		}
		switch string(name) {
		case headerKeyword:
			header, ok := textOf(value)
			kind, _ := textOf(member(schema, "type"))
			switch {
			case !ok:
				err = errors.New("x-mcp-header is no string")
			case !reachable || len(path) == 0:
				err = fmt.Errorf("x-mcp-header %q is not reached by properties alone", header)
			case kind != "string" && kind != "integer" && kind != "boolean":
				err = fmt.Errorf("x-mcp-header %q is on a %q; only string, integer and boolean may have one", header, kind)
			default:
				err = f(HeaderParam{Path: append([]string{}, path...), Header: header, Type: kind})
			}
		case "properties":
			members(value, func(name []byte, sub jsonrpc.Raw) {
				if err == nil {
					err = walkHeaders(sub, append(path[:len(path):len(path)], string(name)), reachable, f)
				}
			})
		case "const", "enum", "default", "examples":
			// Values, not schemas.
		case "$defs", "definitions", "patternProperties", "dependentSchemas":
			members(value, func(_ []byte, sub jsonrpc.Raw) {
				if err == nil {
					err = walkHeaders(sub, append(path[:len(path):len(path)], "*"), false, f)
				}
			})
		default:
			below := append(path[:len(path):len(path)], "*")
			if isObject(value) {
				err = walkHeaders(value, below, false, f)
			}
			elements(value, func(sub jsonrpc.Raw) {
				if err == nil && isObject(sub) {
					err = walkHeaders(sub, below, false, f)
				}
			})
		}
	})
	return err
}

// isToken reports whether name may be the name of a header (RFC 9110, section 5.6.2).
func isToken(name string) bool {
	if name == "" {
		return false
	}
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return true
}

// EncodeHeader writes a value for a header: as it is where that is possible, else in base64 between markers.
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

// DecodeHeader reads the value of a header. It returns an error for base64 that is none, and for text that is not UTF-8.
func DecodeHeader(value string) (string, error) {
	value = strings.Trim(value, " \t")
	inner, ok := strings.CutPrefix(value, base64Open)
	if !ok {
		return value, nil
	}
	if inner, ok = strings.CutSuffix(inner, base64Close); !ok {
		return value, nil // no sentinel without its end
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

// headerValue returns what a header says of an argument, and whether it is there.
func (p *HeaderParam) headerValue(arguments jsonrpc.Raw) (string, bool) {
	value := arguments
	for _, name := range p.Path {
		if value = member(value, name); value == nil {
			return "", false
		}
	}
	switch {
	case isNull(value):
		return "", false
	case value[0] == '"':
		return textOf(value)
	case isObject(value) || value[0] == '[':
		return "", false // not what the schema says; the schema will tell
	}
	return string(value), true
}

// matches reports whether a header says the same as an argument.
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

// standardName returns what Mcp-Name says of a request, if it has that header.
func standardName(method string, params jsonrpc.Raw) (string, bool) {
	key := ""
	switch method {
	case MethodToolsCall, MethodPromptsGet:
		key = "name"
	case MethodResourcesRead:
		key = "uri"
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel:
		key = "taskId"
	default:
		return "", false
	}
	return textOf(member(params, key))
}

// CheckHeaders holds the headers of a modern request against its body, and the body's envelope against what it must have, and returns the
// error to answer with, or nil. get returns all values of a header. It is for [jsonrpc.Exchange] Check, and looks at requests only: for notifications nothing is defined.
func (s *Server) CheckHeaders(req *jsonrpc.Request, get func(name string) []string) error {
	if req.IsNotification() {
		return nil
	}
	r := &Request{server: s, rpc: req, Method: req.Method}
	r.p.read(req.Params)
	version, _ := textOf(r.p.version)
	if version == "" {
		return invalidParams("_meta has no " + MetaProtocolVersion)
	}
	if err := checkHeader(HeaderProtocolVersion, version, get); err != nil {
		return err
	}
	if err := checkHeader(HeaderMethod, req.Method, get); err != nil {
		return err
	}
	if name, ok := standardName(req.Method, req.Params); ok {
		if err := checkHeader(HeaderName, name, get); err != nil {
			return err
		}
	}
	if err := s.modernDoor(r); err != nil {
		return err
	}
	if req.Method != MethodToolsCall {
		return nil
	}
	name, _ := unquoted(r.p.name)
	t, ok := s.tools.find(name)
	if !ok {
		return nil
	}
	arguments := r.p.arguments
	for i := range t.headers {
		p := &t.headers[i]
		header := HeaderParamPrefix + p.Header
		want, inBody := p.headerValue(arguments)
		values := get(header)
		switch {
		case !inBody && len(values) == 0:
		case !inBody:
			return mismatch(header + " is there and the argument is not")
		case len(values) != 1:
			return mismatch(header + " is missing or comes twice")
		default:
			got, err := DecodeHeader(values[0])
			if err != nil || !p.matches(got, want) {
				return mismatch(header + " says other than the body")
			}
		}
	}
	return nil
}

func checkHeader(name, want string, get func(string) []string) error {
	values := get(name)
	if len(values) != 1 {
		return mismatch(name + " is missing or comes twice")
	}
	if got, err := DecodeHeader(values[0]); err != nil || got != want {
		return mismatch(name + " says other than the body")
	}
	return nil
}

func mismatch(reason string) error {
	return &jsonrpc.Error{Code: CodeHeaderMismatch, Message: "Header mismatch: " + reason}
}

// standardHeaders are those that a client sends with a modern request; headers are the tool's, for tools/call.
func standardHeaders(v Version, method string, params jsonrpc.Raw, headers []HeaderParam) []HeaderField {
	fields := []HeaderField{{HeaderProtocolVersion, v.String()}, {HeaderMethod, method}}
	if name, ok := standardName(method, params); ok {
		fields = append(fields, HeaderField{HeaderName, EncodeHeader(name)})
	}
	if method == MethodToolsCall {
		arguments := member(params, "arguments")
		for i := range headers {
			if value, ok := headers[i].headerValue(arguments); ok {
				fields = append(fields, HeaderField{HeaderParamPrefix + headers[i].Header, EncodeHeader(value)})
			}
		}
	}
	return fields
}
