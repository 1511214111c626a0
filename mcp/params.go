package mcp

import (
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// params are the members that the methods of a server look at, each as the bytes that came; nil when absent.
type params struct {
	meta, name, uri, arguments, cursor, task jsonrpc.Raw
	inputResponses, requestState             jsonrpc.Raw

	// Of _meta.
	version, capabilities, clientInfo, logLevel, progressToken jsonrpc.Raw

	twice bool // a member came more than once, so that others may read another one
}

// set keeps a member.
func (p *params) set(place *jsonrpc.Raw, value jsonrpc.Raw) {
	p.twice = p.twice || *place != nil
	*place = value
}

// read finds the members in one pass.
func (p *params) read(text jsonrpc.Raw) {
	members(text, func(name []byte, value jsonrpc.Raw) {
		switch string(name) {
		case "_meta":
			p.set(&p.meta, value)
			p.readMeta(value)
		case "name":
			p.set(&p.name, value)
		case "uri":
			p.set(&p.uri, value)
		case "arguments":
			p.set(&p.arguments, value)
		case "cursor":
			p.set(&p.cursor, value)
		case "task":
			p.set(&p.task, value)
		case "inputResponses":
			p.set(&p.inputResponses, value)
		case "requestState":
			p.set(&p.requestState, value)
		}
	})
}

const reservedMeta = "io.modelcontextprotocol/"

func (p *params) readMeta(text jsonrpc.Raw) {
	members(text, func(name []byte, value jsonrpc.Raw) {
		if string(name) == MetaProgressToken {
			p.set(&p.progressToken, value)
			return
		}
		if len(name) <= len(reservedMeta) || string(name[:len(reservedMeta)]) != reservedMeta {
			return
		}
		switch string(name[len(reservedMeta):]) {
		case "protocolVersion":
			p.set(&p.version, value)
		case "clientCapabilities":
			p.set(&p.capabilities, value)
		case "clientInfo":
			p.set(&p.clientInfo, value)
		case "logLevel":
			p.set(&p.logLevel, value)
		}
	})
}

// modern reports whether the request describes itself, as those of the modern era do.
func (p *params) modern() bool { return p.version != nil || p.capabilities != nil }

// Envelope returns the version that a request of the modern era names in its _meta, and whether it has the envelope of that
// era at all. HTTP compares the version with the header before anything else.
func Envelope(req *jsonrpc.Request) (version string, ok bool) {
	var p params
	p.read(req.Params)
	version, _ = textOf(p.version)
	return version, p.modern()
}

// isProgressToken reports whether the checked value is a string or an integer.
func isProgressToken(text jsonrpc.Raw) bool {
	if len(text) == 0 {
		return false
	}
	switch c := text[0]; {
	case c == '"':
		return true
	case c == '-' || c >= '0' && c <= '9':
		return !strings.ContainsAny(string(text), ".eE")
	}
	return false
}

// isFractional reports whether an id is a number that is no integer, which MCP does not have (MCP 2026-07-28, Base Protocol).
func isFractional(id jsonrpc.ID) bool {
	if _, ok := id.Int(); ok {
		return false
	}
	text := id.String()
	return text != "" && text[0] != '"' && text[0] != 'n' && strings.ContainsAny(text, ".eE")
}
