package mcp

import (
	"errors"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Clients mostly decode tool results. They are decoded by hand here, and text blocks, the most
// frequent kind, without the codec.

var errTwice = errors.New("mcp: duplicate member")

// ParseJSON decodes a result.
func (r *ToolResult) ParseJSON(text []byte) error { return r.read(text, true) }

// read decodes a result. borrowed means that r must not retain text.
func (r *ToolResult) read(text jsonrpc.Raw, borrowed bool) error {
	*r = ToolResult{}
	if !isObject(text) {
		return errors.New("mcp: a result must be an object")
	}
	var content, structured, isError, meta jsonrpc.Raw
	twice := false
	set := func(place *jsonrpc.Raw, value jsonrpc.Raw) {
		twice = twice || *place != nil
		*place = value
	}
	for name, value := range text.Members() {
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
	}
	if twice {
		return errTwice
	}
	if content != nil && !isNull(content) {
		if content[0] != '[' {
			return errors.New("mcp: content must be an array")
		}
		for one := range content.Elements() {
			var block Content
			err := block.ParseJSON(one)
			r.Content = append(r.Content, block)
			if err != nil {
				return err
			}
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

// metaOf decodes a _meta object.
func metaOf(text jsonrpc.Raw) (Meta, error) {
	if !isObject(text) {
		return nil, errors.New("mcp: _meta must be an object")
	}
	text = text.Clone() // one copy for all members
	m := Meta{}
	twice := false
	for name, value := range text.Members() {
		_, have := m[string(name)]
		twice = twice || have
		m[string(name)] = value
	}
	if twice {
		return nil, errTwice
	}
	return m, nil
}

// ParseJSON decodes a block.
func (c *Content) ParseJSON(text []byte) error {
	if !isObject(text) {
		return errors.New("mcp: content must be an object")
	}
	var kind, body jsonrpc.Raw
	other := false
	for name, value := range jsonrpc.Raw(text).Members() {
		switch {
		case string(name) == "type" && kind == nil:
			kind = value
		case string(name) == "text" && body == nil:
			body = value
		default:
			other = true
		}
	}
	if string(kind) == `"text"` && !other {
		if said, ok := textOf(body); ok {
			*c = Content{Kind: KindText, Text: said}
			return nil
		}
	}
	return c.UnmarshalJSON(text)
}
