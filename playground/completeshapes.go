package playground

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// This file follows schemas to the cursor, and knows the values that stand in no schema: the names of tools, prompts, agents.

// A shape is one schema that holds at a place, its references followed.
type shape struct {
	keywords
	schema
}

// shapes are the schemas that hold at the place.
func (c *completer) shapes() []shape {
	var list []schema
	path, at := c.path, c.message
	switch c.path[0] {
	case "params":
		list, path, at = c.paramsSchemas()
	case "result":
		q := c.question()
		if q == nil {
			return nil
		}
		if _, _, form := q.answers(); form != nil {
			answer := raw(map[string]any{"properties": map[string]any{"action": jsonrpc.Raw(`{"enum":["accept","decline","cancel"]}`), "content": form}, "required": []string{"action"}})
			list, path, at = []schema{{answer, answer}}, path[1:], at.member("result")
		}
	case "error":
		list, path, at = []schema{{errorShape, errorShape}}, path[1:], at.member("error")
	}
	for _, step := range path {
		var next []schema
		for _, s := range c.expandAll(list, at) {
			if part, ok := s.step(step); ok && len(next) < maxShapes {
				next = append(next, part)
			}
		}
		list, at = next, at.step(step)
	}
	return c.expandAll(list, at)
}

// errorShape is the error of a response (JSON-RPC 2.0, section 5.1).
var errorShape = jsonrpc.Raw(`{"properties":{"code":{"type":"integer","oneOf":[{"const":-32700,"title":"Parse error"},{"const":-32600,"title":"Invalid Request"},` +
	`{"const":-32601,"title":"Method not found"},{"const":-32602,"title":"Invalid params"},{"const":-32603,"title":"Internal error"}]},` +
	`"message":{"type":"string","description":"one short sentence"},"data":{"description":"more about it"}},"required":["code","message"]}`)

// paramsSchemas are the schemas of params, or of the arguments in them, with what of the path is left from there.
func (c *completer) paramsSchemas() (list []schema, path []any, at *node) {
	params := c.message.member("params")
	if item := c.item(); item != nil && len(c.path) > 1 && c.path[1] == "arguments" {
		return []schema{{item.Schema, item.Schema}}, c.path[2:], params.member("arguments")
	}
	m := c.method()
	if m == nil {
		return nil, nil, nil
	}
	if nested := nestedShapes[c.protocol][m.Name]; nested != nil {
		list = append(list, schema{nested, nested})
	}
	return append(list, schema{m.Params, m.Params}), c.path[1:], params
}

// item is the tool or the prompt that params name.
func (c *completer) item() *itemView {
	if c.protocol != ProtocolMCP || c.known == nil {
		return nil
	}
	var list []itemView
	switch c.message.member("method").string() {
	case mcp.MethodToolsCall:
		list = c.known.Tools
	case mcp.MethodPromptsGet:
		list = c.known.Prompts
	}
	name := c.message.member("params").member("name").string()
	if i := slices.IndexFunc(list, func(x itemView) bool { return x.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

func (c *completer) expandAll(list []schema, at *node) (all []shape) {
	for _, s := range list {
		all = c.expand(all, s, at, 0)
	}
	return all
}

// expand adds a schema with its alternatives, without those that what stands there already contradicts.
func (c *completer) expand(all []shape, s schema, at *node, depth int) []shape {
	k, s, ok := s.keys(depth)
	if !ok || depth > maxSchemaDepth || len(all) >= maxShapes || c.contradicts(k.Properties, s.root, at) {
		return all
	}
	all = append(all, shape{k, s})
	for _, parts := range [][]jsonrpc.Raw{k.AllOf, k.OneOf, k.AnyOf} {
		for _, part := range parts {
			all = c.expand(all, schema{s.root, part}, at, depth+1)
		}
	}
	return all
}

// contradicts reports whether a member has another value than the one that the schema wants for it: such as the type of a union.
func (c *completer) contradicts(properties map[string]jsonrpc.Raw, root jsonrpc.Raw, at *node) bool {
	if at == nil || at.kind != '{' {
		return false
	}
	for _, m := range at.members {
		if m.value == nil || m.value.from == c.place.from || properties[m.name] == nil {
			continue
		}
		k, _, ok := schema{root, properties[m.name]}.keys(1)
		if ok && len(k.Const) > 0 && (m.value.kind == '"' || m.value.kind == 'w') && !sameValue(k.Const, jsonrpc.Raw(c.text[m.value.from:m.value.to])) {
			return true
		}
	}
	return false
}

// step is the schema of a member or an element.
func (s *shape) step(step any) (schema, bool) {
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
	return schema{s.root, part}, len(part) > 0
}

// names are the members that the schema knows, in its order.
func (s *shape) names() []string {
	names := slices.Clone(s.Order)
	members(propertiesOf(s.text), func(name string, _ jsonrpc.Raw) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	})
	if s.Variadic && len(s.Order) > 0 {
		names = slices.DeleteFunc(names, func(name string) bool { return name == s.Order[len(s.Order)-1] })
	}
	return slices.DeleteFunc(names, func(name string) bool { return s.Properties[name] == nil })
}

// skeleton is how the value of a member begins, and where the cursor goes in it.
func (s schema) skeleton() (value string, caret int) {
	k, _, ok := s.keys(0)
	types := typesOf(k.Type)
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

// hint is a type and what it is for, in a few words.
func (s schema) hint(must bool) string {
	k, _, ok := s.keys(0)
	if !ok {
		return ""
	}
	words := strings.Join(typesOf(k.Type), " or ")
	if must {
		words = strings.TrimPrefix(words+", required", ", ")
	}
	about := k.about()
	if words != "" && about != "" {
		return words + ": " + about
	}
	return words + about
}

// about is the description of a schema, or its title.
func (k *keywords) about() string {
	var text string
	if k.Description.Decode(&text) != nil || text == "" {
		_ = k.Title.Decode(&text) // what is no text says nothing
	}
	return text
}

// offerTo offers the values that a schema names.
func (s *shape) offerTo(c *completer) {
	about := s.about()
	if len(s.Const) > 0 {
		c.value(s.Const, about)
	}
	if len(s.Default) > 0 {
		c.value(s.Default, "the default")
	}
	for _, v := range s.Enum {
		c.value(v, "")
	}
	for _, v := range elements(s.Examples) {
		c.value(v, "an example")
	}
	for _, t := range typesOf(s.Type) {
		switch t {
		case "boolean":
			c.value(jsonrpc.Raw(`true`), about)
			c.value(jsonrpc.Raw(`false`), about)
		case "null":
			c.value(jsonrpc.Raw(`null`), about)
		case "object", "array":
			if !c.place.begun {
				c.value(s.example(0), about)
			}
		}
	}
	if len(s.Minimum) > 0 && len(s.Enum)+len(s.Default)+len(s.Const) == 0 && !c.place.begun {
		c.value(s.Minimum, "the least")
	}
}

// dynamic offers what the target has listed: names of tools and prompts, addresses of resources, agents.
func (c *completer) dynamic(ctx context.Context) {
	if c.known == nil || len(c.path) < 2 {
		return
	}
	method := c.message.member("method").string()
	params := c.message.member("params")
	place, _ := c.path[1].(string)
	deeper, _ := c.path[len(c.path)-1].(string)
	items := func(list []itemView) {
		for _, x := range list {
			c.textValue(x.Name, orDefault(x.Title, x.About))
		}
	}
	switch {
	case c.protocol == ProtocolACP && (method == acp.MethodRunsCreate && place == "agent_name" || method == acp.MethodAgentsGet && place == "name"):
		items(c.known.Agents)
	case c.protocol != ProtocolMCP:
	case method == mcp.MethodToolsCall && place == "name":
		items(c.known.Tools)
	case method == mcp.MethodPromptsGet && place == "name":
		items(c.known.Prompts)
	case method == mcp.MethodPromptsGet && place == "arguments" && len(c.path) == 3 && c.item() != nil:
		c.propose(ctx, `{"type":"ref/prompt","name":`+string(raw(c.item().Name))+`}`, deeper, c.place.typed, given(params.member("arguments"), deeper), "", "")
	case (method == mcp.MethodResourcesRead || method == mcp.MethodResourcesSubscribe || method == mcp.MethodResourcesUnsubscribe) && place == "uri":
		for _, x := range c.known.Resources {
			c.textValue(x.URI, orDefault(x.Title, x.Name))
		}
		for _, x := range c.known.Templates {
			c.template(ctx, x)
		}
	case method == mcp.MethodComplete && place == "ref" && deeper == "name":
		items(c.known.Prompts)
	case method == mcp.MethodComplete && place == "ref" && deeper == "uri":
		for _, x := range c.known.Templates {
			c.textValue(x.URI, orDefault(x.Title, x.Name))
		}
	case method == mcp.MethodComplete && place == "argument" && deeper == "name":
		ref := params.member("ref")
		for _, x := range c.known.Prompts {
			if k, s, ok := (schema{x.Schema, x.Schema}).keys(0); ok && x.Name == ref.member("name").string() {
				for _, name := range (&shape{k, s}).names() {
					c.textValue(name, schema{s.root, k.Properties[name]}.hint(false))
				}
			}
		}
		for _, x := range c.known.Templates {
			if x.URI == ref.member("uri").string() {
				for _, part := range templateParts(x.URI) {
					c.textValue(part.name, x.Name)
				}
			}
		}
	}
}

// argumentNames offers the arguments of a prompt where completion/complete has the others that are known.
func (c *completer) argumentNames(holder *node) {
	if c.protocol != ProtocolMCP || c.known == nil || c.message.member("method").string() != mcp.MethodComplete || len(c.path) != 3 || c.path[1] != "context" || c.path[2] != "arguments" {
		return
	}
	ref := c.message.member("params").member("ref")
	for _, x := range c.known.Prompts {
		if k, s, ok := (schema{x.Schema, x.Schema}).keys(0); ok && x.Name == ref.member("name").string() {
			for _, name := range (&shape{k, s}).names() {
				if !holder.has(name) {
					c.member(name, `""`, 1, schema{s.root, k.Properties[name]}.hint(false))
				}
			}
		}
	}
}

// given are the arguments that have a text already.
func given(arguments *node, without string) map[string]string {
	all := make(map[string]string)
	if arguments == nil {
		return all
	}
	for _, m := range arguments.members {
		if m.name != without && m.value != nil && m.value.kind == '"' {
			all[m.name] = m.value.text
		}
	}
	return all
}

// A templatePart is a variable of a URI template, with the text before it and, of the last one, behind it.
type templatePart struct{ before, name, behind string }

// templateParts are the variables of a URI template (RFC 6570, level 1); none for one that has others.
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

// template offers addresses that a template makes. Its variables are the target's to propose.
func (c *completer) template(ctx context.Context, x itemView) {
	parts := templateParts(x.URI)
	if len(parts) == 0 {
		c.textValue(x.URI, orDefault(x.Title, x.Name))
		return
	}
	rest, done, others := c.place.typed, "", make(map[string]string)
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
		c.propose(ctx, `{"type":"ref/resource","uri":`+string(raw(x.URI))+`}`, part.name, after, others, done, part.behind)
		break
	}
	c.textValue(x.URI, "template: "+orDefault(x.Title, x.Name))
}

// proposeTime bounds how long the target may think about what could stand there.
const proposeTime = 2 * time.Second

// propose asks the target for the values of an argument (MCP 2025-11-25, Completion), if it says that it can. begin and end stand
// around each value.
func (c *completer) propose(ctx context.Context, ref, name, typed string, others map[string]string, begin, end string) {
	if c.link == nil {
		return
	}
	var hello struct {
		Capabilities struct {
			Completions jsonrpc.Raw `json:"completions"`
		} `json:"capabilities"`
	}
	c.link.mu.Lock()
	can := decodeLoosely(c.link.hello, &hello) == nil && len(hello.Capabilities.Completions) > 0
	version := mcp.ParseVersion(c.link.version)
	c.link.mu.Unlock()
	if !can {
		return
	}
	params := map[string]any{"ref": jsonrpc.Raw(ref), "argument": map[string]string{"name": name, "value": typed}}
	if len(others) > 0 && version.HasStructuredContent() { // both came with 2025-06-18
		params["context"] = map[string]any{"arguments": others}
	}
	if version.Modern() {
		params["_meta"] = modernMeta(c.link.p.options.Version)
	}
	ctx, cancel := context.WithTimeout(ctx, proposeTime)
	defer cancel()
	result, err := c.link.call(ctx, mcp.MethodComplete, params)
	if err != nil {
		return // the wire shows why
	}
	var out struct {
		Completion struct {
			Values []string `json:"values"`
		} `json:"completion"`
	}
	if decodeLoosely(result, &out) != nil {
		return
	}
	for _, v := range out.Completion.Values[:min(len(out.Completion.Values), maxOptions)] {
		label := begin + v + end
		c.offers = append(c.offers, offer{label: label, about: "proposed by " + c.link.name, kind: "value", insert: string(raw(label)), caret: -1}) // it chose what fits, accents or not
		if c.has == nil {
			c.has = make(map[string]bool)
		}
		c.has[label] = true
	}
}

// nestedShapes are the params of protocols' own methods as deep as people write them. They help; what is right says the server.
var nestedShapes = map[string]map[string]jsonrpc.Raw{
	ProtocolMCP: {
		mcp.MethodInitialize: jsonrpc.Raw(`{"properties":{"protocolVersion":{"enum":["2025-11-25","2025-06-18","2025-03-26","2024-11-05"]},` +
			`"capabilities":{"type":"object","properties":{"roots":{"type":"object","properties":{"listChanged":{"type":"boolean"}}},"sampling":{"type":"object"},"elicitation":{"type":"object","properties":{"form":{"type":"object"},"url":{"type":"object"}}}}},` +
			`"clientInfo":{"type":"object","properties":{"name":{"type":"string"},"title":{"type":"string"},"version":{"type":"string"}},"required":["name","version"]}}}`),
		mcp.MethodToolsCall: jsonrpc.Raw(`{"properties":{"_meta":{"type":"object","properties":{"progressToken":{"type":["string","integer"],"description":"reports of progress have it"}}}}}`),
		mcp.MethodComplete: jsonrpc.Raw(`{"properties":{"ref":{"type":"object","oneOf":[{"properties":{"type":{"const":"ref/prompt"},"name":{"type":"string"}},"required":["type","name"]},` +
			`{"properties":{"type":{"const":"ref/resource"},"uri":{"type":"string"}},"required":["type","uri"]}]},` +
			`"argument":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"}},"required":["name","value"]},` +
			`"context":{"type":"object","properties":{"arguments":{"type":"object"}}}}}`),
		mcp.MethodSetLevel: jsonrpc.Raw(`{"properties":{"level":{"enum":["debug","info","notice","warning","error","critical","alert","emergency"]}}}`),
	},
	ProtocolEditor: {
		editor.MethodPrompt: jsonrpc.Raw(`{"properties":{"prompt":{"type":"array","items":{"type":"object","oneOf":[{"properties":{"type":{"const":"text"},"text":{"type":"string"}},"required":["type","text"]},` +
			`{"properties":{"type":{"const":"resource_link"},"uri":{"type":"string"},"name":{"type":"string"}},"required":["type","uri","name"]},` +
			`{"properties":{"type":{"const":"image"},"data":{"type":"string","description":"base64"},"mimeType":{"type":"string"}},"required":["type","data","mimeType"]}]}}}}`),
		editor.MethodInitialize: jsonrpc.Raw(`{"properties":{"protocolVersion":{"type":"integer","default":1},"clientCapabilities":{"type":"object","properties":{` +
			`"fs":{"type":"object","properties":{"readTextFile":{"type":"boolean"},"writeTextFile":{"type":"boolean"}}},"terminal":{"type":"boolean"}}}}}`),
	},
	ProtocolACP: {
		acp.MethodRunsCreate: jsonrpc.Raw(`{"properties":{"mode":{"enum":["sync","async","stream"]},"input":{"type":"array","items":{"type":"object","properties":{"role":{"enum":["user","agent"]},` +
			`"parts":{"type":"array","items":{"type":"object","properties":{"content_type":{"type":"string","examples":["text/plain","application/json"]},"content":{"type":"string"},"content_url":{"type":"string"},"name":{"type":"string"}},"required":["content_type"]}}},"required":["role","parts"]}}}}`),
		acp.MethodRunsResume: jsonrpc.Raw(`{"properties":{"mode":{"enum":["sync","async","stream"]}}}`),
	},
	ProtocolA2A: {
		a2a.MethodSend:       messageShape,
		a2a.MethodStreamSend: messageShape,
	},
	ProtocolLSP: {
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
