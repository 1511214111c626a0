package mcp

import "github.com/da1ed7bb/parley/jsonrpc"

// Settings are those of an extension, or of an experimental feature: an object, often empty.
type Settings = map[string]any

// Mark is the empty object that says "yes".
type Mark struct{}

// ClientCapabilities are what a client can be asked. A nil member means no.
type ClientCapabilities struct {
	Experimental map[string]Settings    `json:"experimental,omitzero"`
	Roots        *RootsCapability       `json:"roots,omitzero"`
	Sampling     *SamplingCapability    `json:"sampling,omitzero"`
	Elicitation  *ElicitationCapability `json:"elicitation,omitzero"` // from 2025-06-18
	Tasks        *TasksCapability       `json:"tasks,omitzero"`       // 2025-11-25
	Extensions   map[string]Settings    `json:"extensions,omitzero"`  // from 2026-07-28
}

// RootsCapability says that the client has roots.
type RootsCapability struct {
	ListChanged bool `json:"listChanged,omitzero"` // legacy
}

// SamplingCapability says that the client has a model to ask.
type SamplingCapability struct {
	Context *Mark `json:"context,omitzero"` // includeContext; from 2025-11-25
	Tools   *Mark `json:"tools,omitzero"`   // from 2025-11-25
}

// ElicitationCapability says that the client has a user to ask. With neither member it means forms.
type ElicitationCapability struct {
	Form *Mark `json:"form,omitzero"` // from 2025-11-25
	URL  *Mark `json:"url,omitzero"`  // from 2025-11-25
}

// HasForm reports whether the user can be asked by a form.
func (c *ElicitationCapability) HasForm() bool { return c != nil && (c.Form != nil || c.URL == nil) }

// HasURL reports whether the user can be sent to a URL.
func (c *ElicitationCapability) HasURL() bool { return c != nil && c.URL != nil }

// TasksCapability says what may become a task in 2025-11-25.
type TasksCapability struct {
	List     *Mark          `json:"list,omitzero"`
	Cancel   *Mark          `json:"cancel,omitzero"`
	Requests *TasksRequests `json:"requests,omitzero"`
}

// TasksRequests names the requests that may become tasks; Tools for a server, the others for a client.
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

// ServerCapabilities are what a server offers. A nil member means no.
type ServerCapabilities struct {
	Experimental map[string]Settings  `json:"experimental,omitzero"`
	Logging      *Mark                `json:"logging,omitzero"`
	Completions  *Mark                `json:"completions,omitzero"` // from 2025-03-26
	Prompts      *ListCapability      `json:"prompts,omitzero"`
	Resources    *ResourcesCapability `json:"resources,omitzero"`
	Tools        *ListCapability      `json:"tools,omitzero"`
	Tasks        *TasksCapability     `json:"tasks,omitzero"`      // 2025-11-25
	Extensions   map[string]Settings  `json:"extensions,omitzero"` // from 2026-07-28
}

// ListCapability says that there is a list, and whether its changes are told.
type ListCapability struct {
	ListChanged bool `json:"listChanged,omitzero"`
}

// ResourcesCapability says that there are resources, and which changes are told.
type ResourcesCapability struct {
	Subscribe   bool `json:"subscribe,omitzero"` // modern: honours resourceSubscriptions of a listen
	ListChanged bool `json:"listChanged,omitzero"`
}

// Names of extensions, as both sides put them in their capabilities.
const (
	ExtensionTasks  = "io.modelcontextprotocol/tasks"
	ExtensionUI     = "io.modelcontextprotocol/ui" // MCP Apps
	ExtensionSkills = "io.modelcontextprotocol/skills"
)

// InitializeParams open a legacy conversation.
type InitializeParams struct {
	ProtocolVersion string             `json:"protocolVersion"`
	Capabilities    ClientCapabilities `json:"capabilities"`
	ClientInfo      Implementation     `json:"clientInfo"`
	Meta            Meta               `json:"_meta,omitzero"`
}

// InitializeResult is the answer to initialize.
type InitializeResult struct {
	ProtocolVersion string             `json:"protocolVersion"`
	Capabilities    ServerCapabilities `json:"capabilities"`
	ServerInfo      Implementation     `json:"serverInfo"`
	Instructions    string             `json:"instructions,omitzero"`
	Meta            Meta               `json:"_meta,omitzero"`
}

// DiscoverResult is the answer to server/discover.
type DiscoverResult struct {
	SupportedVersions []string           `json:"supportedVersions"`
	Capabilities      ServerCapabilities `json:"capabilities"`
	Instructions      string             `json:"instructions,omitzero"`
	Caching
	Meta Meta `json:"_meta,omitzero"`
}

// Caching is how long a result may be kept, and by whom (MCP 2026-07-28, Caching). It is written in the modern era only.
type Caching struct {
	TTLMs      int64  `json:"ttlMs,omitzero"`      // milliseconds
	CacheScope string `json:"cacheScope,omitzero"` // CachePublic or CachePrivate
}

// Who may keep a result: anybody, or only who asked, with the same authorization.
const (
	CachePublic  = "public"
	CachePrivate = "private"
)

// empty is the result that says nothing.
var empty = jsonrpc.Raw("{}")
