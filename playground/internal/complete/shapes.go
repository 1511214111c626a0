package complete

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/playground/internal/cursor"
	"github.com/da1ed7bb/parley/playground/internal/outline"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// This file finds the schemas that apply at the cursor, and the values that no schema lists: names
// of tools, prompts and agents.

// A shape is one schema that applies at a place, with its references resolved.
type shape struct {
	schemaview.Keywords
	schemaview.View
}

// shapes returns the schemas that apply at the place.
func (c *completer) shapes() []shape {
	var list []schemaview.View
	path, at := c.path, c.message
	switch c.path[0] {
	case "params":
		list, path, at = c.paramsSchemas()
	case "result":
		q := c.question()
		if q == nil {
			return nil
		}
		if q.Form != nil {
			answer := jsonrpc.Raw(`{"properties":{"action":{"enum":["accept","decline","cancel"]},"content":` + string(q.Form) + `},"required":["action"]}`)
			list, path, at = []schemaview.View{schemaview.New(answer)}, path[1:], at.Member("result")
		}
	case "error":
		list, path, at = []schemaview.View{schemaview.New(errorShape)}, path[1:], at.Member("error")
	}
	for _, step := range path {
		var next []schemaview.View
		for _, s := range c.expandAll(list, at) {
			if part, ok := s.step(step); ok && len(next) < maxShapes {
				next = append(next, part)
			}
		}
		list, at = next, at.Step(step)
	}
	return c.expandAll(list, at)
}

// errorShape is the schema of a response's error (JSON-RPC 2.0, section 5.1).
var errorShape = jsonrpc.Raw(`{"properties":{"code":{"type":"integer","oneOf":[{"const":-32700,"title":"Parse error"},{"const":-32600,"title":"Invalid Request"},` +
	`{"const":-32601,"title":"Method not found"},{"const":-32602,"title":"Invalid params"},{"const":-32603,"title":"Internal error"}]},` +
	`"message":{"type":"string","description":"one short sentence"},"data":{"description":"details"}},"required":["code","message"]}`)

// paramsSchemas returns the schemas of params, or of the arguments in them, with the remaining path
// from there.
func (c *completer) paramsSchemas() (list []schemaview.View, path []any, at *cursor.Node) {
	params := c.message.Member("params")
	if item := c.item(); item != nil && len(c.path) > 1 && c.path[1] == "arguments" {
		return []schemaview.View{schemaview.New(item.Schema)}, c.path[2:], params.Member("arguments")
	}
	m := c.method()
	if m == nil {
		return nil, nil, nil
	}
	if nested := nestedShapes[c.target.Protocol][m.Name]; nested != nil {
		list = append(list, schemaview.New(nested))
	}
	return append(list, schemaview.New(m.Params)), c.path[1:], params
}

// item returns the tool or the prompt that params name, or nil.
func (c *completer) item() *outline.Item {
	if c.target.Protocol != outline.ProtocolMCP || c.target.Known == nil {
		return nil
	}
	var list []outline.Item
	switch c.message.Member("method").String() {
	case mcp.MethodToolsCall:
		list = c.target.Known.Tools
	case mcp.MethodPromptsGet:
		list = c.target.Known.Prompts
	}
	name := c.message.Member("params").Member("name").String()
	if i := slices.IndexFunc(list, func(x outline.Item) bool { return x.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

func (c *completer) expandAll(list []schemaview.View, at *cursor.Node) (all []shape) {
	for _, s := range list {
		all = c.expand(all, s, at, 0)
	}
	return all
}

// expand adds a schema and its alternatives, except those that the value at the place contradicts.
func (c *completer) expand(all []shape, s schemaview.View, at *cursor.Node, depth int) []shape {
	k, s, ok := s.Keys(depth)
	if !ok || depth > schemaview.MaxDepth || len(all) >= maxShapes || c.contradicts(k.Properties, s, at) {
		return all
	}
	all = append(all, shape{k, s})
	for _, parts := range [][]jsonrpc.Raw{k.AllOf, k.OneOf, k.AnyOf} {
		for _, part := range parts {
			all = c.expand(all, s.Sub(part), at, depth+1)
		}
	}
	return all
}

// contradicts reports whether a member's value differs from the one that the schema requires, such
// as the type member of a union.
func (c *completer) contradicts(properties map[string]jsonrpc.Raw, s schemaview.View, at *cursor.Node) bool {
	if at == nil || at.Kind != '{' {
		return false
	}
	for _, m := range at.Members {
		if m.Value == nil || m.Value.From == c.place.From || properties[m.Name] == nil {
			continue
		}
		k, _, ok := s.Sub(properties[m.Name]).Keys(1)
		if ok && len(k.Const) > 0 && (m.Value.Kind == '"' || m.Value.Kind == 'w') && !schemaview.SameValue(k.Const, jsonrpc.Raw(c.text[m.Value.From:m.Value.To])) {
			return true
		}
	}
	return false
}

// step returns the schema of a member or an element.
func (s *shape) step(step any) (schemaview.View, bool) {
	var part jsonrpc.Raw
	switch step := step.(type) {
	case string:
		if part = s.Properties[step]; part == nil {
			part = s.Additional
		}
	case int:
		switch n := len(s.Order); {
		case step < n:
			part = s.Properties[s.Order[step]]
		case n > 0 && s.Variadic:
			part = s.Properties[s.Order[n-1]]
		default:
			part = s.Items
		}
	}
	return s.Sub(part), len(part) > 0
}

// names returns the members that the schema defines, in its order.
func (s *shape) names() []string {
	names := slices.Clone(s.Order)
	for name := range schemaview.Properties(s.Text).Members() {
		if !slices.Contains(names, string(name)) {
			names = append(names, string(name))
		}
	}
	if s.Variadic && len(s.Order) > 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return name == s.Order[len(s.Order)-1] })
	}
	return slices.DeleteFunc(names, func(name string) bool { return s.Properties[name] == nil })
}

// skeleton returns the start of a member's value and the cursor position in it.
func skeleton(s schemaview.View) (value string, caret int) {
	k, _, ok := s.Keys(0)
	types := schemaview.TypesOf(k.Type)
	switch {
	case !ok:
		return "", 0
	case len(k.Const) > 0:
		return string(k.Const), -1
	case len(k.Default) > 0:
		return string(k.Default), -1
	case len(k.Enum) > 0, len(k.OneOf) > 0, len(k.AnyOf) > 0, len(types) > 1:
		return "", 0
	case slices.Contains(types, "string"):
		return `""`, 1
	case slices.Contains(types, "array"):
		return `[]`, 1
	case slices.Contains(types, "object"), k.Properties != nil:
		return `{}`, 1
	}
	return "", 0
}

// hint returns a type and its description in a few words.
func hint(s schemaview.View, must bool) string {
	k, _, ok := s.Keys(0)
	if !ok {
		return ""
	}
	words := strings.Join(schemaview.TypesOf(k.Type), " or ")
	if must {
		words = strings.TrimPrefix(words+", required", ", ")
	}
	described := about(&k)
	if words != "" && described != "" {
		return words + ": " + described
	}
	return words + described
}

// about returns the description of a schema, or its title.
func about(k *schemaview.Keywords) string {
	var text string
	if k.Description.Decode(&text) != nil || text == "" {
		_ = k.Title.Decode(&text) // a title that is not a string is ignored
	}
	return text
}

// offerTo offers the values that a schema lists.
func (s *shape) offerTo(c *completer) {
	about := about(&s.Keywords)
	if len(s.Const) > 0 {
		c.value(s.Const, about)
	}
	if len(s.Default) > 0 {
		c.value(s.Default, "the default")
	}
	for _, v := range s.Enum {
		c.value(v, "")
	}
	for v := range s.Examples.Elements() {
		c.value(v, "an example")
	}
	for _, t := range schemaview.TypesOf(s.Type) {
		switch t {
		case "boolean":
			c.value(jsonrpc.Raw(`true`), about)
			c.value(jsonrpc.Raw(`false`), about)
		case "null":
			c.value(jsonrpc.Raw(`null`), about)
		case "object", "array":
			if !c.place.Begun {
				c.value(s.View.Example(0), about)
			}
		}
	}
	if len(s.Minimum) > 0 && len(s.Enum)+len(s.Default)+len(s.Const) == 0 && !c.place.Begun {
		c.value(s.Minimum, "the minimum")
	}
}

// dynamic offers what the target has listed: names of tools and prompts, addresses of resources,
// agents.
func (c *completer) dynamic(ctx context.Context) {
	if c.target.Known == nil || len(c.path) < 2 {
		return
	}
	method := c.message.Member("method").String()
	params := c.message.Member("params")
	place, _ := c.path[1].(string)
	deeper, _ := c.path[len(c.path)-1].(string)
	items := func(list []outline.Item) {
		for _, x := range list {
			c.textValue(x.Name, cmp.Or(x.Title, x.About))
		}
	}
	switch {
	case c.target.Protocol == outline.ProtocolACP && (method == acp.MethodRunsCreate && place == "agent_name" || method == acp.MethodAgentsGet && place == "name"):
		items(c.target.Known.Agents)
	case c.target.Protocol != outline.ProtocolMCP:
	case method == mcp.MethodToolsCall && place == "name":
		items(c.target.Known.Tools)
	case method == mcp.MethodPromptsGet && place == "name":
		items(c.target.Known.Prompts)
	case method == mcp.MethodPromptsGet && place == "arguments" && len(c.path) == 3 && c.item() != nil:
		c.propose(ctx, `{"type":"ref/prompt","name":`+quote(c.item().Name)+`}`, deeper, c.place.Typed, given(params.Member("arguments"), deeper), "", "")
	case (method == mcp.MethodResourcesRead || method == mcp.MethodResourcesSubscribe || method == mcp.MethodResourcesUnsubscribe) && place == "uri":
		for _, x := range c.target.Known.Resources {
			c.textValue(x.URI, cmp.Or(x.Title, x.Name))
		}
		for _, x := range c.target.Known.Templates {
			c.template(ctx, x)
		}
	case method == mcp.MethodComplete && place == "ref" && deeper == "name":
		items(c.target.Known.Prompts)
	case method == mcp.MethodComplete && place == "ref" && deeper == "uri":
		for _, x := range c.target.Known.Templates {
			c.textValue(x.URI, cmp.Or(x.Title, x.Name))
		}
	case method == mcp.MethodComplete && place == "argument" && deeper == "name":
		ref := params.Member("ref")
		for _, x := range c.target.Known.Prompts {
			if k, s, ok := schemaview.New(x.Schema).Keys(0); ok && x.Name == ref.Member("name").String() {
				for _, name := range (&shape{k, s}).names() {
					c.textValue(name, hint(s.Sub(k.Properties[name]), false))
				}
			}
		}
		for _, x := range c.target.Known.Templates {
			if x.URI == ref.Member("uri").String() {
				for _, part := range templateParts(x.URI) {
					c.textValue(part.name, x.Name)
				}
			}
		}
	}
}

// argumentNames offers names of a prompt's other arguments for completion/complete, which sends
// those that have a value already.
func (c *completer) argumentNames(holder *cursor.Node) {
	if c.target.Protocol != outline.ProtocolMCP || c.target.Known == nil || c.message.Member("method").String() != mcp.MethodComplete || len(c.path) != 3 || c.path[1] != "context" || c.path[2] != "arguments" {
		return
	}
	ref := c.message.Member("params").Member("ref")
	for _, x := range c.target.Known.Prompts {
		if k, s, ok := schemaview.New(x.Schema).Keys(0); ok && x.Name == ref.Member("name").String() {
			for _, name := range (&shape{k, s}).names() {
				if !holder.Has(name) {
					c.member(name, `""`, 1, hint(s.Sub(k.Properties[name]), false))
				}
			}
		}
	}
}

// given returns the arguments that already have a text value.
func given(arguments *cursor.Node, without string) map[string]string {
	all := make(map[string]string)
	if arguments == nil {
		return all
	}
	for _, m := range arguments.Members {
		if m.Name != without && m.Value != nil && m.Value.Kind == '"' {
			all[m.Name] = m.Value.Text
		}
	}
	return all
}

// A templatePart is a variable of a URI template, with the text before it. The last part also has
// the text after it.
type templatePart struct{ before, name, behind string }

// templateParts returns the variables of a URI template (RFC 6570, level 1), or none if the
// template uses a higher level.
func templateParts(template string) (parts []templatePart) {
	for rest := template; rest != ""; {
		before, more, found := strings.Cut(rest, "{")
		name, behind, closed := strings.Cut(more, "}")
		if !found || !closed {
			break
		}
		if name == "" || strings.ContainsAny(name, "+#./;?&,*:") {
			return nil
		}
		next, _, _ := strings.Cut(behind, "{")
		parts = append(parts, templatePart{before, name, next})
		rest = behind
	}
	return parts
}

// template offers addresses that match a URI template. The target proposes values for its
// variables.
func (c *completer) template(ctx context.Context, x outline.Item) {
	parts := templateParts(x.URI)
	if len(parts) == 0 {
		c.textValue(x.URI, cmp.Or(x.Title, x.Name))
		return
	}
	rest, done, others := c.place.Typed, "", make(map[string]string)
	for i, part := range parts {
		after, ok := strings.CutPrefix(rest, part.before)
		if !ok {
			break
		}
		done += part.before
		if value, behind, cut := strings.Cut(after, part.behind); part.behind != "" && cut && i < len(parts)-1 {
			others[part.name] = value
			done += value
			rest = part.behind + behind
			continue
		}
		c.propose(ctx, `{"type":"ref/resource","uri":`+quote(x.URI)+`}`, part.name, after, others, done, part.behind)
		break
	}
	c.textValue(x.URI, "template: "+cmp.Or(x.Title, x.Name))
}

// propose offers the values for an argument that the target proposes. begin and end surround each
// value.
func (c *completer) propose(ctx context.Context, ref, name, typed string, others map[string]string, begin, end string) {
	if c.target.Propose == nil {
		return
	}
	values := c.target.Propose(ctx, ref, name, typed, others)
	for _, v := range values[:min(len(values), maxOptions)] {
		label := begin + v + end
		// The target chose the matches, with or without accents.
		c.offers = append(c.offers, offer{label: label, about: "proposed by " + c.target.Name, kind: "value", insert: quote(label), caret: -1})
		if c.has == nil {
			c.has = make(map[string]bool)
		}
		c.has[label] = true
	}
}

// nestedShapes are the params of methods defined by the protocols, as deep as people write them.
// They only help typing; the server validates.
var nestedShapes = map[string]map[string]jsonrpc.Raw{
	outline.ProtocolMCP: {
		mcp.MethodInitialize: jsonrpc.Raw(`{"properties":{"protocolVersion":{"enum":["2025-11-25","2025-06-18","2025-03-26","2024-11-05"]},` +
			`"capabilities":{"type":"object","properties":{"roots":{"type":"object","properties":{"listChanged":{"type":"boolean"}}},"sampling":{"type":"object"},"elicitation":{"type":"object","properties":{"form":{"type":"object"},"url":{"type":"object"}}}}},` +
			`"clientInfo":{"type":"object","properties":{"name":{"type":"string"},"title":{"type":"string"},"version":{"type":"string"}},"required":["name","version"]}}}`),
		mcp.MethodToolsCall: jsonrpc.Raw(`{"properties":{"_meta":{"type":"object","properties":{"progressToken":{"type":["string","integer"],"description":"progress notifications contain it"}}}}}`),
		mcp.MethodComplete: jsonrpc.Raw(`{"properties":{"ref":{"type":"object","oneOf":[{"properties":{"type":{"const":"ref/prompt"},"name":{"type":"string"}},"required":["type","name"]},` +
			`{"properties":{"type":{"const":"ref/resource"},"uri":{"type":"string"}},"required":["type","uri"]}]},` +
			`"argument":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"}},"required":["name","value"]},` +
			`"context":{"type":"object","properties":{"arguments":{"type":"object"}}}}}`),
		mcp.MethodSetLevel: jsonrpc.Raw(`{"properties":{"level":{"enum":["debug","info","notice","warning","error","critical","alert","emergency"]}}}`),
	},
	outline.ProtocolEditor: {
		editor.MethodPrompt: jsonrpc.Raw(`{"properties":{"prompt":{"type":"array","items":{"type":"object","oneOf":[{"properties":{"type":{"const":"text"},"text":{"type":"string"}},"required":["type","text"]},` +
			`{"properties":{"type":{"const":"resource_link"},"uri":{"type":"string"},"name":{"type":"string"}},"required":["type","uri","name"]},` +
			`{"properties":{"type":{"const":"image"},"data":{"type":"string","description":"base64"},"mimeType":{"type":"string"}},"required":["type","data","mimeType"]}]}}}}`),
		editor.MethodInitialize: jsonrpc.Raw(`{"properties":{"protocolVersion":{"type":"integer","default":1},"clientCapabilities":{"type":"object","properties":{` +
			`"fs":{"type":"object","properties":{"readTextFile":{"type":"boolean"},"writeTextFile":{"type":"boolean"}}},"terminal":{"type":"boolean"}}}}}`),
	},
	outline.ProtocolACP: {
		acp.MethodRunsCreate: jsonrpc.Raw(`{"properties":{"mode":{"enum":["sync","async","stream"]},"input":{"type":"array","items":{"type":"object","properties":{"role":{"enum":["user","agent"]},` +
			`"parts":{"type":"array","items":{"type":"object","properties":{"content_type":{"type":"string","examples":["text/plain","application/json"]},"content":{"type":"string"},"content_url":{"type":"string"},"name":{"type":"string"}},"required":["content_type"]}}},"required":["role","parts"]}}}}`),
		acp.MethodRunsResume: jsonrpc.Raw(`{"properties":{"mode":{"enum":["sync","async","stream"]}}}`),
	},
	outline.ProtocolA2A: {
		a2a.MethodSend:       messageShape,
		a2a.MethodStreamSend: messageShape,
	},
	outline.ProtocolLSP: {
		"textDocument/hover":      positionShape,
		"textDocument/definition": positionShape,
		"textDocument/completion": positionShape,
		"textDocument/didOpen": jsonrpc.Raw(`{"properties":{"textDocument":{"type":"object","properties":{"uri":{"type":"string"},"languageId":{"type":"string"},"version":{"type":"integer"},"text":{"type":"string"}},` +
			`"required":["uri","languageId","version","text"]}}}`),
	},
}

var messageShape = jsonrpc.Raw(`{"properties":{"message":{"type":"object","properties":{"messageId":{"type":"string"},"role":{"enum":["ROLE_USER","ROLE_AGENT"]},` +
	`"parts":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"},"data":{"description":"any value"},"url":{"type":"string"},"raw":{"type":"string","description":"base64"},"mediaType":{"type":"string"},"filename":{"type":"string"}}}},` +
	`"contextId":{"type":"string"},"taskId":{"type":"string"},"referenceTaskIds":{"type":"array"},"metadata":{"type":"object"}},"required":["messageId","role","parts"]},` +
	`"configuration":{"type":"object","properties":{"returnImmediately":{"type":"boolean"},"historyLength":{"type":"integer"},"acceptedOutputModes":{"type":"array","items":{"type":"string","examples":["text/plain","application/json"]}}}}}}`)

var positionShape = jsonrpc.Raw(`{"properties":{"textDocument":{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]},` +
	`"position":{"type":"object","properties":{"line":{"type":"integer","minimum":0},"character":{"type":"integer","minimum":0}},"required":["line","character"]}}}`)
