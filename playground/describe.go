package playground

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/playground/internal/outline"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// maxPages is the maximum number of pages requested of one MCP list.
const maxPages = 20

type describeParams struct {
	Target  string `json:"target"`
	Refresh bool   `json:"refresh,omitzero"`
}

// describe requests what a target offers. The result is cached until the connection closes.
func (p *Playground) describe(ctx context.Context, in describeParams) (*outline.Description, error) {
	l, err := p.ensure(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	if d := p.knownOf(in.Target); d != nil && !in.Refresh {
		return d, nil
	}
	d := &outline.Description{
		Protocol: l.spec.protocol(), Raw: make(map[string]jsonrpc.Raw), Problems: []string{},
		Methods: []outline.Method{}, Tools: []outline.Item{}, Resources: []outline.Item{}, Templates: []outline.Item{}, Prompts: []outline.Item{}, Agents: []outline.Item{},
	}
	switch d.Protocol {
	case ProtocolMCP:
		l.describeMCP(ctx, d)
	case ProtocolACP:
		l.describeACP(ctx, d)
	case ProtocolA2A:
		l.describeA2A(ctx, d)
	case ProtocolEditor, ProtocolLSP:
		l.mu.Lock()
		d.Raw["initialize"] = l.hello
		l.mu.Unlock()
	default:
		l.describeJSONRPC(ctx, d)
	}
	d.Methods = append(d.Methods, outline.Methods[d.Protocol]...)
	p.mu.Lock()
	if t := p.targets[in.Target]; t != nil && t.link == l {
		t.known = d
	}
	p.mu.Unlock()
	return d, nil
}

// knownOf returns the cached description of a target, or nil.
func (p *Playground) knownOf(name string) *outline.Description {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.targets[name]; t != nil {
		return t.known
	}
	return nil
}

// addProblem records a part of the description that could not be fetched.
func addProblem(d *outline.Description, method string, err error) {
	d.Problems = append(d.Problems, method+": "+sentence(err))
}

func (l *link) describeJSONRPC(ctx context.Context, d *outline.Description) {
	result, err := l.call(ctx, openrpc.MethodDiscover, nil)
	if errors.Is(err, jsonrpc.ErrMethodNotFound) {
		d.Problems = append(d.Problems, "The server does not list its methods: it has no rpc.discover.")
		return
	}
	if err != nil {
		addProblem(d, openrpc.MethodDiscover, err)
		return
	}
	d.Raw[openrpc.MethodDiscover] = result
	doc, err := openrpc.Parse(result)
	if err != nil {
		addProblem(d, openrpc.MethodDiscover, err)
		return
	}
	for i := range doc.Methods {
		m := &doc.Methods[i]
		params := doc.Params(m)
		v := outline.Method{Name: m.Name, Title: m.Summary, About: m.Description, From: "client", Notification: m.Result == nil, Params: paramsSchema(doc, m, params)}
		if r, ok := doc.Result(m); ok {
			v.Result = r.Schema
		}
		for _, e := range m.Errors {
			v.Errors = append(v.Errors, outline.Error{Code: e.Code, Message: e.Message})
		}
		for _, x := range m.Examples {
			v.Examples = append(v.Examples, exampleOfPair(m, params, &x))
		}
		d.Methods = append(d.Methods, v)
	}
}

// paramsSchema returns the schema of params by name, with their order for positional params.
func paramsSchema(doc *openrpc.Document, m *openrpc.Method, params []openrpc.ContentDescriptor) jsonrpc.Raw {
	properties := make(map[string]jsonrpc.Raw)
	order, required := []string{}, []string{}
	var texts []byte
	for _, c := range params {
		texts = append(texts, c.Schema...)
		properties[c.Name] = describedSchema(c)
		order = append(order, c.Name)
		if c.Required {
			required = append(required, c.Name)
		}
	}
	made := map[string]any{"type": "object", "properties": properties, "x-order": order}
	if len(required) > 0 {
		made["required"] = required
	}
	more := func(x openrpc.ExamplePairing) bool { return len(x.Params) > len(params) }
	if n := len(params); n > 0 && (string(params[n-1].Extra[openrpc.Variadic]) == "true" || slices.ContainsFunc(m.Examples, more)) {
		made["x-variadic"] = true // the last parameter takes all remaining values
	}
	if m.ParamStructure != "" {
		made["x-structure"] = m.ParamStructure
	}
	if doc.Components != nil {
		if named := schema.Referenced(texts, "#/components/schemas/", doc.Components.Schemas); len(named) > 0 {
			made["components"] = map[string]any{"schemas": named}
		}
	}
	return raw(made)
}

// describedSchema returns the schema of a parameter. It adds the parameter's description if the
// schema has none.
func describedSchema(c openrpc.ContentDescriptor) jsonrpc.Raw {
	schema, about := c.Schema, orDefault(c.Description, c.Summary)
	if len(schema) == 0 {
		schema = jsonrpc.Raw(`{}`)
	}
	if about == "" || schemaview.KindOf(schema) != "object" || schemaview.LastMember(schema, "description") != nil {
		return schema
	}
	rest := strings.TrimLeft(string(schema[1:]), " \t\r\n")
	if rest != "}" {
		rest = "," + rest
	}
	return jsonrpc.Raw(`{"description":` + string(raw(about)) + rest)
}

func exampleOfPair(m *openrpc.Method, params []openrpc.ContentDescriptor, x *openrpc.ExamplePairing) outline.Example {
	v := outline.Example{Name: x.Name}
	if x.Result != nil {
		v.Result = x.Result.Value
	}
	if len(x.Params) == 0 {
		return v
	}
	if m.ParamStructure == openrpc.ByName && len(x.Params) <= len(params) {
		named := make(map[string]jsonrpc.Raw)
		for i, e := range x.Params {
			named[params[i].Name] = e.Value
		}
		v.Params = raw(named)
		return v
	}
	list := []jsonrpc.Raw{}
	for _, e := range x.Params {
		list = append(list, e.Value)
	}
	v.Params = raw(list)
	return v
}

// listed is one page of any MCP list.
type listed struct {
	Tools             []listedItem `json:"tools"`
	Resources         []listedItem `json:"resources"`
	ResourceTemplates []listedItem `json:"resourceTemplates"`
	Prompts           []listedItem `json:"prompts"`
	NextCursor        string       `json:"nextCursor"`
}

type listedItem struct {
	Name         string      `json:"name"`
	Title        string      `json:"title"`
	Description  string      `json:"description"`
	InputSchema  jsonrpc.Raw `json:"inputSchema"`
	OutputSchema jsonrpc.Raw `json:"outputSchema"`
	Annotations  jsonrpc.Raw `json:"annotations"`
	URI          string      `json:"uri"`
	URITemplate  string      `json:"uriTemplate"`
	Arguments    []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
	} `json:"arguments"`
}

func (l *link) describeMCP(ctx context.Context, d *outline.Description) {
	var hello struct {
		Capabilities struct {
			Tools     jsonrpc.Raw `json:"tools"`
			Resources jsonrpc.Raw `json:"resources"`
			Prompts   jsonrpc.Raw `json:"prompts"`
		} `json:"capabilities"`
	}
	l.mu.Lock()
	_ = decodeLoosely(l.hello, &hello) // a server that declares nothing gets no requests
	d.Raw["initialize"] = l.hello
	meta := jsonrpc.Raw(nil)
	if mcp.ParseVersion(l.version).Modern() {
		meta = modernMeta(l.p.options.Version)
	}
	greeted := l.hello != nil
	l.mu.Unlock()
	list := func(method string, has jsonrpc.Raw, take func(*listed)) {
		if has == nil && greeted {
			return
		}
		cursor := ""
		for range maxPages {
			params := make(map[string]any)
			if cursor != "" {
				params["cursor"] = cursor
			}
			if meta != nil {
				params["_meta"] = meta
			}
			var sentParams any
			if len(params) > 0 {
				sentParams = params
			}
			result, err := l.call(ctx, method, sentParams)
			if err != nil {
				addProblem(d, method, err)
				return
			}
			if cursor == "" {
				d.Raw[method] = result
			}
			var page listed
			if err := decodeLoosely(result, &page); err != nil {
				addProblem(d, method, err)
				return
			}
			take(&page)
			if cursor = page.NextCursor; cursor == "" {
				return
			}
		}
		d.Problems = append(d.Problems, method+": not all pages are shown.")
	}
	with := func(template map[string]any) jsonrpc.Raw {
		if meta != nil {
			template["_meta"] = meta
		}
		return raw(template)
	}
	has := hello.Capabilities
	list(mcp.MethodToolsList, has.Tools, func(page *listed) {
		for _, t := range page.Tools {
			d.Tools = append(d.Tools, outline.Item{Name: t.Name, Title: t.Title, About: t.Description, Schema: t.InputSchema, Output: t.OutputSchema, Annotations: t.Annotations,
				Method: mcp.MethodToolsCall, Template: with(map[string]any{"name": t.Name, "arguments": schemaview.Example(t.InputSchema)})})
		}
	})
	list(mcp.MethodResourcesList, has.Resources, func(page *listed) {
		for _, r := range page.Resources {
			d.Resources = append(d.Resources, outline.Item{Name: r.Name, Title: r.Title, About: r.Description, URI: r.URI, Annotations: r.Annotations,
				Method: mcp.MethodResourcesRead, Template: with(map[string]any{"uri": r.URI})})
		}
	})
	list(mcp.MethodResourceTemplatesList, has.Resources, func(page *listed) {
		for _, r := range page.ResourceTemplates {
			d.Templates = append(d.Templates, outline.Item{Name: r.Name, Title: r.Title, About: r.Description, URI: r.URITemplate, Annotations: r.Annotations,
				Method: mcp.MethodResourcesRead, Template: with(map[string]any{"uri": r.URITemplate})})
		}
	})
	list(mcp.MethodPromptsList, has.Prompts, func(page *listed) {
		for _, r := range page.Prompts {
			properties, required, given := make(map[string]any), []string{}, make(map[string]string)
			for _, a := range r.Arguments {
				properties[a.Name] = map[string]string{"type": "string", "description": a.Description}
				if a.Required {
					required = append(required, a.Name)
					given[a.Name] = ""
				}
			}
			d.Prompts = append(d.Prompts, outline.Item{Name: r.Name, Title: r.Title, About: r.Description,
				Schema: raw(map[string]any{"type": "object", "properties": properties, "required": required}),
				Method: mcp.MethodPromptsGet, Template: with(map[string]any{"name": r.Name, "arguments": given})})
		}
	})
}

func (l *link) describeACP(ctx context.Context, d *outline.Description) {
	result, err := l.call(ctx, acp.MethodAgentsList, jsonrpc.Raw(`{}`))
	if err != nil {
		addProblem(d, acp.MethodAgentsList, err)
		return
	}
	d.Raw[acp.MethodAgentsList] = result
	var in struct {
		Agents []struct {
			Name        string `json:"name"`
			Description string `json:"description"`
		} `json:"agents"`
	}
	if err := decodeLoosely(result, &in); err != nil {
		addProblem(d, acp.MethodAgentsList, err)
	}
	for _, a := range in.Agents {
		d.Agents = append(d.Agents, outline.Item{Name: a.Name, About: a.Description, Method: acp.MethodRunsCreate, Template: raw(map[string]any{
			"agent_name": a.Name, "mode": "stream",
			"input": jsonrpc.Raw(`[{"role":"user","parts":[{"content_type":"text/plain","content":""}]}]`),
		})})
	}
}

func (l *link) describeA2A(ctx context.Context, d *outline.Description) {
	var text jsonrpc.Raw
	var err error
	if h, ok := l.way.(*post); ok {
		text, err = h.card(ctx, l)
	} else {
		text, err = l.call(ctx, a2a.MethodCard, nil)
	}
	if err != nil {
		addProblem(d, "agent card", err)
		return
	}
	if text, err = jsonrpc.ParseRaw(text); err != nil {
		addProblem(d, "agent card", err)
		return
	}
	d.Raw["card"] = text
	card, err := a2a.ParseCard(text)
	if err != nil {
		addProblem(d, "agent card", err)
		return
	}
	l.mu.Lock()
	l.peer = &peerView{Name: card.Name, Version: card.Version}
	l.mu.Unlock()
	d.Agents = append(d.Agents, outline.Item{Name: card.Name, About: card.Description, Method: a2a.MethodStreamSend, Template: messageTemplate})
	for _, s := range card.Skills {
		d.Agents = append(d.Agents, outline.Item{Name: s.ID, Title: s.Name, About: s.Description, Method: a2a.MethodStreamSend, Template: messageTemplate})
	}
}

var messageTemplate = jsonrpc.Raw(`{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":""}]}}`)

// card fetches the card of an A2A agent: first next to its endpoint, then at the root of its host.
func (h *post) card(ctx context.Context, l *link) (jsonrpc.Raw, error) {
	u, err := url.Parse(h.url)
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(u.Path, "/")
	text, err := h.get(ctx, l, base+a2ahttp.CardPath)
	if err != nil && base != "" {
		text, err = h.get(ctx, l, a2ahttp.CardPath)
	}
	return text, err
}
