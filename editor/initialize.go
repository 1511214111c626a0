package editor

import "github.com/da1ed7bb/parley/jsonrpc"

// InitializeParams opens a connection (Agent Client Protocol v1, Initialization).
type InitializeParams struct {
	// the newest that the client supports
	ProtocolVersion    int                `json:"protocolVersion"`
	ClientCapabilities ClientCapabilities `json:"clientCapabilities,omitzero"`
	ClientInfo         *Implementation    `json:"clientInfo,omitzero"`
	Meta               Meta               `json:"_meta,omitzero"`
}

// InitializeResult is the response. A client that does not support ProtocolVersion closes the
// connection.
type InitializeResult struct {
	ProtocolVersion   int               `json:"protocolVersion"`
	AgentCapabilities AgentCapabilities `json:"agentCapabilities"`
	AuthMethods       []AuthMethod      `json:"authMethods"`
	AgentInfo         *Implementation   `json:"agentInfo,omitzero"`
	Meta              Meta              `json:"_meta,omitzero"`
}

// ClientCapabilities lists what an agent may request from a client. Members that version 1 does not
// define are in Extra.
type ClientCapabilities struct {
	FS          FileSystemCapabilities     `json:"fs,omitzero"`
	Terminal    bool                       `json:"terminal,omitzero"` // all terminal/* methods
	Session     *ClientSessionCapabilities `json:"session,omitzero"`
	Auth        *ClientAuthCapabilities    `json:"auth,omitzero"`
	Elicitation *ElicitationCapabilities   `json:"elicitation,omitzero"`
	Meta        Meta                       `json:"_meta,omitzero"`
	Extra       Meta                       `json:",embed"`
}

// FileSystemCapabilities lists the fs methods that a client supports.
type FileSystemCapabilities struct {
	ReadTextFile  bool `json:"readTextFile"`
	WriteTextFile bool `json:"writeTextFile"`
	Meta          Meta `json:"_meta,omitzero"`
}

// ClientSessionCapabilities lists the updates and options that a client supports in addition to the
// common ones.
type ClientSessionCapabilities struct {
	// compaction_update, compaction_summary_chunk
	Compaction    *Mark                     `json:"compaction,omitzero"`
	ConfigOptions *ConfigOptionCapabilities `json:"configOptions,omitzero"`
	Notices       *Mark                     `json:"notices,omitzero"` // notice
	Meta          Meta                      `json:"_meta,omitzero"`
}

// ConfigOptionCapabilities lists the kinds of options that a client can show.
type ConfigOptionCapabilities struct {
	Boolean *Mark `json:"boolean,omitzero"`
	Meta    Meta  `json:"_meta,omitzero"`
}

// ClientAuthCapabilities reports whether a client can run the agent in a terminal for a login.
type ClientAuthCapabilities struct {
	Terminal bool `json:"terminal"`
	Meta     Meta `json:"_meta,omitzero"`
}

// ElicitationCapabilities lists the ways in which a client can ask its user.
type ElicitationCapabilities struct {
	Form *Mark `json:"form,omitzero"`
	URL  *Mark `json:"url,omitzero"`
	Meta Meta  `json:"_meta,omitzero"`
}

// AgentCapabilities lists what a client may request from an agent in addition to the common
// methods. Members that version 1 does not define are in Extra.
type AgentCapabilities struct {
	LoadSession         bool                   `json:"loadSession"`
	PromptCapabilities  PromptCapabilities     `json:"promptCapabilities"`
	MCPCapabilities     MCPCapabilities        `json:"mcpCapabilities"`
	SessionCapabilities SessionCapabilities    `json:"sessionCapabilities"`
	Auth                *AgentAuthCapabilities `json:"auth,omitzero"`
	Meta                Meta                   `json:"_meta,omitzero"`
	Extra               Meta                   `json:",embed"`
}

// PromptCapabilities lists the kinds of blocks that a prompt may contain besides text and links,
// which all agents accept.
type PromptCapabilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
	Meta            Meta `json:"_meta,omitzero"`
}

// MCPCapabilities lists the kinds of MCP servers that an agent can connect to besides those on
// stdio.
type MCPCapabilities struct {
	HTTP bool `json:"http"`
	SSE  bool `json:"sse"`
	Meta Meta `json:"_meta,omitzero"`
}

// SessionCapabilities lists the optional session methods that an agent supports.
type SessionCapabilities struct {
	List                  *Mark `json:"list,omitzero"`
	Delete                *Mark `json:"delete,omitzero"`
	AdditionalDirectories *Mark `json:"additionalDirectories,omitzero"`
	Resume                *Mark `json:"resume,omitzero"`
	Close                 *Mark `json:"close,omitzero"`
	Meta                  Meta  `json:"_meta,omitzero"`
	Extra                 Meta  `json:",embed"`
}

// AgentAuthCapabilities reports whether an agent supports logout.
type AgentAuthCapabilities struct {
	Logout *Mark `json:"logout,omitzero"`
	Meta   Meta  `json:"_meta,omitzero"`
}

// AuthTerminal is the Type of an [AuthMethod] for which the client runs the agent's program in a
// terminal instead of calling authenticate.
const AuthTerminal = "terminal"

// An AuthMethod is a way to log in.
type AuthMethod struct {
	// AuthTerminal, or empty: the agent handles it in authenticate.
	Type        string `json:"type,omitzero"`
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	// AuthTerminal: appended to the agent's own
	Args  []string          `json:"args,omitzero"`
	Env   map[string]string `json:"env,omitzero"` // AuthTerminal
	Meta  Meta              `json:"_meta,omitzero"`
	Extra Meta              `json:",embed"`
}

// AuthenticateParams selects a way to log in.
type AuthenticateParams struct {
	MethodID string `json:"methodId"`
	Meta     Meta   `json:"_meta,omitzero"`
}

// An Empty holds params or a result without members, except _meta and extra members.
type Empty struct {
	Meta Meta `json:"_meta,omitzero"`
}

var empty = jsonrpc.Raw("{}")
