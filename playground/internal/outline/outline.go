// Package outline has the form in which the page gets what a target offers: methods, tools,
// prompts, resources and agents, each with its JSON Schema.
package outline

import "github.com/da1ed7bb/parley/jsonrpc"

// Protocols that a target may speak.
const (
	ProtocolJSONRPC = "jsonrpc"
	ProtocolMCP     = "mcp"
	ProtocolACP     = "acp"
	ProtocolA2A     = "a2a"
	ProtocolEditor  = "editor"
	ProtocolLSP     = "lsp"
)

// A Description is what a target offers, in the form that the page's forms and completion need.
type Description struct {
	Protocol  string                 `json:"protocol"`
	Methods   []Method               `json:"methods"`
	Tools     []Item                 `json:"tools"`
	Resources []Item                 `json:"resources"`
	Templates []Item                 `json:"templates"`
	Prompts   []Item                 `json:"prompts"`
	Agents    []Item                 `json:"agents"`
	Raw       map[string]jsonrpc.Raw `json:"raw"`
	Problems  []string               `json:"problems"`
}

// A Method is a callable method.
type Method struct {
	Name  string `json:"name"`
	Title string `json:"title,omitzero"`
	About string `json:"about,omitzero"`
	// JSON Schema of the params by name; "x-order" lists the names in order
	Params       jsonrpc.Raw `json:"params,omitzero"`
	Result       jsonrpc.Raw `json:"result,omitzero"`
	Examples     []Example   `json:"examples,omitzero"`
	Notification bool        `json:"notification,omitzero"`
	From         string      `json:"from"` // the caller: client or server
	Errors       []Error     `json:"errors,omitzero"`
}

// An Example is a documented call of a method.
type Example struct {
	Name   string      `json:"name,omitzero"`
	Params jsonrpc.Raw `json:"params,omitzero"`
	Result jsonrpc.Raw `json:"result,omitzero"`
}

// An Error is an error that a method documents.
type Error struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// An Item is something that a method is applied to: a tool, a prompt, an agent.
type Item struct {
	Name        string      `json:"name"`
	Title       string      `json:"title,omitzero"`
	About       string      `json:"about,omitzero"`
	Schema      jsonrpc.Raw `json:"schema,omitzero"`
	Output      jsonrpc.Raw `json:"output,omitzero"`
	Method      string      `json:"method"`
	Template    jsonrpc.Raw `json:"template"` // params to start with
	URI         string      `json:"uri,omitzero"`
	Annotations jsonrpc.Raw `json:"annotations,omitzero"`
}
