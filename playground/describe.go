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
	"github.com/da1ed7bb/parley/mcp"
)

// maxPages bounds the pages of one MCP list that are asked for.
const maxPages = 20

// A description is what a target offers, as forms and completion need it.
type description struct {
	Protocol  string                 `json:"protocol"`
	Methods   []methodView           `json:"methods"`
	Tools     []itemView             `json:"tools"`
	Resources []itemView             `json:"resources"`
	Templates []itemView             `json:"templates"`
	Prompts   []itemView             `json:"prompts"`
	Agents    []itemView             `json:"agents"`
	Raw       map[string]jsonrpc.Raw `json:"raw"`
	Problems  []string               `json:"problems"`
}

// A methodView is a method that can be called.
type methodView struct {
	Name         string        `json:"name"`
	Title        string        `json:"title,omitzero"`
	About        string        `json:"about,omitzero"`
	Params       jsonrpc.Raw   `json:"params,omitzero"` // JSON Schema of the params by name; "x-order" has the names in order
	Result       jsonrpc.Raw   `json:"result,omitzero"`
	Examples     []exampleView `json:"examples,omitzero"`
	Notification bool          `json:"notification,omitzero"`
	From         string        `json:"from"` // who calls: client or server
	Errors       []errorView   `json:"errors,omitzero"`
}

type exampleView struct {
	Name   string      `json:"name,omitzero"`
	Params jsonrpc.Raw `json:"params,omitzero"`
	Result jsonrpc.Raw `json:"result,omitzero"`
}

type errorView struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// An itemView is something that a method is used on: a tool, a prompt, an agent.
type itemView struct {
	Name        string      `json:"name"`
	Title       string      `json:"title,omitzero"`
	About       string      `json:"about,omitzero"`
	Schema      jsonrpc.Raw `json:"schema,omitzero"`
	Output      jsonrpc.Raw `json:"output,omitzero"`
	Method      string      `json:"method"`
	Template    jsonrpc.Raw `json:"template"` // params to begin with
	URI         string      `json:"uri,omitzero"`
	Annotations jsonrpc.Raw `json:"annotations,omitzero"`
}

type describeParams struct {
	Target  string `json:"target"`
	Refresh bool   `json:"refresh,omitzero"`
}

// describe asks a target what it offers. What was learned is kept as long as the connection.
func (p *Playground) describe(ctx context.Context, in describeParams) (*description, error) {
	l, err := p.ensure(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	if d := p.knownOf(in.Target); d != nil && !in.Refresh {
		return d, nil
	}
	d := &description{
		Protocol: l.spec.protocol(), Raw: make(map[string]jsonrpc.Raw), Problems: []string{},
		Methods: []methodView{}, Tools: []itemView{}, Resources: []itemView{}, Templates: []itemView{}, Prompts: []itemView{}, Agents: []itemView{},
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
	d.Methods = append(d.Methods, protocolMethods[d.Protocol]...)
	p.mu.Lock()
	if t := p.targets[in.Target]; t != nil && t.link == l {
		t.known = d
	}
	p.mu.Unlock()
	return d, nil
}

// knownOf is what was learned about a target, nil for nothing.
func (p *Playground) knownOf(name string) *description {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.targets[name]; t != nil {
		return t.known
	}
	return nil
}

// problem notes what could not be found out.
func (d *description) problem(method string, err error) {
	d.Problems = append(d.Problems, method+": "+sentence(err))
}

func (l *link) describeJSONRPC(ctx context.Context, d *description) {
	result, err := l.call(ctx, openrpc.MethodDiscover, nil)
	if errors.Is(err, jsonrpc.ErrMethodNotFound) {
		d.Problems = append(d.Problems, "It does not describe itself: it has no rpc.discover.")
		return
	}
	if err != nil {
		d.problem(openrpc.MethodDiscover, err)
		return
	}
	d.Raw[openrpc.MethodDiscover] = result
	doc, err := openrpc.Parse(result)
	if err != nil {
		d.problem(openrpc.MethodDiscover, err)
		return
	}
	for i := range doc.Methods {
		m := &doc.Methods[i]
		params := doc.Params(m)
		v := methodView{Name: m.Name, Title: m.Summary, About: m.Description, From: "client", Notification: m.Result == nil, Params: paramsSchema(doc, m, params)}
		if r, ok := doc.Result(m); ok {
			v.Result = r.Schema
		}
		for _, e := range m.Errors {
			v.Errors = append(v.Errors, errorView{e.Code, e.Message})
		}
		for _, x := range m.Examples {
			v.Examples = append(v.Examples, exampleOfPair(m, params, &x))
		}
		d.Methods = append(d.Methods, v)
	}
}

// paramsSchema is the schema of params by name, with their order for who gives them by position.
func paramsSchema(doc *openrpc.Document, m *openrpc.Method, params []openrpc.ContentDescriptor) jsonrpc.Raw {
	properties := make(map[string]jsonrpc.Raw)
	order, required := []string{}, []string{}
	refers := false
	for _, c := range params {
		refers = refers || strings.Contains(string(c.Schema), `"#/components/schemas/`)
		properties[c.Name] = describedSchema(c)
		order = append(order, c.Name)
		if c.Required {
			required = append(required, c.Name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "x-order": order}
	if len(required) > 0 {
		schema["required"] = required
	}
	more := func(x openrpc.ExamplePairing) bool { return len(x.Params) > len(params) }
	if n := len(params); n > 0 && (string(params[n-1].Extra[openrpc.Variadic]) == "true" || slices.ContainsFunc(m.Examples, more)) {
		schema["x-variadic"] = true // the last takes all values that follow
	}
	if m.ParamStructure != "" {
		schema["x-structure"] = m.ParamStructure
	}
	if refers && doc.Components != nil {
		schema["components"] = map[string]any{"schemas": doc.Components.Schemas} // where its references lead
	}
	return raw(schema)
}

// describedSchema is the schema of a parameter, which says what the parameter is for if nobody else does.
func describedSchema(c openrpc.ContentDescriptor) jsonrpc.Raw {
	schema, about := c.Schema, orDefault(c.Description, c.Summary)
	if len(schema) == 0 {
		schema = jsonrpc.Raw(`{}`)
	}
	described := about == "" || kindOf(schema) != "object"
	members1(schema, "description", func(jsonrpc.Raw) { described = true })
	if described {
		return schema
	}
	rest := strings.TrimLeft(string(schema[1:]), " \t\r\n")
	if rest != "}" {
		rest = "," + rest
	}
	return jsonrpc.Raw(`{"description":` + string(raw(about)) + rest)
}

func exampleOfPair(m *openrpc.Method, params []openrpc.ContentDescriptor, x *openrpc.ExamplePairing) exampleView {
	v := exampleView{Name: x.Name}
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

// listed is one page of any list of MCP.
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

func (l *link) describeMCP(ctx context.Context, d *description) {
	var hello struct {
		Capabilities struct {
			Tools     jsonrpc.Raw `json:"tools"`
			Resources jsonrpc.Raw `json:"resources"`
			Prompts   jsonrpc.Raw `json:"prompts"`
		} `json:"capabilities"`
	}
	l.mu.Lock()
	_ = decodeLoosely(l.hello, &hello) // one that says nothing is asked for nothing
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
				d.problem(method, err)
				return
			}
			if cursor == "" {
				d.Raw[method] = result
			}
			var page listed
			if err := decodeLoosely(result, &page); err != nil {
				d.problem(method, err)
				return
			}
			take(&page)
			if cursor = page.NextCursor; cursor == "" {
				return
			}
		}
		d.Problems = append(d.Problems, method+": there are more pages than are shown.")
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
			d.Tools = append(d.Tools, itemView{Name: t.Name, Title: t.Title, About: t.Description, Schema: t.InputSchema, Output: t.OutputSchema, Annotations: t.Annotations,
				Method: mcp.MethodToolsCall, Template: with(map[string]any{"name": t.Name, "arguments": exampleOf(t.InputSchema)})})
		}
	})
	list(mcp.MethodResourcesList, has.Resources, func(page *listed) {
		for _, r := range page.Resources {
			d.Resources = append(d.Resources, itemView{Name: r.Name, Title: r.Title, About: r.Description, URI: r.URI, Annotations: r.Annotations,
				Method: mcp.MethodResourcesRead, Template: with(map[string]any{"uri": r.URI})})
		}
	})
	list(mcp.MethodResourceTemplatesList, has.Resources, func(page *listed) {
		for _, r := range page.ResourceTemplates {
			d.Templates = append(d.Templates, itemView{Name: r.Name, Title: r.Title, About: r.Description, URI: r.URITemplate, Annotations: r.Annotations,
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
			d.Prompts = append(d.Prompts, itemView{Name: r.Name, Title: r.Title, About: r.Description,
				Schema: raw(map[string]any{"type": "object", "properties": properties, "required": required}),
				Method: mcp.MethodPromptsGet, Template: with(map[string]any{"name": r.Name, "arguments": given})})
		}
	})
}

func (l *link) describeACP(ctx context.Context, d *description) {
	result, err := l.call(ctx, acp.MethodAgentsList, jsonrpc.Raw(`{}`))
	if err != nil {
		d.problem(acp.MethodAgentsList, err)
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
		d.problem(acp.MethodAgentsList, err)
	}
	for _, a := range in.Agents {
		d.Agents = append(d.Agents, itemView{Name: a.Name, About: a.Description, Method: acp.MethodRunsCreate, Template: raw(map[string]any{
			"agent_name": a.Name, "mode": "stream",
			"input": jsonrpc.Raw(`[{"role":"user","parts":[{"content_type":"text/plain","content":""}]}]`),
		})})
	}
}

func (l *link) describeA2A(ctx context.Context, d *description) {
	var text jsonrpc.Raw
	var err error
	if h, ok := l.way.(*post); ok {
		text, err = h.card(ctx, l)
	} else {
		text, err = l.call(ctx, a2a.MethodCard, nil)
	}
	if err != nil {
		d.problem("agent card", err)
		return
	}
	if text, err = jsonrpc.ParseRaw(text); err != nil {
		d.problem("agent card", err)
		return
	}
	d.Raw["card"] = text
	card, err := a2a.ParseCard(text)
	if err != nil {
		d.problem("agent card", err)
		return
	}
	l.mu.Lock()
	l.peer = &peerView{Name: card.Name, Version: card.Version}
	l.mu.Unlock()
	d.Agents = append(d.Agents, itemView{Name: card.Name, About: card.Description, Method: a2a.MethodStreamSend, Template: messageTemplate})
	for _, s := range card.Skills {
		d.Agents = append(d.Agents, itemView{Name: s.ID, Title: s.Name, About: s.Description, Method: a2a.MethodStreamSend, Template: messageTemplate})
	}
}

var messageTemplate = jsonrpc.Raw(`{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":""}]}}`)

// card fetches the card of an A2A agent: beside its endpoint, then at the root of its host.
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
