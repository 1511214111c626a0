package mcp

import "github.com/da1ed7bb/parley/jsonrpc"

// Settings are the settings of an extension or an experimental feature: an object, often empty.
type Settings = map[string]any

// Mark is an empty object whose presence means "supported".
type Mark struct{}

// ClientCapabilities are the capabilities of a client. A nil member means that it is not supported.
type ClientCapabilities struct {
	Experimental map[string]Settings    `json:"experimental,omitzero"`
	Roots        *RootsCapability       `json:"roots,omitzero"`
	Sampling     *SamplingCapability    `json:"sampling,omitzero"`
	Elicitation  *ElicitationCapability `json:"elicitation,omitzero"` // since 2025-06-18
	Tasks        *TasksCapability       `json:"tasks,omitzero"`       // 2025-11-25 only
	Extensions   map[string]Settings    `json:"extensions,omitzero"`  // since 2026-07-28
}

// RootsCapability declares that the client has roots.
type RootsCapability struct {
	ListChanged bool `json:"listChanged,omitzero"` // legacy only
}

// SamplingCapability declares that the client has access to a model.
type SamplingCapability struct {
	Context *Mark `json:"context,omitzero"` // includeContext; since 2025-11-25
	Tools   *Mark `json:"tools,omitzero"`   // since 2025-11-25
}

// ElicitationCapability declares that the client can ask a user. If both members are nil, it means
// forms.
type ElicitationCapability struct {
	Form *Mark `json:"form,omitzero"` // since 2025-11-25
	URL  *Mark `json:"url,omitzero"`  // since 2025-11-25
}

// HasForm reports whether the user can be asked to fill in a form.
func (c *ElicitationCapability) HasForm() bool { return c != nil && (c.Form != nil || c.URL == nil) }

// HasURL reports whether the user can be sent to a URL.
func (c *ElicitationCapability) HasURL() bool { return c != nil && c.URL != nil }

// TasksCapability declares which requests may become tasks in 2025-11-25.
type TasksCapability struct {
	List     *Mark          `json:"list,omitzero"`
	Cancel   *Mark          `json:"cancel,omitzero"`
	Requests *TasksRequests `json:"requests,omitzero"`
}

// TasksRequests names the requests that may become tasks. Tools is for servers, the other members
// are for clients.
type TasksRequests struct {
	Tools       *TasksTools       `json:"tools,omitzero"`
	Sampling    *TasksSampling    `json:"sampling,omitzero"`
	Elicitation *TasksElicitation `json:"elicitation,omitzero"`
}

// TasksTools is the member for tools/call.
type TasksTools struct {
	Call *Mark `json:"call,omitzero"`
}

// TasksSampling is the member for sampling/createMessage.
type TasksSampling struct {
	CreateMessage *Mark `json:"createMessage,omitzero"`
}

// TasksElicitation is the member for elicitation/create.
type TasksElicitation struct {
	Create *Mark `json:"create,omitzero"`
}

// ServerCapabilities are the capabilities of a server. A nil member means that it is not supported.
type ServerCapabilities struct {
	Experimental map[string]Settings  `json:"experimental,omitzero"`
	Logging      *Mark                `json:"logging,omitzero"`
	Completions  *Mark                `json:"completions,omitzero"` // since 2025-03-26
	Prompts      *ListCapability      `json:"prompts,omitzero"`
	Resources    *ResourcesCapability `json:"resources,omitzero"`
	Tools        *ListCapability      `json:"tools,omitzero"`
	Tasks        *TasksCapability     `json:"tasks,omitzero"`      // 2025-11-25 only
	Extensions   map[string]Settings  `json:"extensions,omitzero"` // since 2026-07-28
}

// ListCapability declares a list, and whether the server sends notifications when it changes.
type ListCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`
}

// ResourcesCapability declares resources, and which change notifications the server sends.
type ResourcesCapability struct {
	// modern: supports resourceSubscriptions in subscriptions/listen
	Subscribe   bool `json:"subscribe,omitzero"`
	ListChanged bool `json:"listChanged,omitzero"`
}

// Names of extensions in the capabilities of both sides.
const (
	ExtensionTasks  = "io.modelcontextprotocol/tasks"
	ExtensionUI     = "io.modelcontextprotocol/ui" // MCP Apps
	ExtensionSkills = "io.modelcontextprotocol/skills"
)

// InitializeParams are the params of initialize, which opens a legacy conversation.
type InitializeParams struct {
	ProtocolVersion string             `json:"protocolVersion"`
	Capabilities    ClientCapabilities `json:"capabilities"`
	ClientInfo      Implementation     `json:"clientInfo"`
	Meta            Meta               `json:"_meta,omitzero"`
}

// InitializeResult is the result of initialize.
type InitializeResult struct {
	ProtocolVersion string             `json:"protocolVersion"`
	Capabilities    ServerCapabilities `json:"capabilities"`
	ServerInfo      Implementation     `json:"serverInfo"`
	Instructions    string             `json:"instructions,omitzero"`
	Meta            Meta               `json:"_meta,omitzero"`
}

// DiscoverResult is the result of server/discover.
type DiscoverResult struct {
	SupportedVersions []string           `json:"supportedVersions"`
	Capabilities      ServerCapabilities `json:"capabilities"`
	Instructions      string             `json:"instructions,omitzero"`
	Caching
	Meta Meta `json:"_meta,omitzero"`
}

// Caching limits how long a result may be cached, and by whom (MCP 2026-07-28, Caching). It is only
// written in the modern era.
type Caching struct {
	TTLMs      int64  `json:"ttlMs,omitzero"`      // milliseconds
	CacheScope string `json:"cacheScope,omitzero"` // CachePublic or CachePrivate
}

// Values of CacheScope: anyone may cache the result, or only the client that requested it, for the
// same authorization.
const (
	CachePublic  = "public"
	CachePrivate = "private"
)

// empty is an empty result.
var empty = jsonrpc.Raw("{}")
