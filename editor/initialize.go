package editor

import "github.com/da1ed7bb/parley/jsonrpc"

// InitializeParams open a connection (Agent Client Protocol v1, Initialization).
type InitializeParams struct {
	ProtocolVersion    int                `json:"protocolVersion"` // the newest that the client speaks
	ClientCapabilities ClientCapabilities `json:"clientCapabilities,omitzero"`
	ClientInfo         *Implementation    `json:"clientInfo,omitzero"`
	Meta               Meta               `json:"_meta,omitzero"`
}

// InitializeResult answers them. A client that does not speak ProtocolVersion closes the connection.
type InitializeResult struct {
	ProtocolVersion   int               `json:"protocolVersion"`
	AgentCapabilities AgentCapabilities `json:"agentCapabilities"`
	AuthMethods       []AuthMethod      `json:"authMethods"`
	AgentInfo         *Implementation   `json:"agentInfo,omitzero"`
	Meta              Meta              `json:"_meta,omitzero"`
}

// ClientCapabilities are what an agent may ask of a client. Members that version 1 does not know are in Extra.
type ClientCapabilities struct {
	FS          FileSystemCapabilities     `json:"fs,omitzero"`
	Terminal    bool                       `json:"terminal,omitzero"` // all terminal/* methods
	Session     *ClientSessionCapabilities `json:"session,omitzero"`
	Auth        *ClientAuthCapabilities    `json:"auth,omitzero"`
	Elicitation *ElicitationCapabilities   `json:"elicitation,omitzero"`
	Meta        Meta                       `json:"_meta,omitzero"`
	Extra       Meta                       `json:",embed"`
}

// FileSystemCapabilities say which of the fs methods a client answers.
type FileSystemCapabilities struct {
	ReadTextFile  bool `json:"readTextFile"`
	WriteTextFile bool `json:"writeTextFile"`
	Meta          Meta `json:"_meta,omitzero"`
}

// ClientSessionCapabilities say which updates, and which options, a client knows beyond the common ones.
type ClientSessionCapabilities struct {
	Compaction    *Mark                     `json:"compaction,omitzero"` // compaction_update, compaction_summary_chunk
	ConfigOptions *ConfigOptionCapabilities `json:"configOptions,omitzero"`
	Notices       *Mark                     `json:"notices,omitzero"` // notice
	Meta          Meta                      `json:"_meta,omitzero"`
}

// ConfigOptionCapabilities say which kinds of options a client can show.
type ConfigOptionCapabilities struct {
	Boolean *Mark `json:"boolean,omitzero"`
	Meta    Meta  `json:"_meta,omitzero"`
}

// ClientAuthCapabilities say that a client can run the agent in a terminal for a login.
type ClientAuthCapabilities struct {
	Terminal bool `json:"terminal"`
	Meta     Meta `json:"_meta,omitzero"`
}

// ElicitationCapabilities say in which ways a client asks its user.
type ElicitationCapabilities struct {
	Form *Mark `json:"form,omitzero"`
	URL  *Mark `json:"url,omitzero"`
	Meta Meta  `json:"_meta,omitzero"`
}

// AgentCapabilities are what a client may ask of an agent beside the common methods. Members that version 1 does not know are in Extra.
type AgentCapabilities struct {
	LoadSession         bool                   `json:"loadSession"`
	PromptCapabilities  PromptCapabilities     `json:"promptCapabilities"`
	MCPCapabilities     MCPCapabilities        `json:"mcpCapabilities"`
	SessionCapabilities SessionCapabilities    `json:"sessionCapabilities"`
	Auth                *AgentAuthCapabilities `json:"auth,omitzero"`
	Meta                Meta                   `json:"_meta,omitzero"`
	Extra               Meta                   `json:",embed"`
}

// PromptCapabilities say which blocks a prompt may hold beside text and links, which all agents take.
type PromptCapabilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
	Meta            Meta `json:"_meta,omitzero"`
}

// MCPCapabilities say which MCP servers an agent can reach beside those on stdio.
type MCPCapabilities struct {
	HTTP bool `json:"http"`
	SSE  bool `json:"sse"`
	Meta Meta `json:"_meta,omitzero"`
}

// SessionCapabilities say which of the optional session methods an agent answers.
type SessionCapabilities struct {
	List                  *Mark `json:"list,omitzero"`
	Delete                *Mark `json:"delete,omitzero"`
	AdditionalDirectories *Mark `json:"additionalDirectories,omitzero"`
	Resume                *Mark `json:"resume,omitzero"`
	Close                 *Mark `json:"close,omitzero"`
	Meta                  Meta  `json:"_meta,omitzero"`
	Extra                 Meta  `json:",embed"`
}

// AgentAuthCapabilities say that there is a logout.
type AgentAuthCapabilities struct {
	Logout *Mark `json:"logout,omitzero"`
	Meta   Meta  `json:"_meta,omitzero"`
}

// AuthTerminal is the Type of an [AuthMethod] for which the client runs the agent's program in a terminal, instead of calling authenticate.
const AuthTerminal = "terminal"

// An AuthMethod is a way to log in.
type AuthMethod struct {
	Type        string            `json:"type,omitzero"` // AuthTerminal, or empty: the agent does it in authenticate
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitzero"`
	Args        []string          `json:"args,omitzero"` // AuthTerminal: after the agent's own
	Env         map[string]string `json:"env,omitzero"`  // AuthTerminal
	Meta        Meta              `json:"_meta,omitzero"`
	Extra       Meta              `json:",embed"`
}

// AuthenticateParams choose a way to log in.
type AuthenticateParams struct {
	MethodID string `json:"methodId"`
	Meta     Meta   `json:"_meta,omitzero"`
}

// An Empty is params or a result with nothing in it but what both sides add.
type Empty struct {
	Meta Meta `json:"_meta,omitzero"`
}

var empty = jsonrpc.Raw("{}")
