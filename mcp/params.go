package mcp

import (
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// params are the members that the methods of a server use, each as raw JSON, or nil if absent.
type params struct {
	meta, name, uri, arguments, cursor, task jsonrpc.Raw
	inputResponses, requestState             jsonrpc.Raw

	// members of _meta
	version, capabilities, clientInfo, logLevel, progressToken jsonrpc.Raw

	twice bool // a member is duplicated, so that another parser may read a different value
	more  bool // there are members with other names
}

// set stores a member.
func (p *params) set(place *jsonrpc.Raw, value jsonrpc.Raw) {
	p.twice = p.twice || *place != nil
	*place = value
}

// read finds the members in one pass.
func (p *params) read(text jsonrpc.Raw) {
	for name, value := range text.Members() {
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
		default:
			p.more = true
		}
	}
}

// fixed returns the members that are the same in all rounds of a call. text is what p was read
// from; it is read again only if it has members with other names.
func (p *params) fixed(text jsonrpc.Raw) map[string]jsonrpc.Raw {
	all := map[string]jsonrpc.Raw{}
	if p.more {
		for name, value := range text.Members() {
			all[string(name)] = value
		}
		for _, changing := range []string{"_meta", "inputResponses", "requestState"} {
			delete(all, changing)
		}
		return all
	}
	for name, value := range map[string]jsonrpc.Raw{"name": p.name, "uri": p.uri, "arguments": p.arguments, "cursor": p.cursor,
		"task": p.task} {
		if value != nil {
			all[name] = value
		}
	}
	return all
}

const reservedMeta = "io.modelcontextprotocol/"

func (p *params) readMeta(text jsonrpc.Raw) {
	for name, value := range text.Members() {
		if string(name) == MetaProgressToken {
			p.set(&p.progressToken, value)
			continue
		}
		if len(name) <= len(reservedMeta) || string(name[:len(reservedMeta)]) != reservedMeta {
			continue
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
	}
}

// modern reports whether the request has the envelope of the modern era.
func (p *params) modern() bool { return p.version != nil || p.capabilities != nil }

// Envelope returns the version in the _meta of a modern request, and whether the request has a
// modern envelope at all. An HTTP transport compares the version with the header before anything
// else.
func Envelope(req *jsonrpc.Request) (version string, ok bool) {
	var p params
	p.read(req.Params)
	version, _ = textOf(p.version)
	return version, p.modern()
}

// isProgressToken reports whether text is a string or an integer. text must be valid JSON or empty.
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

// isFractional reports whether an ID is a number but not an integer, which MCP does not allow (MCP
// 2026-07-28, Base Protocol).
func isFractional(id jsonrpc.ID) bool {
	if _, ok := id.Int(); ok {
		return false
	}
	text := id.String()
	return text != "" && text[0] != '"' && text[0] != 'n' && strings.ContainsAny(text, ".eE")
}
