package check

import (
	"bytes"
	"slices"

	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// legacy are the versions of MCP with a handshake.
var legacy = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

const clientInfo = `"capabilities":{},"clientInfo":{"name":"parley-check","version":"1.0"}`

// open performs the handshake of MCP.
func (t *talk) open(version string) (string, *finding) {
	result, f := t.call("initialize", `{"protocolVersion":"`+version+`",`+clientInfo+`}`)
	if f != nil {
		return "", f
	}
	if f := object("initialize", result, `protocolVersion:"`, "capabilities:{", "serverInfo:{"); f != nil {
		return "", f
	}
	agreed, _ := stringOf(messageOf(result, 1).member("protocolVersion"))
	t.results["initialize"] = result
	if t.s.mcpSession != "" {
		t.s.o.Header.Set("Mcp-Session-Id", t.s.mcpSession)
	}
	if agreed >= "2025-06-18" {
		t.s.o.Header.Set("Mcp-Protocol-Version", agreed)
	}
	return agreed, t.notify("notifications/initialized", "")
}

func mcpRules() (rules []rule) {
	const lifecycle = "MCP, Lifecycle"
	for _, version := range legacy {
		rules = append(rules, converse("mcp/"+version, "MCP "+version+", Lifecycle and schema", lens.MCP, func(t *talk) *finding {
			agreed, f := t.open(version)
			if f != nil {
				return f
			}
			if !slices.Contains(legacy, agreed) {
				return failed("initialize: the version %q is not a version with a handshake", agreed)
			}
			if _, f := t.call("ping", ""); f != nil {
				return f
			}
			for _, list := range []string{"tools", "resources", "prompts"} {
				if t.capability(list) == nil {
					continue
				}
				result, f := t.call(list+"/list", "")
				if f == nil {
					f = object(list+"/list", result, list+":[")
				}
				if f != nil {
					return f
				}
			}
			return nil
		}))
	}
	within := func(id, section string, f func(t *talk) *finding) {
		rules = append(rules, converse("mcp/"+id, section, lens.MCP, func(t *talk) *finding {
			if _, found := t.open("2025-06-18"); found != nil {
				return found
			}
			return f(t)
		}))
	}
	rules = append(rules, converse("mcp/unknown-version", lifecycle, lens.MCP, func(t *talk) *finding {
		result, f := t.call("initialize", `{"protocolVersion":"1999-01-01",`+clientInfo+`}`)
		if f != nil {
			return nil // the server may reject the version
		}
		if agreed, _ := stringOf(messageOf(result, 1).member("protocolVersion")); agreed == "1999-01-01" || agreed == "" {
			return failed("the server accepts the version 1999-01-01, which does not exist; it must offer one that it supports")
		}
		return nil
	}))
	within("unknown-method", spec+"5.1", func(t *talk) *finding {
		_, f := t.call("parley-check/unknown", "", noMethod)
		return f
	})
	within("unknown-tool", "MCP 2025-06-18, Tools", func(t *talk) *finding {
		if t.capability("tools") == nil {
			return skipped("the server has no tools")
		}
		result, f := t.call("tools/call", `{"name":"parley-check-unknown","arguments":{}}`)
		if f == nil && string(messageOf(result, 1).member("isError")) != "true" {
			return failed("the call of an unknown tool succeeded")
		}
		return nil
	})
	within("unknown-notification", spec+"4.1", func(t *talk) *finding { return t.notify("notifications/parley-check", `{}`) })
	within("unknown-cancel", "MCP 2025-06-18, Cancellation", func(t *talk) *finding {
		if f := t.notify("notifications/cancelled", `{"requestId":"parley-check-unknown","reason":"check"}`); f != nil {
			return f
		}
		_, f := t.call("ping", "")
		return f
	})
	ping := call{method: "ping"}
	rules = append(rules, baseRules("mcp", lens.MCP, func(t *talk) *finding {
		_, f := t.open("2025-06-18")
		return f
	}, ping)...)
	const batch = `[{"jsonrpc":"2.0","id":"one","method":"ping"},{"jsonrpc":"2.0","id":"two","method":"ping"}]`
	rules = append(rules, converse("mcp/2025-03-26/batch", "MCP 2025-03-26, Batching", lens.MCP, func(t *talk) *finding {
		if f := t.opened("2025-03-26"); f != nil {
			return f
		}
		r := t.s.ask(batch)
		if len(r.others) > 0 { // one event for each response
			r.raw = []byte("[" + string(bytes.Join(append(r.others, r.raw), []byte(","))) + "]")
			r.others = nil
		}
		return reason(members(one(`"one"`, "{}"), one(`"two"`, "{}"))(r))
	}))
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		r := converse("mcp/"+version+"/no-batch", "MCP "+version+", Base Protocol", lens.MCP, func(t *talk) *finding {
			if f := t.opened(version); f != nil {
				return f
			}
			replies, f := t.after(batch, ping)
			if f != nil {
				return f
			}
			for _, raw := range replies {
				if m, err := parseMessage(raw); err == nil && (m.kind == '[' && slices.ContainsFunc(m.list, hasResult) || hasResult(m)) {
					return failed("the batch was executed; version %s has no batches", version)
				}
			}
			return nil
		})
		r.level = Expect
		rules = append(rules, r)
	}
	return append(rules, modernRules()...)
}

func hasResult(m *message) bool { return m.member("result") != nil }

// opened performs the handshake for one version.
func (t *talk) opened(version string) *finding {
	agreed, f := t.open(version)
	if f == nil && agreed != version {
		f = skipped("the server does not support " + version)
	}
	return f
}

// modern is the version of MCP without a handshake.
const modern = "2026-07-28"

// modernMeta is the _meta of a modern request for a version.
func modernMeta(version string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientInfo":{"name":"parley-check","version":"1.0"},"io.modelcontextprotocol/clientCapabilities":{}}`
}

// modernCall calls a method with the _meta and the headers of a version.
func (t *talk) modernCall(method, version string, codes ...string) (jsonrpc.Raw, *finding) {
	t.s.o.Header.Set("Mcp-Protocol-Version", version)
	t.s.o.Header.Set("Mcp-Method", method)
	return t.call(method, "{"+modernMeta(version)+"}", codes...)
}

// discovered calls server/discover. Without an answer to it, the server has no modern version.
func (t *talk) discovered() (*message, *finding) {
	result, f := t.modernCall("server/discover", modern)
	if f != nil {
		return nil, skipped("the server does not support " + modern + ": " + f.why)
	}
	if f := object("server/discover", result, "supportedVersions:[", "capabilities:{", `resultType:"`, "ttlMs:0123456789", `cacheScope:"`); f != nil {
		return nil, f
	}
	found := messageOf(result, 1)
	for version := range found.member("supportedVersions").Elements() {
		if sameString(version, modern) {
			return found, nil
		}
	}
	return nil, skipped("server/discover: the server does not support " + modern)
}

// modernRules check MCP 2026-07-28: every request has its version, and there is no handshake.
func modernRules() (rules []rule) {
	const title = "MCP " + modern + ", "
	within := func(id, section string, f func(t *talk, found *message) *finding) {
		rules = append(rules, converse("mcp/"+modern+id, title+section, lens.MCP, func(t *talk) *finding {
			found, bad := t.discovered()
			if bad != nil {
				return bad
			}
			return f(t, found)
		}))
	}
	within("", "Discovery and schema", func(t *talk, found *message) *finding {
		capabilities := messageOf(found.member("capabilities"), 1)
		for _, list := range []string{"tools", "resources", "prompts"} {
			if capabilities.member(list) == nil {
				continue
			}
			result, f := t.modernCall(list+"/list", modern)
			if f == nil {
				f = object(list+"/list", result, list+":[", `resultType:"`, "ttlMs:0123456789", `cacheScope:"`)
			}
			if f != nil {
				return f
			}
		}
		return nil
	})
	within("/unknown-method", "Transports", func(t *talk, _ *message) *finding {
		_, f := t.modernCall("parley-check/unknown", modern, noMethod)
		return f
	})
	within("/removed-ping", "Changelog", func(t *talk, _ *message) *finding {
		_, f := t.modernCall("ping", modern, noMethod)
		return f
	})
	within("/unsupported-version", "Versioning", func(t *talk, _ *message) *finding {
		if _, f := t.modernCall("server/discover", "1999-01-01", "-32022"); f != nil {
			return f
		}
		m, err := parseMessage([]byte(t.s.lastReceived))
		if err != nil || len(m.sub("error", "data")) == 0 {
			return failed("the error -32022 has no data with the supported versions")
		}
		return object("the data of -32022", m.sub("error", "data"), "supported:[", `requested:"`)
	})
	within("/missing-meta", "Base Protocol, Request Metadata", func(t *talk, _ *message) *finding {
		t.s.o.Header.Set("Mcp-Protocol-Version", modern)
		t.s.o.Header.Set("Mcp-Method", "tools/list")
		// Without the version, a server with a handshake may ask for that.
		_, f := t.call("tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"`+modern+`"}}`, invalidParams)
		return f
	})
	web := func(id, section string, f func(t *talk) *finding) {
		within(id, section, func(t *talk, _ *message) *finding { return f(t) })
		rules[len(rules)-1].on = kindHTTP
	}
	web("/header-mismatch", "Transports, Standard Headers", func(t *talk) *finding {
		t.s.o.Header.Set("Mcp-Protocol-Version", modern)
		t.s.o.Header.Set("Mcp-Method", "tools/call")
		_, f := t.call("server/discover", "{"+modernMeta(modern)+"}", "-32020")
		return f
	})
	web("/missing-header", "Transports, Standard Headers", func(t *talk) *finding {
		t.s.o.Header.Del("Mcp-Method")
		_, f := t.call("server/discover", "{"+modernMeta(modern)+"}", "-32020")
		return f
	})
	web("/get", "Transports", func(t *talk) *finding {
		h, err := t.s.dialHTTP()
		if err != nil {
			return failed("%s", plainError(err))
		}
		defer h.close()
		header := t.s.postHeader()
		header.Del("Content-Type")
		got, f := h.exchange(t.s.head("GET", header), "GET")
		if got == nil {
			return f
		}
		if got.status != 405 {
			return failed("GET has status %d instead of 405", got.status)
		}
		return nil
	})
	return rules
}

// capability returns a capability of the server.
func (t *talk) capability(name string) jsonrpc.Raw {
	capabilities := messageOf(t.results["initialize"], 1).member("capabilities")
	if len(capabilities) == 0 || capabilities[0] != '{' {
		return nil
	}
	return messageOf(capabilities, 1).member(name)
}
