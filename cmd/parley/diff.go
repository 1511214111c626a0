package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/replay"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// maxDiffFile is the maximum size of a list of tools, in bytes.
const maxDiffFile = 64 << 20

const diffHelp = `Compare two servers, two sessions, or two lists. The exit code is 1 if they differ.

  parley diff http://127.0.0.1:3000/rpc http://127.0.0.1:3000/rpc    what two servers offer
  parley diff tools.json -- ./server              a stored list, and what a server offers now
  parley diff old.jsonl new.jsonl                 calls, their results and the tools of two sessions
  parley diff old.jsonl last                      a session with the newest of parley tap
  parley diff tools.json new.json --ignore title  two lists of tools

A server is an address, @NAME, or in place of NEW a command after --; it is queried as by parley
list. A session is a file of parley tap, or a name as in parley replay. A list is the output of
parley list -o json or parley mcp tools -o json, the result of tools/list, an OpenRPC document, or
an array of tools. Only kinds that both sides list are compared. Each difference is one line: - is
missing in NEW, + is new, ~ has changed. Calls are compared by method and params, in their order;
the tools of a session are those of its last tools/list.`

func (a *app) diffCommand() *cobra.Command {
	d := &diffRun{survey: survey{app: a}}
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "compare two servers, two sessions, or two lists",
		Long:  diffHelp,
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) != 2 && (!a.hasArgv || len(words) != 1) {
				return usagef("parley diff takes OLD and NEW: two servers, sessions or lists")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, words []string) error { return d.run(cmd.Context(), words) },
	}
	cmd.Flags().StringArrayVar(&d.ignore, "ignore", nil, "`MEMBER` that may differ at any position, such as timestamp; repeatable")
	d.output.registerWith(cmd, formText, append([]string{formText}, forms...))
	d.survey.register(cmd)
	return cmd
}

// A diffRun is one execution of the diff command.
type diffRun struct {
	survey survey // of the servers
	output outputFlags
	ignore []string

	printer *printer
	found   []difference
}

// A difference is one difference between two sides.
type difference struct {
	Change string      `json:"change"` // removed, added or changed
	Kind   string      `json:"kind"`   // one of kinds, or call
	Name   string      `json:"name"`
	Path   string      `json:"path,omitzero"`
	Old    jsonrpc.Raw `json:"old,omitzero"` // JSON, or a text; absent if there was none
	New    jsonrpc.Raw `json:"new,omitzero"`

	then, now string // as text
}

// String returns the difference as one line.
func (d *difference) String() string {
	name := d.Kind + " " + visible(d.Name, 200)
	switch d.Change {
	case "removed":
		return "- " + name
	case "added":
		return "+ " + name
	}
	return fmt.Sprintf("~ %s: %s was %s, is %s", name, visible(d.Path, 200), visible(d.then, 200), visible(d.now, 200))
}

// absent is how package replay describes a value that does not exist.
const absent = "absent"

// changed returns the difference of a value.
func changed(kind, name string, d replay.Difference) difference {
	out := difference{Change: "changed", Kind: kind, Name: name, Path: strings.TrimPrefix(d.Path, "."), then: d.Then, now: d.Now}
	for text, to := range map[string]*jsonrpc.Raw{d.Then: &out.Old, d.Now: &out.New} {
		if text == absent {
			continue
		}
		var err error
		if *to, err = jsonrpc.ParseRaw([]byte(text)); err != nil { // a description, or cut
			*to = rawOf(text)
		}
	}
	return out
}

// kindCall is the kind of a call of a session.
const kindCall = "call"

// A compared is one side of a comparison.
type compared struct {
	name  string
	kinds map[string][]namedValue // by kind; a kind that the side does not list is absent
	live  bool                    // the values were decoded and encoded again
	brief bool                    // of parley list: the values are signatures and descriptions
}

// A namedValue is a value with the name under which it is compared with another.
type namedValue struct {
	name  string
	value jsonrpc.Raw
	brief jsonrpc.Raw // as parley list prints it; nil if unknown
}

func (d *diffRun) run(ctx context.Context, words []string) (err error) {
	if d.output.jq != "" && d.output.format == formText {
		d.output.format = "json"
	}
	if d.printer, err = d.survey.app.printer(d.output); err != nil {
		return err
	}
	var sides [2]*compared
	for i := range sides {
		if i == 1 && len(words) == 1 { // the command after --
			sides[i], err = d.server(ctx, nil)
		} else if looksLikeTarget(words[i]) {
			sides[i], err = d.server(ctx, words[i:i+1])
		} else {
			sides[i], err = d.survey.app.compared(ctx, words[i])
		}
		if err != nil {
			return err
		}
	}
	if err := d.compare(sides[0], sides[1]); err != nil {
		return err
	}
	if err := d.print(ctx); err != nil {
		return err
	}
	fmt.Fprintf(d.survey.app.stderr, "parley: %s\n", countOf(len(d.found), "difference"))
	if len(d.found) > 0 {
		return &silentError{exitRPC}
	}
	return nil
}

// server reads what a server offers: that at the address, or without one the command after --.
func (d *diffRun) server(ctx context.Context, words []string) (c *compared, err error) {
	s := d.survey
	app := *s.app
	app.hasArgv = words == nil
	s.app, s.printer, s.tracer = &app, d.printer, nil
	_, end, err := s.open(ctx, words, d.output.colour)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	found, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	c = &compared{name: s.target.String(), kinds: make(map[string][]namedValue), live: true}
	for _, kind := range kindsOf[found.Protocol] {
		c.kinds[kind] = []namedValue{}
	}
	for _, e := range found.ordered("") {
		if e.Kind != kindTask { // state, not what the server offers
			c.kinds[e.Kind] = append(c.kinds[e.Kind], namedValue{e.Name, rawOf(e.object()), rawOf(e)})
		}
	}
	return c, nil
}

// kindsOf has the kinds that a server of a protocol lists, even if it has none of them.
var kindsOf = map[string][]string{
	config.JSONRPC: {kindMethod}, config.MCP: {kindTool, kindResource, kindTemplate, kindPrompt}, config.ACP: {kindAgent},
	config.A2A: {kindSkill}, config.Editor: {kindAgent},
}

// compare collects the differences of two sides.
func (d *diffRun) compare(x, y *compared) error {
	if x.kinds[kindCall] != nil && y.kinds[kindCall] != nil { // two sessions: one without tools has none
		for _, side := range []*compared{x, y} {
			side.kinds[kindTool] = append([]namedValue{}, side.kinds[kindTool]...)
		}
	}
	common := 0
	for _, kind := range slices.Concat(kinds, []string{kindCall}) {
		before, listed := x.kinds[kind]
		after, too := y.kinds[kind]
		if !listed || !too {
			continue
		}
		common++
		if x.live != y.live {
			before, after = normalized(kind, before), normalized(kind, after)
		}
		d.lists(kind, before, after, x.brief || y.brief)
	}
	if common == 0 {
		return usagef("%s and %s have nothing in common: the first lists %s, the second %s", cut(x.name, 60), cut(y.name, 60), x.listed(), y.listed())
	}
	return nil
}

// listed names the kinds that a side lists.
func (c *compared) listed() string {
	var names []string
	for _, kind := range slices.Concat(kinds, []string{kindCall}) {
		if _, ok := c.kinds[kind]; ok {
			names = append(names, kind+"s")
		}
	}
	return orElse(strings.Join(names, ", "), "nothing")
}

// normalized returns entries in the form in which a server's own are compared: without members that
// their types do not have.
func normalized(kind string, list []namedValue) []namedValue {
	list = slices.Clone(list)
	for i := range list {
		switch kind {
		case kindTool:
			if tool := new(mcp.Tool); list[i].value.Decode(tool) == nil {
				list[i].value = rawOf(tool)
			}
		case kindMethod:
			if method := new(openrpc.Method); list[i].value.Decode(method) == nil {
				list[i].value = rawOf(method)
			}
		}
	}
	return list
}

// print prints the differences, one per line.
func (d *diffRun) print(ctx context.Context) error {
	if d.output.format != formText {
		list := d.found
		if list == nil {
			list = []difference{}
		}
		return d.printer.print(ctx, rawOf(list))
	}
	for i := range d.found {
		if _, err := fmt.Fprintln(d.survey.app.stdout, d.found[i].String()); err != nil {
			return err
		}
	}
	return nil
}

// lists compares two lists by name.
func (d *diffRun) lists(kind string, before, after []namedValue, brief bool) {
	for _, c := range replay.Changes(entriesOf(before, brief), entriesOf(after, brief), d.ignore) {
		if c.Kind == "changed" {
			d.found = append(d.found, changed(kind, c.Name, c.Value))
		} else {
			d.found = append(d.found, difference{Change: c.Kind, Kind: kind, Name: c.Name})
		}
	}
}

// entriesOf returns a list for a comparison.
func entriesOf(list []namedValue, brief bool) []replay.Entry {
	out := make([]replay.Entry, 0, len(list))
	for _, v := range list {
		e := replay.Entry{Name: v.name, Value: v.value}
		if brief {
			e.Value = v.brief
		}
		out = append(out, e)
	}
	return out
}

// namedValues returns the entries of a list that was read.
func namedValues(list []replay.Entry) []namedValue {
	out := make([]namedValue, 0, len(list))
	for _, e := range list {
		out = append(out, namedValue{name: e.Name, value: e.Value})
	}
	return out
}

// compared reads a session or a list of tools.
func (a *app) compared(ctx context.Context, word string) (*compared, error) {
	file := a.atHome(word)
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Size() <= maxDiffFile {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, usagef("%s: %v", visible(word, 300), bareReason(err))
		}
		if value, err := jsonrpc.ParseRaw(bytes.TrimSpace(text)); err == nil {
			if c := comparedList(value); c != nil {
				c.name = word
				return c, nil
			}
		}
	}
	log, err := a.openSession(word)
	if err != nil {
		return nil, err
	}
	c, err := comparedSession(ctx, log)
	if err != nil {
		return nil, err
	}
	c.name = word
	return c, nil
}

// comparedList reads a list, or returns nil if value is not a list.
func comparedList(value jsonrpc.Raw) *compared {
	if methods := memberOf(value, "methods"); kind(methods) == '[' {
		if list, ok := toolsOf(methods); ok { // methods have names, too
			return &compared{kinds: map[string][]namedValue{kindMethod: list}}
		}
		return nil
	}
	list, ok := toolsOf(value)
	if !ok {
		return nil
	}
	c := &compared{kinds: make(map[string][]namedValue)}
	for _, v := range list {
		kind := textOf(memberOf(v.value, "kind"))
		if !slices.Contains(kinds, kind) {
			return &compared{kinds: map[string][]namedValue{kindTool: list}}
		}
		c.kinds[kind], c.brief = append(c.kinds[kind], namedValue{v.name, nil, v.value}), true
	}
	if !c.brief {
		c.kinds[kindTool] = []namedValue{}
	}
	for _, all := range kindsOf { // what a server of the protocol does not have, it lists as nothing
		if slices.ContainsFunc(all, func(kind string) bool { return c.brief && c.kinds[kind] != nil }) {
			for _, kind := range all {
				c.kinds[kind] = append([]namedValue{}, c.kinds[kind]...)
			}
		}
	}
	return c
}

// toolsOf returns the tools of a list: an array, or an object with the member "tools" or "result".
func toolsOf(value jsonrpc.Raw) (list []namedValue, ok bool) {
	found, ok := replay.Tools(value)
	return namedValues(found), ok
}

// comparedSession returns the calls of a session, and its tools.
func comparedSession(ctx context.Context, log *capture.Log) (*compared, error) {
	s, err := replay.ReadSession(ctx, log)
	if err != nil {
		return nil, err
	}
	c := &compared{kinds: map[string][]namedValue{kindCall: namedValues(s.Calls)}}
	if s.Tools != nil {
		c.kinds[kindTool] = namedValues(s.Tools)
	}
	return c, nil
}
