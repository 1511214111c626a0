package mcp

import (
	"fmt"
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A modernResult encodes a body, which must be an object, with the members that every modern result
// has.
type modernResult struct {
	s     *Server
	body  any
	cache *Caching
	kind  string // ResultComplete if empty
}

const completePrefix = `{"resultType":"complete"`

// AppendJSON appends the result to dst.
func (m *modernResult) AppendJSON(dst []byte) ([]byte, error) {
	body, meta := splitMeta(m.body)
	if m.kind == "" {
		dst = append(dst, m.s.prefix...)
	} else {
		dst = jsonrpc.AppendString(append(dst, `{"resultType":`...), m.kind)
		dst = append(dst, m.s.prefix[len(completePrefix):]...)
	}
	for _, key := range sortedKeys(meta) {
		if key != MetaServerInfo {
			dst = append(jsonrpc.AppendString(append(dst, ','), key), ':')
			dst = append(dst, meta[key]...)
		}
	}
	dst = append(dst, '}')
	if m.cache != nil {
		dst = fmt.Appendf(dst, `,"ttlMs":%d,"cacheScope":%q`, max(m.cache.TTLMs, 0), m.cache.CacheScope)
	}
	if body == nil {
		return append(dst, '}'), nil
	}
	start := len(dst)
	dst, err := appendValue(dst, body)
	if err != nil {
		return dst, err
	}
	if len(dst) < start+2 || dst[start] != '{' {
		return dst, fmt.Errorf("mcp: a result must be an object, not %.20q", dst[start:])
	}
	if dst[start+1] == '}' {
		return append(dst[:start], '}'), nil
	}
	dst[start] = ','
	return dst, nil
}

func sortedKeys(m Meta) []string {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// splitMeta separates the _meta from a body.
func splitMeta(body any) (any, Meta) {
	switch b := body.(type) {
	case *ToolResult:
		if b.Meta != nil {
			c := *b
			c.Meta = nil
			return &c, b.Meta
		}
	case *GetPromptResult:
		if b.Meta != nil {
			c := *b
			c.Meta = nil
			return &c, b.Meta
		}
	case *ReadResourceResult:
		if b.Meta != nil {
			c := *b
			c.Meta = nil
			return &c, b.Meta
		}
	case *sourcePage:
		return b, b.meta
	case jsonrpc.Raw:
		if len(b) == 2 {
			return nil, nil
		}
	}
	return body, nil
}
