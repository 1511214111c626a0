package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Readers of the catalogs of each protocol.

// maxListedTasks is the maximum number of tasks that a catalog lists: they are the state of the
// server, not what it offers.
const maxListedTasks = 100

// catalogOfMethods converts an OpenRPC document.
func catalogOfMethods(d *openrpc.Document) *catalog {
	c := &catalog{Protocol: config.JSONRPC, Version: "2.0", Name: d.Info.Title, Release: d.Info.Version, Description: d.Info.Description}
	for i := range d.Methods {
		m := &d.Methods[i]
		signature := d.Signature(m)
		e := catalogEntry{Kind: kindMethod, Name: m.Name, Description: orElse(m.Summary, firstLine(m.Description)), object: func() any { return m }}
		if at := strings.IndexByte(signature, '('); at >= 0 {
			e.Signature = signature[at:]
		}
		if m.Description != "" && m.Description != e.Description {
			e.about = func() string { return m.Description }
		}
		for _, p := range d.Params(m) {
			e.fields = append(e.fields, describedBy(d, p, p.Required))
		}
		if r, ok := d.Result(m); ok {
			r.Name = orElse(r.Name, "result")
			e.results = append(e.results, describedBy(d, r, true))
		}
		for _, fault := range m.Errors {
			e.lines = append(e.lines, "error "+strconv.FormatInt(fault.Code, 10)+": "+fault.Message)
		}
		e.schema = schemaOfMethod(d, m)
		c.Entries = append(c.Entries, e)
	}
	return c
}

// A param is a parameter or a part of a result.
type param struct {
	field
	about string
}

// paramsOf returns the members of an object schema.
func paramsOf(schema jsonrpc.Raw) (all []param) {
	for _, f := range fieldsOf(schema) {
		all = append(all, param{f, f.text("description")})
	}
	return all
}

// describedBy returns a parameter of a document. A schema that is a reference is resolved once, so
// that its type can be shown.
func describedBy(d *openrpc.Document, p openrpc.ContentDescriptor, required bool) param {
	schema := p.Schema
	if ref := textOf(memberOf(schema, "$ref")); ref != "" {
		if resolved, err := d.Resolve(ref); err == nil {
			schema = resolved
		}
	}
	one := param{field{p.Name, schema, required}, orElse(p.Description, p.Summary)}
	if one.about == "" {
		one.about = one.text("description")
	}
	return one
}

// schemaOfMethod returns the schemas of params and result. References into the document remain
// valid, since its schemas are included.
func schemaOfMethod(d *openrpc.Document, m *openrpc.Method) jsonrpc.Raw {
	params := jsonrpc.Raw(`{"type":"object","properties":{`)
	var required []string
	properties := []byte{}
	for _, p := range d.Params(m) {
		schema := p.Schema
		if schema == nil {
			schema = jsonrpc.Raw(`{}`)
		}
		if p.Required {
			required = append(required, p.Name)
		}
		properties = appendSchema(properties, p.Name, schema)
	}
	params = append(append(params, properties...), '}')
	if required != nil {
		params = append(append(params, `,"required":`...), rawOf(required)...)
	}
	params = append(params, '}')
	out := append(jsonrpc.Raw(`{"name":`), rawOf(m.Name)...)
	out = append(append(out, `,"params":`...), params...)
	if r, ok := d.Result(m); ok {
		schema := r.Schema
		if schema == nil {
			schema = jsonrpc.Raw(`{}`)
		}
		out = append(append(out, `,"result":`...), schema...)
	}
	if d.Components != nil && len(d.Components.Schemas) > 0 && strings.Contains(string(out), `"#/components/schemas/`) {
		out = append(append(append(out, `,"components":{"schemas":`...), rawOf(d.Components.Schemas)...), '}')
	}
	return append(out, '}')
}

// appendSchema appends a member of an object that starts without its brace.
func appendSchema(dst []byte, name string, value jsonrpc.Raw) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(append(append(dst, rawOf(name)...), ':'), value...)
}

// rawOf encodes a value that was decoded before.
func rawOf(value any) jsonrpc.Raw {
	raw, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return jsonrpc.Raw("null") // cannot happen: the value was decoded from JSON
	}
	return raw
}

// features reads the lists of an MCP server.
func (s *survey) features(ctx context.Context) (*catalog, error) {
	v := s.mcpCommand()
	var stop func()
	ctx, v.patience, stop = newPatience(ctx, 0, nil)
	defer stop()
	err := v.connect(ctx)
	if err != nil {
		return nil, err
	}
	c, err := catalogOfMCP(ctx, v.client, s.brief)
	hangUp(orCause(ctx, err), v.hangUp)
	return c, err
}

func catalogOfMCP(ctx context.Context, client *mcp.Client, brief bool) (*catalog, error) {
	info := client.ServerInfo()
	c := &catalog{Protocol: config.MCP, Version: client.Version().String(), Name: orElse(info.Title, info.Name), Release: info.Version, Description: client.Instructions()}
	can := client.ServerCapabilities()
	if can.Tools != nil {
		tools, err := collect(client.Tools(ctx))
		if err != nil {
			return nil, err
		}
		for i := range tools {
			c.Entries = append(c.Entries, entryOfTool(&tools[i]))
		}
	}
	if brief {
		return c, nil
	}
	if can.Resources != nil {
		if err := c.addResources(ctx, client); err != nil {
			return nil, err
		}
	}
	if can.Prompts != nil {
		prompts, err := collect(client.Prompts(ctx))
		if err != nil {
			return nil, err
		}
		for i := range prompts {
			c.Entries = append(c.Entries, entryOfPrompt(&prompts[i]))
		}
	}
	if _, has := can.Extensions[mcp.ExtensionSkills]; has {
		if err := c.addSkills(ctx, client); err != nil {
			return nil, err
		}
	}
	if can.Tasks != nil && can.Tasks.List != nil {
		if err := c.addTasks(ctx, client); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func entryOfTool(t *mcp.Tool) catalogEntry {
	e := catalogEntry{Kind: kindTool, Name: t.Name, Signature: toolSignature(t), Description: orElse(firstLine(t.Description), t.Title),
		fields: paramsOf(t.InputSchema), results: paramsOf(t.OutputSchema), object: func() any { return t }}
	if t.Description != e.Description {
		e.about = func() string { return t.Description }
	}
	if hints := hintsOf(t.Annotations); hints != "" {
		e.lines = append(e.lines, "hints: "+hints)
	}
	out := append(jsonrpc.Raw(`{"name":`), rawOf(t.Name)...)
	input := t.InputSchema
	if input == nil {
		input = jsonrpc.Raw(`{}`)
	}
	out = append(append(out, `,"params":`...), input...)
	if t.OutputSchema != nil {
		out = append(append(out, `,"result":`...), t.OutputSchema...)
	}
	e.schema = append(out, '}')
	return e
}

func (c *catalog) addResources(ctx context.Context, client *mcp.Client) error {
	resources, err := collect(client.Resources(ctx))
	if err != nil {
		return err
	}
	templates, err := collect(client.ResourceTemplates(ctx))
	if err != nil && !is[*jsonrpc.Error](err) { // some servers do not have this method
		return err
	}
	for i := range resources {
		r := &resources[i]
		c.Entries = append(c.Entries, catalogEntry{Kind: kindResource, Name: r.URI, Signature: kindOf(r.MIMEType),
			Description: orElse(firstLine(r.Description), orElse(r.Title, r.Name)), object: func() any { return r }})
	}
	for i := range templates {
		t := &templates[i]
		c.Entries = append(c.Entries, catalogEntry{Kind: kindTemplate, Name: t.URITemplate, Signature: kindOf(t.MIMEType),
			Description: orElse(firstLine(t.Description), orElse(t.Title, t.Name)), object: func() any { return t }})
	}
	return nil
}

func entryOfPrompt(p *mcp.Prompt) catalogEntry {
	e := catalogEntry{Kind: kindPrompt, Name: p.Name, Signature: promptSignature(p), Description: orElse(firstLine(p.Description), p.Title), object: func() any { return p }}
	if p.Description != e.Description {
		e.about = func() string { return p.Description }
	}
	var properties []byte
	required := []string{}
	for _, arg := range p.Arguments {
		e.fields = append(e.fields, param{field{arg.Name, jsonrpc.Raw(`{"type":"string"}`), arg.Required}, orElse(arg.Description, arg.Title)})
		properties = appendSchema(properties, arg.Name, jsonrpc.Raw(`{"type":"string"}`))
		if arg.Required {
			required = append(required, arg.Name)
		}
	}
	e.schema = jsonrpc.Raw(`{"name":` + string(rawOf(p.Name)) + `,"params":{"type":"object","properties":{` + string(properties) + `},"required":` + string(rawOf(required)) + `}}`)
	return e
}

// addSkills adds the skills of the skills extension.
func (c *catalog) addSkills(ctx context.Context, client *mcp.Client) error {
	var cursor *string
	seen := map[string]bool{}
	for {
		page, err := client.ListSkills(ctx, &mcp.ListParams{Cursor: cursor})
		if err != nil {
			return err
		}
		for i := range page.Skills {
			k := &page.Skills[i]
			about := &field{schema: k.Frontmatter}
			c.Entries = append(c.Entries, catalogEntry{Kind: kindSkill, Name: orElse(about.text("name"), k.URI), Signature: "  " + k.URI,
				Description: firstLine(about.text("description")), object: func() any { return k }})
		}
		if page.NextCursor == nil || seen[*page.NextCursor] {
			return nil
		}
		cursor = page.NextCursor
		seen[*cursor] = true
	}
}

// addTasks adds the first page of the tasks (MCP 2025-11-25, tasks/list).
func (c *catalog) addTasks(ctx context.Context, client *mcp.Client) error {
	var page struct {
		Tasks []jsonrpc.Raw `json:"tasks"`
	}
	if err := client.Call(ctx, "tasks/list", map[string]any{}, &page); err != nil {
		if is[*jsonrpc.Error](err) {
			return nil // some servers declare the capability without the method
		}
		return err
	}
	for _, t := range page.Tasks[:min(len(page.Tasks), maxListedTasks)] {
		c.Entries = append(c.Entries, catalogEntry{Kind: kindTask, Name: textOf(memberOf(t, "taskId")), Signature: "  " + textOf(memberOf(t, "status")),
			Description: textOf(memberOf(t, "statusMessage")), object: func() any { return t }})
	}
	return nil
}

// manifests reads the agents of an ACP server.
func (s *survey) manifests(ctx context.Context) (*catalog, error) {
	c := &catalog{Protocol: config.ACP, Version: "0.2.0"}
	err := s.agents(ctx, func(ctx context.Context, v *agentCommand) error { return v.connectACP(ctx) }, func(ctx context.Context, v *agentCommand) error {
		all, err := v.acp.Agents(ctx)
		for i := range all {
			c.Entries = append(c.Entries, entryOfManifest(&all[i]))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func entryOfManifest(m *acp.AgentManifest) catalogEntry {
	e := catalogEntry{Kind: kindAgent, Name: m.Name, Description: firstLine(m.Description), object: func() any { return m }}
	e.Signature = "(" + strings.Join(m.InputContentTypes, ", ") + ") -> " + strings.Join(m.OutputContentTypes, ", ")
	if m.Description != e.Description {
		e.about = func() string { return m.Description }
	}
	if m.Metadata != nil {
		for _, can := range m.Metadata.Capabilities {
			e.lines = append(e.lines, "can: "+can.Name+": "+can.Description)
		}
	}
	card := acpagent.CardOf(m)
	for i := range card.Skills {
		e.skills = append(e.skills, orElse(card.Skills[i].ID, card.Skills[i].Name))
	}
	e.schema = modesSchema(m.Name, m.InputContentTypes, m.OutputContentTypes)
	return e
}

// modesSchema describes input and output by media types, for protocols without schemas.
func modesSchema(name string, input, output []string) jsonrpc.Raw {
	return jsonrpc.Raw(`{"name":` + string(rawOf(name)) + `,"input":` + string(rawOf(nonNil(input))) + `,"output":` + string(rawOf(nonNil(output))) + `}`)
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// errOtherCard reports an agent card that does not belong to the target.
var errOtherCard = errors.New("the agent card of the host does not name this address")

// skills reads the card and the tasks of an A2A agent.
func (s *survey) skills(ctx context.Context) (*catalog, error) {
	var c *catalog
	err := s.agents(ctx, func(ctx context.Context, v *agentCommand) error { return v.connectA2A(ctx) }, func(ctx context.Context, v *agentCommand) error {
		card, err := v.about(ctx)
		if err != nil {
			return err
		}
		var urls []string
		for _, i := range card.SupportedInterfaces {
			urls = append(urls, i.URL)
		}
		if !s.cardFits(urls) {
			return errOtherCard
		}
		c = catalogOfCard(card)
		c.Version = v.a2a.Version().String()
		if s.brief {
			return nil
		}
		page, err := v.a2a.ListTasks(ctx, &a2a.ListTasksRequest{PageSize: new(maxListedTasks)})
		if err != nil {
			return orCause(ctx, nil) // version 0.3 has no such method, and some agents require a login for it
		}
		for i := range page.Tasks {
			t := &page.Tasks[i]
			c.Entries = append(c.Entries, catalogEntry{Kind: kindTask, Name: t.ID, Signature: "  " + stateName(t.Status.State), object: func() any { return t }})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func catalogOfCard(card *a2a.AgentCard) *catalog {
	c := &catalog{Protocol: config.A2A, Name: card.Name, Release: card.Version, Description: card.Description}
	for i := range card.Skills {
		k := &card.Skills[i]
		input, output := k.InputModes, k.OutputModes
		if len(input) == 0 {
			input = card.DefaultInputModes
		}
		if len(output) == 0 {
			output = card.DefaultOutputModes
		}
		e := catalogEntry{Kind: kindSkill, Name: k.ID, Signature: "(" + strings.Join(input, ", ") + ") -> " + strings.Join(output, ", "),
			Description: orElse(firstLine(k.Description), k.Name), schema: modesSchema(k.ID, input, output), object: func() any { return k }}
		if k.Description != e.Description {
			e.about = func() string { return k.Description }
		}
		if len(k.Tags) > 0 {
			e.lines = append(e.lines, "tags: "+strings.Join(k.Tags, ", "))
		}
		for _, example := range k.Examples {
			e.lines = append(e.lines, "for example: "+example)
		}
		c.Entries = append(c.Entries, e)
	}
	return c
}

// editorAgent reads the handshake of an agent for code editors.
func (s *survey) editorAgent(ctx context.Context) (*catalog, error) {
	var c *catalog
	err := s.agents(ctx, func(ctx context.Context, v *agentCommand) error {
		v.cwd, v.noWrite = ".", true
		return connectEditor(ctx, v)
	}, func(ctx context.Context, v *agentCommand) error {
		cards, err := v.runs.Agents(ctx)
		if err != nil || len(cards) == 0 {
			return errors.Join(err, orCause(ctx, nil))
		}
		card := &cards[0]
		c = &catalog{Protocol: config.Editor, Version: "1", Name: card.DisplayName(), Release: card.Version, Description: card.Description}
		e := catalogEntry{Kind: kindAgent, Name: card.Name, Description: orElse(firstLine(card.Description), card.Title), object: func() any { return card }}
		e.Signature = "(" + strings.Join(card.Takes(), ", ") + ") -> " + strings.Join(card.Gives(), ", ")
		e.schema = modesSchema(card.Name, card.Takes(), card.Gives())
		var offered editor.InitializeResult
		if card.Metadata.Get("editor/initialize", &offered) {
			for _, m := range offered.AuthMethods {
				e.lines = append(e.lines, "login: "+m.ID+" ("+m.Name+")")
			}
		}
		c.Entries = append(c.Entries, e)
		for i := range card.Skills {
			k := &card.Skills[i]
			c.Entries = append(c.Entries, catalogEntry{Kind: kindSkill, Name: k.ID, Description: orElse(firstLine(k.Description), k.Name), object: func() any { return k }})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, errNothing
	}
	return c, nil
}

// ordered returns the entries of the given kind, or all, in the order of the kinds.
func (c *catalog) ordered(only string) []catalogEntry {
	all := []catalogEntry{}
	for _, k := range kinds {
		for _, e := range c.Entries {
			if e.Kind == k && (only == "" || only == k) {
				all = append(all, e)
			}
		}
	}
	return all
}
