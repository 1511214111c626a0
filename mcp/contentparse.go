package mcp

import (
	"errors"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Results of tools are what a client reads most. They are read here by hand: text, the most of it, without the codec.

var errTwice = errors.New("mcp: a member comes twice")

// ParseJSON reads a result.
func (r *ToolResult) ParseJSON(text []byte) error { return r.read(text, true) }

// read reads a result. borrowed: text is not r's to keep.
func (r *ToolResult) read(text jsonrpc.Raw, borrowed bool) error {
	*r = ToolResult{}
	if !isObject(text) {
		return errors.New("mcp: a result is an object")
	}
	var content, structured, isError, meta jsonrpc.Raw
	twice := false
	set := func(place *jsonrpc.Raw, value jsonrpc.Raw) {
		twice = twice || *place != nil
		*place = value
	}
	members(text, func(name []byte, value jsonrpc.Raw) {
		switch string(name) {
		case "content":
			set(&content, value)
		case "structuredContent":
			set(&structured, value)
		case "isError":
			set(&isError, value)
		case "_meta":
			set(&meta, value)
		}
	})
	if twice {
		return errTwice
	}
	if content != nil && !isNull(content) {
		if content[0] != '[' {
			return errors.New("mcp: content is an array")
		}
		var err error
		elements(content, func(one jsonrpc.Raw) {
			if err == nil {
				var block Content
				err = block.ParseJSON(one)
				r.Content = append(r.Content, block)
			}
		})
		if err != nil {
			return err
		}
	}
	r.Structured = structured
	if borrowed {
		r.Structured = structured.Clone()
	}
	if isError != nil {
		if err := isError.Decode(&r.IsError); err != nil {
			return err
		}
	}
	if meta != nil {
		var err error
		r.Meta, err = metaOf(meta)
		return err
	}
	return nil
}

// metaOf reads a _meta.
func metaOf(text jsonrpc.Raw) (Meta, error) {
	if !isObject(text) {
		return nil, errors.New("mcp: _meta is an object")
	}
	text = text.Clone() // once for all members
	m := Meta{}
	twice := false
	members(text, func(name []byte, value jsonrpc.Raw) {
		_, have := m[string(name)]
		twice = twice || have
		m[string(name)] = value
	})
	if twice {
		return nil, errTwice
	}
	return m, nil
}

// ParseJSON reads a block.
func (c *Content) ParseJSON(text []byte) error {
	if !isObject(text) {
		return errors.New("mcp: content is an object")
	}
	var kind, body jsonrpc.Raw
	other := false
	members(text, func(name []byte, value jsonrpc.Raw) {
		switch {
		case string(name) == "type" && kind == nil:
			kind = value
		case string(name) == "text" && body == nil:
			body = value
		default:
			other = true
		}
	})
	if string(kind) == `"text"` && !other {
		if said, ok := textOf(body); ok {
			*c = Content{Kind: KindText, Text: said}
			return nil
		}
	}
	return c.UnmarshalJSON(text)
}
