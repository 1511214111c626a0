package editor

import (
	"maps"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Meta is what stands in _meta, and what stands in an object beside the members that version 1 knows: each member with its JSON
// text. What comes in there goes out again where a value is passed on.
type Meta map[string]jsonrpc.Raw

// With returns a copy in which key has the JSON text of v. It panics if v has none.
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

// Get decodes the member into v and reports whether there is one that fits.
func (m Meta) Get(key string, v any) bool {
	raw, ok := m[key]
	return ok && raw.Decode(v) == nil
}

// without returns m without a member, and nil instead of an empty one.
func (m Meta) without(key string) Meta {
	delete(m, key)
	if len(m) == 0 {
		return nil
	}
	return m
}

// An Implementation is how a program presents itself. It is for display only: nothing proves it.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitzero"`
	Version string `json:"version"`
	Meta    Meta   `json:"_meta,omitzero"`
}

// A Mark is an ability that is there or not: a nil one is not.
type Mark struct {
	Meta Meta `json:"_meta,omitzero"`
}

// A Role says for whom content is, or who speaks.
type Role string

// The two roles of a conversation with a model.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Annotations are hints for whoever shows or chooses content.
type Annotations struct {
	Audience     []Role   `json:"audience,omitzero"`
	Priority     *float64 `json:"priority,omitzero"`
	LastModified string   `json:"lastModified,omitzero"`
	Meta         Meta     `json:"_meta,omitzero"`
}
