package mcp

import (
	"maps"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Keys of _meta that the protocol reserves (MCP 2026-07-28, Base Protocol, _meta).
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaRelatedTask        = "io.modelcontextprotocol/related-task" // 2025-11-25
	MetaProgressToken      = "progressToken"
	MetaTraceparent        = "traceparent" // W3C Trace Context, as are the next two
	MetaTracestate         = "tracestate"
	MetaBaggage            = "baggage"
)

// Meta contains the members of _meta, each with its JSON text. Both sides may add members.
type Meta map[string]jsonrpc.Raw

// With returns a copy in which key has the JSON text of v. It panics if v cannot be encoded.
func (m Meta) With(key string, v any) Meta {
	c := make(Meta, len(m)+1)
	maps.Copy(c, m)
	c[key] = mustEncode(v)
	return c
}

// Get decodes a member into v. It reports whether the member exists and fits v.
func (m Meta) Get(key string, v any) bool {
	raw, ok := m[key]
	return ok && raw.Decode(v) == nil
}

// An Implementation describes a client or server program. It is for display only and is not
// authenticated.
type Implementation struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"` // since 2025-06-18
	Version     string `json:"version"`
	Description string `json:"description,omitzero"` // since 2025-11-25
	WebsiteURL  string `json:"websiteUrl,omitzero"`  // since 2025-11-25
	Icons       []Icon `json:"icons,omitzero"`       // since 2025-11-25
}

// An Icon is an image for a user interface, since 2025-11-25.
type Icon struct {
	Src      string   `json:"src"` // https: or data:
	MIMEType string   `json:"mimeType,omitzero"`
	Sizes    []string `json:"sizes,omitzero"` // such as "48x48", or "any"
	Theme    string   `json:"theme,omitzero"` // "light", "dark" or empty
}

// A Role is the author of a message.
type Role string

// The two roles of a conversation with a model.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Annotations are hints for the display and the selection of content.
type Annotations struct {
	Audience     []Role   `json:"audience,omitzero"`
	Priority     *float64 `json:"priority,omitzero"`     // 0 to 1
	LastModified string   `json:"lastModified,omitzero"` // RFC 3339; since 2025-06-18
}
