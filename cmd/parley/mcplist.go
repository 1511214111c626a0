package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

// The commands that list what a server offers: for people as signatures with descriptions, for
// programs as the server's own objects.

func (a *app) mcpTools() *cobra.Command {
	cmd, v := a.mcpSubcommand(&cobra.Command{
		Use:   "tools TARGET [TOOL…]",
		Short: "list the tools, or describe some of them",
		Long: `List the tools, or describe some of them with their parameters.

  parley mcp tools :3000/mcp
  parley mcp tools :3000/mcp book-table
  parley mcp tools :3000/mcp -o json --jq '.[].name'`,
	}, -1, listTools)
	cmd.ValidArgsFunction = a.completeMCP(v, completeTools, true)
	return cmd
}

func listTools(ctx context.Context, v *mcpCommand, names []string) error {
	if v.client.ServerCapabilities().Tools == nil {
		return v.hasNo("tools")
	}
	all, err := collect(v.client.Tools(ctx))
	if err != nil {
		return err
	}
	wanted := all
	if len(names) > 0 {
		wanted = nil
		for _, name := range names {
			i := slices.IndexFunc(all, func(t mcp.Tool) bool { return t.Name == name })
			if i < 0 {
				return usagef("unknown tool %q%s", cut(name, 60), didYouMean(name, toolNames(all)))
			}
			wanted = append(wanted, all[i])
		}
	}
	for _, t := range wanted {
		flagHidden(v.screen, "tool", t.Name, t)
	}
	if v.output.format == "table" {
		var rows []toolRow
		for _, t := range wanted {
			rows = append(rows, toolRow{t.Name, orElse(t.Title, titleOf(t.Annotations)), toolSignature(&t)})
		}
		return v.printJSON(ctx, rows)
	}
	return v.printList(ctx, wanted, func(b *listing) {
		for _, t := range wanted {
			b.entry(t.Name, toolSignature(&t), t.Description)
			if len(names) > 0 {
				b.describe(&t)
			}
		}
	})
}

// The columns of a table for each kind; schemas and long texts are omitted because they do not fit.
type (
	toolRow struct {
		Name       string `json:"name"`
		Title      string `json:"title"`
		Parameters string `json:"parameters"`
	}
	resourceRow struct {
		URI   string `json:"uri"`
		Title string `json:"title"`
		Type  string `json:"type"`
	}
	promptRow struct {
		Name      string `json:"name"`
		Title     string `json:"title"`
		Arguments string `json:"arguments"`
	}
)

func titleOf(a *mcp.ToolAnnotations) string {
	if a == nil {
		return ""
	}
	return a.Title
}

func toolNames(tools []mcp.Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

func (a *app) mcpResources() *cobra.Command {
	cmd, v := a.mcpSubcommand(&cobra.Command{
		Use:   "resources TARGET",
		Short: "list the resources and resource templates",
		Long: `List the resources and resource templates.

  parley mcp resources :3000/mcp
  parley mcp read :3000/mcp weather://sun/Oslo
  parley mcp resources :3000/mcp -o json --jq '.templates[].uriTemplate'`,
	}, 0, listResources)
	cmd.ValidArgsFunction = a.completeMCP(v, nil, false)
	return cmd
}

// resourceList is the lists of resources and templates as one value.
type resourceList struct {
	Resources []mcp.Resource         `json:"resources"`
	Templates []mcp.ResourceTemplate `json:"templates"`
}

func listResources(ctx context.Context, v *mcpCommand, _ []string) error {
	if v.client.ServerCapabilities().Resources == nil {
		return v.hasNo("resources")
	}
	var all resourceList
	var err error
	if all.Resources, err = collect(v.client.Resources(ctx)); err != nil {
		return err
	}
	if all.Templates, err = collect(v.client.ResourceTemplates(ctx)); err != nil {
		if !is[*jsonrpc.Error](err) {
			return err
		}
		all.Templates = []mcp.ResourceTemplate{} // some servers do not have this method
	}
	for _, r := range all.Resources {
		flagHidden(v.screen, "resource", r.URI, r)
	}
	for _, t := range all.Templates {
		flagHidden(v.screen, "template", t.URITemplate, t)
	}
	switch v.output.format {
	case "ndjson":
		rows := make([]any, 0, len(all.Resources)+len(all.Templates))
		for _, r := range all.Resources {
			rows = append(rows, r)
		}
		for _, t := range all.Templates {
			rows = append(rows, t)
		}
		return v.printJSON(ctx, rows)
	case "table":
		var rows []resourceRow
		for _, r := range all.Resources {
			rows = append(rows, resourceRow{r.URI, orElse(r.Title, r.Name), r.MIMEType})
		}
		for _, t := range all.Templates {
			rows = append(rows, resourceRow{t.URITemplate, orElse(t.Title, t.Name), t.MIMEType})
		}
		return v.printJSON(ctx, rows)
	}
	return v.printList(ctx, all, func(b *listing) {
		for _, r := range all.Resources {
			b.entry(r.URI, kindOf(r.MIMEType), orElse(r.Description, orElse(r.Title, r.Name)))
		}
		for _, t := range all.Templates {
			b.entry(t.URITemplate, kindOf(t.MIMEType), orElse(t.Description, orElse(t.Title, t.Name)))
		}
	})
}

func (a *app) mcpPrompts() *cobra.Command {
	cmd, v := a.mcpSubcommand(&cobra.Command{
		Use:   "prompts TARGET",
		Short: "list the prompts",
		Long: `List the prompts with their arguments.

  parley mcp prompts :3000/mcp
  parley mcp get :3000/mcp plan-evening city=Oslo
  parley mcp prompts :3000/mcp -o table`,
	}, 0, listPrompts)
	cmd.ValidArgsFunction = a.completeMCP(v, nil, false)
	return cmd
}

func listPrompts(ctx context.Context, v *mcpCommand, _ []string) error {
	if v.client.ServerCapabilities().Prompts == nil {
		return v.hasNo("prompts")
	}
	all, err := collect(v.client.Prompts(ctx))
	if err != nil {
		return err
	}
	for _, prompt := range all {
		flagHidden(v.screen, "prompt", prompt.Name, prompt)
	}
	if v.output.format == "table" {
		var rows []promptRow
		for _, prompt := range all {
			rows = append(rows, promptRow{prompt.Name, prompt.Title, promptSignature(&prompt)})
		}
		return v.printJSON(ctx, rows)
	}
	return v.printList(ctx, all, func(b *listing) {
		for _, prompt := range all {
			b.entry(prompt.Name, promptSignature(&prompt), prompt.Description)
			for _, arg := range prompt.Arguments {
				if arg.Description != "" {
					fmt.Fprintf(b, "      %s: %s\n", visible(arg.Name, 60), visible(arg.Description, 200))
				}
			}
		}
	})
}

func promptSignature(p *mcp.Prompt) string {
	var args []string
	for _, arg := range p.Arguments {
		args = append(args, arg.Name+mark(!arg.Required, "?"))
	}
	return "(" + strings.Join(args, ", ") + ")"
}

// hasNo returns the error for a capability that the server lacks.
func (v *mcpCommand) hasNo(what string) error {
	v.screen.line("the server has no " + what)
	if v.output.format == formText {
		return nil
	}
	return v.printer.print(context.Background(), jsonrpc.Raw("[]"))
}

// collect reads a list to its end.
func collect[T any](list iter.Seq2[T, error]) ([]T, error) {
	all := []T{}
	for one, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// printList prints a list for people with the function text, and in all other formats as JSON.
func (v *mcpCommand) printList(ctx context.Context, list any, text func(b *listing)) error {
	if v.output.format != formText {
		return v.printJSON(ctx, list)
	}
	b := v.listing()
	text(b)
	_, err := fmt.Fprint(v.printer.w, b.String())
	return err
}

func (v *mcpCommand) printJSON(ctx context.Context, value any) error {
	raw, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	return v.printer.print(ctx, raw)
}

// A listing is text for people, in lines that fit the terminal.
type listing struct {
	strings.Builder
	palette palette
	width   int // of a line, in characters
}

// textWidth is the maximum line length of a description, in characters.
const textWidth = 96

func (v *mcpCommand) listing() *listing {
	b := &listing{palette: v.printer.palette, width: textWidth}
	if v.printer.terminal {
		b.width = min(textWidth, widthOf(v.printer.w)-1)
	}
	return b
}

// entry writes one item: its name followed by rest, and its description on the lines below.
func (b *listing) entry(name, rest, about string) {
	fmt.Fprintf(b, "%s%s%s%s\n", b.palette.name, shownName(name), b.palette.end, visible(rest, 300))
	b.wrap("    ", about)
}

// shownName returns a name for the beginning of a line. Names with blanks are quoted so that none
// can pass for a line of ours.
func shownName(name string) string {
	// Only our own names have an indent: names that start with blanks are quoted.
	indent := name[:len(name)-len(strings.TrimLeft(name, " "))]
	if strings.ContainsFunc(name[len(indent):], unicode.IsSpace) || len(indent) > 2 {
		return strconv.Quote(visible(name, 300))
	}
	return visible(name, 300)
}

// question writes a question of a peer after our own words, if there are any. Each line that does
// not begin with our words starts with the gutter, so that it cannot pass for a prompt.
func (b *listing) question(ours, text string) {
	line, prefix := ours, ""
	if ours == "" {
		prefix = harmless.Gutter
	}
	flush := func() {
		fmt.Fprintf(b, "%s\n", strings.TrimRight(prefix+line, " "))
		line, prefix = "", harmless.Gutter
	}
	for i, paragraph := range strings.Split(strings.TrimSpace(cut(text, maxQuestion)), "\n") {
		if i > 0 {
			flush()
		}
		for word := range strings.FieldsSeq(paragraph) {
			word = visible(word, 500)
			if line != "" && utf8.RuneCountInString(prefix+line)+1+utf8.RuneCountInString(word) > b.width {
				flush()
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
	}
	flush()
}

// wrap writes text with an indent, in lines of bounded length.
func (b *listing) wrap(indent, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		word = visible(word, 500)
		if line != "" && len(indent)+utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > b.width {
			fmt.Fprintf(b, "%s%s\n", indent, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line != "" {
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}

// A field is one member of an object schema, or of a form.
type field struct {
	name     string
	schema   jsonrpc.Raw
	required bool
}

// fieldsOf returns the members of an object schema in source order.
func fieldsOf(schema jsonrpc.Raw) []field {
	var required []string
	// A value that is not a list requires nothing.
	_ = memberOf(schema, "required").Decode(&required)
	var list []field
	properties := memberOf(schema, "properties")
	for name, value := range properties.Members() {
		list = append(list, field{string(name), value.Clone(), slices.Contains(required, string(name))})
	}
	return list
}

// memberOf returns the first member of an object with that name, or nil if it is missing.
func memberOf(object jsonrpc.Raw, name string) jsonrpc.Raw {
	for key, value := range object.Members() {
		if string(key) == name {
			return value.Clone()
		}
	}
	return nil
}

// text returns a member that is a string, or "" for other values.
func (f *field) text(member string) string { return textOf(memberOf(f.schema, member)) }

func textOf(value jsonrpc.Raw) string {
	var text string
	if value == nil || value.Decode(&text) != nil {
		return ""
	}
	return text
}

// typeName returns the type of a field in one word.
func (f *field) typeName() string {
	switch value := memberOf(f.schema, "type"); kind(value) {
	case '"':
		name := textOf(value)
		if items := (&field{schema: memberOf(f.schema, "items")}).text("type"); name == "array" && items != "" {
			return items + "[]"
		}
		return name
	case '[':
		var names []string
		if value.Decode(&names) == nil {
			names = slices.DeleteFunc(names, func(n string) bool { return n == "null" })
			return strings.Join(names, "|")
		}
	}
	return "any"
}

// toolSignature returns the parameters of a tool, such as (a: number, b?: number).
func toolSignature(t *mcp.Tool) string {
	var parts []string
	for _, f := range fieldsOf(t.InputSchema) {
		parts = append(parts, f.name+mark(!f.required, "?")+": "+f.typeName())
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func mark(on bool, sign string) string {
	if on {
		return sign
	}
	return ""
}

func orElse(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

func kindOf(mime string) string {
	if mime == "" {
		return ""
	}
	return "  " + mime
}

// describe writes the remaining details of a tool.
func (b *listing) describe(t *mcp.Tool) {
	fields := fieldsOf(t.InputSchema)
	if len(fields) > 0 {
		b.WriteString("\n")
	}
	for _, f := range fields {
		b.wrap("      ", f.name+mark(!f.required, "?")+": "+f.typeName()+f.limits()+mark(f.text("description") != "", ", "+f.text("description")))
	}
	if out := fieldsOf(t.OutputSchema); len(out) > 0 {
		var names []string
		for _, f := range out {
			names = append(names, f.name+mark(!f.required, "?"))
		}
		b.WriteString("\n")
		b.wrap("    ", "answers "+strings.Join(names, ", "))
	}
	if hints := hintsOf(t.Annotations); hints != "" {
		b.wrap("    ", "hints: "+hints)
	}
}

// limits returns the bounds and choices of a field.
func (f *field) limits() string {
	var parts []string
	for _, word := range []struct{ member, before string }{{"minimum", "at least "}, {"maximum", "at most "}, {"default", "else "}} {
		if value := memberOf(f.schema, word.member); value != nil {
			parts = append(parts, word.before+string(appendCompact(nil, value, palette{})))
		}
	}
	if choices := choicesOf(f.schema); len(choices) > 0 {
		var names []string
		for _, c := range choices {
			names = append(names, c.text())
		}
		parts = append(parts, strings.Join(names, " | "))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func hintsOf(a *mcp.ToolAnnotations) string {
	if a == nil {
		return ""
	}
	var words []string
	switch {
	case a.ReadOnlyHint:
		words = append(words, "read-only")
	case a.DestructiveHint != nil && !*a.DestructiveHint:
		words = append(words, "not destructive")
	case a.DestructiveHint != nil:
		words = append(words, "may be destructive")
	}
	if a.IdempotentHint && !a.ReadOnlyHint {
		words = append(words, "idempotent")
	}
	if a.OpenWorldHint != nil && *a.OpenWorldHint {
		words = append(words, "accesses external systems")
	}
	return strings.Join(words, ", ")
}
