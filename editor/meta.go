package editor

import (
	"maps"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Meta holds the members of _meta, or the members of an object that version 1 does not define: each
// with its JSON text. They are preserved when a value is forwarded.
type Meta map[string]jsonrpc.Raw

// With returns a copy in which key is set to the JSON text of v. It panics if v cannot be encoded.
func (m Meta) With(key string, v any) Meta {
	text, err := appendValue(nil, v)
	if err != nil {
		panic("editor: " + err.Error())
	}
	c := make(Meta, len(m)+1)
	maps.Copy(c, m)
	c[key] = text
	return c
}

// Get decodes the member key into v and reports whether it exists and could be decoded.
func (m Meta) Get(key string, v any) bool {
	raw, ok := m[key]
	return ok && raw.Decode(v) == nil
}

// without returns m without a member, and nil if nothing remains.
func (m Meta) without(key string) Meta {
	delete(m, key)
	if len(m) == 0 {
		return nil
	}
	return m
}

// An Implementation is the name and version of a program. It is for display only: it is not
// verified.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	Version string `json:"version"`
	Meta    Meta   `json:"_meta,omitzero"`
}

// A Mark is a capability: nil means that it is not supported.
type Mark struct {
	Meta Meta `json:"_meta,omitzero"`
}

// A Role is the audience of content, or the sender of a message.
type Role string

// The two roles of a conversation with a model.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Annotations are hints for displaying or selecting content.
type Annotations struct {
	Audience     []Role   `json:"audience,omitzero"`
	Priority     *float64 `json:"priority,omitzero"`
	LastModified string   `json:"lastModified,omitzero"`
	Meta         Meta     `json:"_meta,omitzero"`
}
