package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/jsonrpc"
)

const listHelp = `List what a server offers: methods, MCP tools, resources and prompts, A2A skills, ACP agents, tasks.

  parley list :3000/rpc
  parley list :3000/mcp --kind tool -o json
  parley list -- parley demo --mcp --stdio

Into a pipe or a file, it prints one name per line; on a terminal, a table. The protocol is
detected: by rpc.discover, the MCP handshake, the list of ACP agents, the A2A agent card, and for
programs also the handshake of the Agent Client Protocol. That can start a program up to five times;
--protocol avoids it.

With --team, it lists the members of a team file: their agents and skills, and how many requests
that took. Members at one address are queried together.`

// kindNames are the values of --kind.
var kindNames = strings.Join(kinds[:len(kinds)-1], ", ") + " or " + kinds[len(kinds)-1]

func (a *app) listCommand() *cobra.Command {
	var (
		s      = &survey{app: a}
		output outputFlags
		only   string
		team   string
	)
	cmd := &cobra.Command{
		Use:   "list TARGET",
		Short: "list methods, tools, prompts, skills and agents of a server",
		Long:  listHelp,
		RunE: func(cmd *cobra.Command, words []string) (err error) {
			if err := s.prepare(output, only, false); err != nil {
				return err
			}
			if team != "" {
				return s.listTeam(cmd.Context(), team, words)
			}
			words, end, err := s.open(cmd.Context(), words, output.colour)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			if len(words) > 0 {
				return usagef("unexpected argument %q; use parley describe for one name", cut(words[0], 60))
			}
			found, err := s.find(cmd.Context())
			if err != nil {
				return err
			}
			return s.printList(cmd.Context(), found.ordered(only))
		},
	}
	f := cmd.Flags()
	f.StringVar(&only, "kind", "", "list only entries of this `KIND`: "+kindNames)
	f.StringVar(&team, "team", "", "list the members of the team in `FILE`, instead of a target")
	output.registerWith(cmd, formText, append([]string{formText}, forms...))
	s.register(cmd)
	// The flag exists, so the error is nil.
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	cmd.ValidArgsFunction = a.completeSurvey(s, false)
	return cmd
}

// prepare checks the flags, and makes the printer. JSON is the format if --jq or schemas are
// requested.
func (s *survey) prepare(output outputFlags, only string, schema bool) (err error) {
	if only != "" && !slices.Contains(kinds, only) {
		return usagef("--kind must be %s, not %q", kindNames, cut(only, 60))
	}
	if (output.jq != "" || schema) && output.format == formText {
		output.format = "json"
	}
	s.printer, err = s.app.printer(output)
	return err
}

// maxAbout is the maximum width of a description in a table, in characters.
const maxAbout = 60

// printList prints entries: as text one name per line, or a table on a terminal.
func (s *survey) printList(ctx context.Context, all []catalogEntry) error {
	for _, e := range all {
		flagHidden(s.screen, e.Kind, e.Name, e.object())
	}
	p := s.printer
	switch {
	case p.format == formText && p.terminal, p.format == "table":
		return s.printTable(all)
	case p.format != formText:
		return p.print(ctx, rawOf(all))
	}
	for _, e := range all {
		if err := p.word(e.Name); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		s.screen.line("parley: the server lists nothing")
	}
	return nil
}

func (s *survey) printTable(all []catalogEntry) error {
	if len(all) == 0 {
		s.screen.line("parley: the server lists nothing")
		return nil
	}
	return s.printer.rows(4, []string{"KIND", "NAME", "SIGNATURE", "DESCRIPTION"}, func(row func([]string)) {
		for _, e := range all {
			row([]string{e.Kind, cellOfText([]byte(e.Name)), cellOfText([]byte(strings.TrimSpace(e.Signature))), visible(e.Description, maxAbout)})
		}
	})
}

const describeHelp = `Describe a server, or single methods, tools, prompts, skills or agents of it.

  parley describe :3000/rpc subtract
  parley describe :3000/mcp book-table --schema
  parley describe :3000/acp

With a name: its signature, and the names and types of its parameters and results. --schema prints
their JSON Schemas instead, and -o json the server's own description. Without a name: the server,
and the signatures of everything that it offers. The protocol is detected, as in parley list.`

func (a *app) describeCommand() *cobra.Command {
	var (
		s      = &survey{app: a}
		output outputFlags
		only   string
		schema bool
	)
	cmd := &cobra.Command{
		Use:   "describe TARGET [NAME…]",
		Short: "show signature, parameters and schema of a method, tool, skill or agent",
		Long:  describeHelp,
		RunE: func(cmd *cobra.Command, words []string) (err error) {
			if err := s.prepare(output, only, schema); err != nil {
				return err
			}
			names, end, err := s.open(cmd.Context(), words, output.colour)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			found, err := s.find(cmd.Context())
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return s.printCatalog(cmd.Context(), found, only, schema)
			}
			chosen, err := s.choose(found, names, only)
			if err != nil {
				return err
			}
			return s.printEntries(cmd.Context(), chosen, schema)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&schema, "schema", false, "print the JSON Schemas of parameters and result")
	f.StringVar(&only, "kind", "", "describe only entries of this `KIND`: "+kindNames)
	output.registerWith(cmd, formText, append([]string{formText}, forms...))
	s.register(cmd)
	// The flag exists, so the error is nil.
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	cmd.ValidArgsFunction = a.completeSurvey(s, true)
	return cmd
}

// choose returns the entries with the given names. An unknown name is an error with a suggestion.
func (s *survey) choose(c *catalog, names []string, only string) (chosen []catalogEntry, err error) {
	all := c.ordered(only)
	for _, name := range names {
		before := len(chosen)
		for _, e := range all {
			if e.Name == name {
				chosen = append(chosen, e)
			}
		}
		if len(chosen) > before {
			continue
		}
		var others []string
		for _, e := range all {
			others = append(others, e.Name)
		}
		hint := didYouMean(name, others)
		if hint == "" {
			hint = fmt.Sprintf("; list all names with: parley list %s", shellWord(s.target.String()))
		}
		return nil, &shownError{fmt.Sprintf("%s has no %s %q%s", s.target, orElse(only, whatOf(all)), cut(name, 60), hint), errNothing}
	}
	return chosen, nil
}

// whatOf names the kinds of entries: "method", or "tool, resource or prompt".
func whatOf(all []catalogEntry) string {
	var have []string
	for _, k := range kinds {
		if slices.ContainsFunc(all, func(e catalogEntry) bool { return e.Kind == k }) {
			have = append(have, k)
		}
	}
	switch len(have) {
	case 0:
		return "entry"
	case 1:
		return have[0]
	}
	return strings.Join(have[:len(have)-1], ", ") + " or " + have[len(have)-1]
}

// printCatalog prints a whole server.
func (s *survey) printCatalog(ctx context.Context, c *catalog, only string, schema bool) error {
	c.Entries = c.ordered(only)
	if schema {
		return s.printEntries(ctx, c.Entries, true)
	}
	switch s.printer.format {
	case formText:
	case "table":
		return s.printTable(c.Entries)
	default:
		return s.printer.print(ctx, rawOf(c))
	}
	b := s.listing()
	b.entry(orElse(c.Name, s.target.String()), "  "+strings.TrimSpace(c.Release+"  "+protocolTitle(c)), c.Description)
	kind := ""
	for _, e := range c.Entries {
		flagHidden(s.screen, e.Kind, e.Name, e.object())
		if e.Kind != kind {
			kind = e.Kind
			fmt.Fprintf(b, "\n%s:\n", strings.ToUpper(kind[:1])+kind[1:]+"s")
		}
		b.entry("  "+e.Name, e.Signature, "")
		b.wrap("      ", e.Description)
	}
	_, err := fmt.Fprint(s.printer.w, b.String())
	return err
}

// protocolTitle names a protocol with its version.
func protocolTitle(c *catalog) string {
	name := map[string]string{"jsonrpc": "JSON-RPC", "mcp": "MCP", "acp": "ACP", "a2a": "A2A", "editor": "Agent Client Protocol"}[c.Protocol]
	return strings.TrimSpace(name + " " + c.Version)
}

// printEntries prints entries in detail, or their schemas. Several are one JSON array.
func (s *survey) printEntries(ctx context.Context, all []catalogEntry, schema bool) error {
	if s.printer.format == "table" && !schema {
		return s.printTable(all)
	}
	if schema || s.printer.format != formText {
		var values []jsonrpc.Raw
		for _, e := range all {
			value := e.schema
			if !schema || value == nil {
				value = rawOf(e.object())
			}
			values = append(values, value)
		}
		if len(values) == 1 {
			return s.printer.print(ctx, values[0])
		}
		return s.printer.print(ctx, rawOf(values))
	}
	b := s.listing()
	for i, e := range all {
		flagHidden(s.screen, e.Kind, e.Name, e.object())
		if i > 0 {
			fmt.Fprintln(b)
		}
		b.describeEntry(&e)
	}
	_, err := fmt.Fprint(s.printer.w, b.String())
	return err
}

// describeEntry writes one entry with all details.
func (b *listing) describeEntry(e *catalogEntry) {
	b.entry(e.Name, e.Signature, "")
	about := e.Description
	if e.about != nil {
		about = e.about()
	}
	for paragraph := range strings.SplitSeq(about, "\n") {
		b.wrap("    ", paragraph)
	}
	if len(e.fields) > 0 {
		fmt.Fprintf(b, "\n  Parameters:\n")
	}
	for _, f := range e.fields {
		b.wrap("    ", f.line())
	}
	if len(e.results) > 0 {
		fmt.Fprintf(b, "\n  Result:\n")
	}
	for _, f := range e.results {
		b.wrap("    ", f.line())
	}
	if len(e.lines) > 0 {
		fmt.Fprintln(b)
	}
	for _, line := range e.lines {
		b.wrap("  ", line)
	}
}

// line describes a parameter: name, type, bounds and description.
func (p *param) line() string {
	return p.name + mark(!p.required, "?") + ": " + p.typeName() + p.limits() + mark(p.about != "", ", "+p.about)
}

func (s *survey) listing() *listing {
	b := &listing{palette: s.printer.palette, width: textWidth}
	if s.printer.terminal {
		b.width = min(textWidth, widthOf(s.printer.w)-1)
	}
	return b
}
