package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// A valuePath selects a value of a reply.
type valuePath struct {
	root   string     // one of the roots
	steps  []any      // names and indexes
	filter *gojq.Code // instead of them
}

// The roots of a path.
const (
	rootResponse      = "$"
	rootNotifications = "notifications"
	rootResponses     = "responses"
	rootTime          = "time"
)

// filterPrefix begins a path that is a jq filter.
const filterPrefix = "jq:"

var pathStep = regexp.MustCompile(`^(?:\.([A-Za-z0-9_$-]+)|\[(\d{1,9})\]|\["((?:[^"\\]|\\.)*)"\])`)

func readPath(text string) (*valuePath, error) {
	if filter, ok := strings.CutPrefix(text, filterPrefix); ok {
		query, err := gojq.Parse(filter)
		if err != nil {
			return nil, fmt.Errorf("jq: %w", err)
		}
		code, err := gojq.Compile(query)
		if err != nil {
			return nil, fmt.Errorf("jq: %w", err)
		}
		return &valuePath{filter: code}, nil
	}
	p := &valuePath{}
	rest := text
	for _, root := range []string{rootResponse, rootNotifications, rootResponses, rootTime} {
		if after, ok := strings.CutPrefix(text, root); ok && (after == "" || after[0] == '.' || after[0] == '[') {
			p.root, rest = root, after
		}
	}
	if p.root == "" {
		return nil, fmt.Errorf("a path must start with $, for example $.result.name, or with jq: or one of notifications, responses and time")
	}
	for rest != "" {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("%q is not a valid step of a path", rest)
		}
		rest = rest[len(m[0]):]
		switch {
		case m[2] != "":
			n, _ := strconv.Atoi(m[2]) // up to nine digits
			p.steps = append(p.steps, n)
		case m[1] != "":
			p.steps = append(p.steps, m[1])
		default:
			p.steps = append(p.steps, strings.ReplaceAll(m[3], `\"`, `"`))
		}
	}
	return p, nil
}

// find returns the value of the path in a reply, or nil. The error is that of a
// filter.
func (p *valuePath) find(ctx context.Context, r *Reply) (jsonrpc.Raw, error) {
	if p.filter != nil {
		return p.first(ctx, r)
	}
	var value jsonrpc.Raw
	switch p.root {
	case rootResponse:
		value = jsonrpc.Raw(bytes.TrimSpace(r.Response))
	case rootNotifications:
		value = list(r.Notifications)
	case rootResponses:
		value = list(r.Responses)
	case rootTime:
		value = r.milliseconds()
	}
	for _, step := range p.steps {
		var next jsonrpc.Raw
		switch step := step.(type) {
		case string:
			next = schemaview.LastMember(value, step)
		case int:
			if list := slices.Collect(value.Elements()); step < len(list) {
				next = list[step]
			}
		}
		if value = next; value == nil {
			return nil, nil
		}
	}
	if len(value) == 0 {
		return nil, nil
	}
	return value, nil
}

// name returns the name of the member that the path ends with, or "".
func (p *valuePath) name() string {
	for _, step := range slices.Backward(p.steps) {
		if name, ok := step.(string); ok {
			return name
		}
	}
	return ""
}

// ofResponse reports whether the path is about the response, not about how it arrived.
func (p *valuePath) ofResponse() bool {
	return p.filter != nil || p.root == rootResponse || p.root == rootResponses
}

func list(elements []jsonrpc.Raw) jsonrpc.Raw {
	dst := []byte{'['}
	for i, e := range elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, e...)
	}
	return append(dst, ']')
}

// first returns the first output of the filter, or nil.
func (p *valuePath) first(ctx context.Context, r *Reply) (jsonrpc.Raw, error) {
	text := []byte(`{"notifications":`)
	text = append(append(append(text, list(r.Notifications)...), `,"responses":`...), list(r.Responses)...)
	text = append(append(text, `,"time":`...), r.milliseconds()...)
	if len(bytes.TrimSpace(r.Response)) > 0 {
		text = append(append(text, `,"response":`...), r.Response...)
		for _, name := range []string{"result", "error"} {
			if value := schemaview.LastMember(jsonrpc.Raw(r.Response), name); value != nil {
				text = append(append(append(text, `,"`+name...), `":`...), value...)
			}
		}
	}
	text = append(text, '}')
	var input any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber() // preserves the digits
	if err := numbers.Decode(&input); err != nil {
		return nil, fmt.Errorf("jq: the response is not JSON: %w", err)
	}
	output, ok := p.filter.RunWithContext(ctx, input).Next()
	if !ok {
		return nil, nil
	}
	if err, ok := output.(error); ok {
		if halt, ok := errors.AsType[*gojq.HaltError](err); ok && halt.Value() == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("jq: %w", err)
	}
	value, err := gojq.Marshal(output)
	return value, err
}
