package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/capture/replay"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
	"github.com/spf13/cobra"
)

func (a *app) mockCommand() *cobra.Command {
	var flags serveFlags
	var strict, pace bool
	cmd := &cobra.Command{
		Use:   "mock FILE",
		Short: "serve an OpenRPC document or a recorded session",
		Long: `Serve an OpenRPC document or a recorded session, without the real server.

  parley mock openrpc.json --listen http://127.0.0.1:9000     Ctrl-C ends it
  parley call subtract 42 23 -- parley mock openrpc.json --stdio
  parley call sum 1 2 3 -- parley mock session.jsonl --stdio

From an OpenRPC document, a call whose params are those of an example gets the result of that
example, any other call the result of the first example, and without examples a value that fits the
schema of the result. Missing and unknown params get -32602. From a recorded session, a call gets
the recorded response, as with parley replay. Without --listen, it serves on http://127.0.0.1:3000.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("missing FILE: an OpenRPC document or a session file")
			}
			return noWords(cmd, args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.mock(cmd.Context(), flags, args[0], strict, pace)
		},
	}
	flags.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&strict, "strict", false, "reject params that are in no example and were not recorded")
	f.BoolVar(&pace, "pace", false, "reproduce the recorded timing")
	return cmd
}

func (a *app) mock(ctx context.Context, flags serveFlags, file string, strict, pace bool) error {
	if a.hasArgv {
		return usagef("parley mock does not start a command; remove -- and the words after it")
	}
	log := &reporter{w: a.stderr}
	handler, err := a.mocked(file, strict, pace, log)
	if err != nil {
		return err
	}
	if !flags.stdio && len(flags.listen) == 0 {
		flags.listen = []string{":3000"}
	}
	targets, err := listenTargets(flags)
	if err != nil {
		return err
	}
	listener, err := a.listener(flags, log)
	if err != nil {
		return err
	}
	listener.Handler = handler
	running, err := listener.Listen(ctx, targets...)
	if err != nil {
		return err
	}
	for _, t := range running.Targets() {
		if t.Scheme != "stdio" {
			fmt.Fprintf(a.stderr, "parley: mock of %s at %s\n", visible(file, 300), t)
		}
	}
	return running.Run(ctx)
}

// mocked returns the handler for a file.
func (a *app) mocked(file string, strict, pace bool, log *reporter) (jsonrpc.Handler, error) {
	content, err := a.readInput(file)
	if err != nil {
		return nil, err
	}
	if raw, err := jsonrpc.ParseRaw(bytes.TrimSpace(content)); err == nil {
		for name := range raw.Members() {
			if string(name) == "openrpc" {
				doc, err := openrpc.Parse(raw)
				if err != nil {
					return nil, usagef("%s: %v", file, err)
				}
				return &mockServer{doc: doc, text: raw, strict: strict}, nil
			}
		}
	}
	session, err := capture.Open(file, lens.Judges()...)
	if err != nil {
		return nil, usagef("%s is neither an OpenRPC document nor a session: %s", file, strings.ReplaceAll(bareReason(err).Error(), "capture: ", ""))
	}
	server, err := replay.NewServer(session, capture.Out)
	if err != nil {
		return nil, usagef("%s is neither an OpenRPC document nor a session with calls", file)
	}
	server.Strict, server.Pace, server.Report = strict, pace, log.report
	return server, nil
}

// A mockServer responds by an OpenRPC document.
type mockServer struct {
	doc    *openrpc.Document
	text   jsonrpc.Raw
	strict bool
}

// Handle implements [jsonrpc.Handler].
func (m *mockServer) Handle(_ context.Context, req *jsonrpc.Request) (any, error) {
	if req.Method == openrpc.MethodDiscover {
		return m.text, nil
	}
	method, ok := m.doc.Method(req.Method)
	if !ok {
		return nil, jsonrpc.ErrMethodNotFound
	}
	params := m.doc.Params(method)
	given, err := paramsGiven(params, req.Params)
	if err != nil {
		return nil, err
	}
	var first *openrpc.Example
	for _, pair := range method.Examples {
		if pair.Result == nil {
			continue
		}
		if first == nil {
			first = pair.Result
		}
		if sameParams(params, given, pair.Params) {
			return pair.Result.Value, nil
		}
	}
	switch result, described := m.doc.Result(method); {
	case m.strict && first != nil:
		return nil, badParams("", "no example has these params")
	case first != nil:
		return first.Value, nil
	case described:
		return m.fitting(result.Schema, 0), nil
	}
	return jsonrpc.Raw("null"), nil
}

func badParams(pointer, reason string) error {
	return jsonrpc.ErrInvalidParams.WithData(&jsonrpc.ParamFault{Pointer: pointer, Reason: reason})
}

// paramsGiven returns the params of a call by their position in the document.
func paramsGiven(params []openrpc.ContentDescriptor, raw jsonrpc.Raw) ([]jsonrpc.Raw, error) {
	given := make([]jsonrpc.Raw, len(params))
	n := 0
	for value := range raw.Elements() {
		if n == len(params) {
			if n > 0 && params[n-1].Extra[openrpc.Variadic] != nil {
				break
			}
			return nil, badParams(fmt.Sprintf("/%d", n), "too many params")
		}
		given[n] = value
		n++
	}
	for name, value := range raw.Members() {
		found := false
		for i := range params {
			if params[i].Name == string(name) {
				given[i], found = value, true
			}
		}
		if !found {
			return nil, badParams("/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(string(name)), "unknown param")
		}
	}
	for i := range params {
		if params[i].Required && given[i] == nil {
			return nil, badParams("", "missing param "+params[i].Name)
		}
	}
	return given, nil
}

// sameParams reports whether the params of an example, which are named or in order, are those
// given.
func sameParams(params []openrpc.ContentDescriptor, given []jsonrpc.Raw, examples []openrpc.Example) bool {
	expected := make([]jsonrpc.Raw, len(given))
	for i, e := range examples {
		at := i
		for k := range params {
			if params[k].Name == e.Name {
				at = k
			}
		}
		if at >= len(expected) {
			return false
		}
		expected[at] = e.Value
	}
	for i := range given {
		if (given[i] == nil) != (expected[i] == nil) || given[i] != nil && !sameJSON(given[i], expected[i]) {
			return false
		}
	}
	return true
}

// mockDepth bounds the nesting of a value that is made from a schema.
const mockDepth = 8

// fitting returns a small value for a schema: its default, first example or first allowed value, or
// one of its type.
func (m *mockServer) fitting(schema jsonrpc.Raw, depth int) jsonrpc.Raw {
	members := make(map[string]jsonrpc.Raw)
	for name, value := range schema.Members() {
		members[string(name)] = value
	}
	if depth == mockDepth {
		return jsonrpc.Raw("null")
	}
	var ref string
	if members["$ref"].Decode(&ref) == nil && ref != "" {
		if to, err := m.doc.Resolve(ref); err == nil {
			return m.fitting(to, depth+1)
		}
	}
	for _, name := range []string{"const", "default"} {
		if v := members[name]; v != nil {
			return v
		}
	}
	for _, name := range []string{"examples", "enum"} {
		for v := range members[name].Elements() {
			return v
		}
	}
	for _, name := range []string{"oneOf", "anyOf", "allOf"} {
		for sub := range members[name].Elements() {
			return m.fitting(sub, depth+1)
		}
	}
	text := string(members["type"])
	for v := range members["type"].Elements() {
		text = string(v)
		break
	}
	switch {
	case text == `"object"` || text == "" && members["properties"] != nil:
		out := []byte{'{'}
		for name, sub := range members["properties"].Members() {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(jsonrpc.AppendString(out, string(name)), ':')
			out = append(out, m.fitting(sub, depth+1)...)
		}
		return append(out, '}')
	case text == `"array"`:
		return jsonrpc.Raw("[]")
	case text == `"string"`:
		return jsonrpc.Raw(`""`)
	case text == `"integer"`, text == `"number"`:
		if least := members["minimum"]; least != nil {
			return least
		}
		return jsonrpc.Raw("0")
	case text == `"boolean"`:
		return jsonrpc.Raw("false")
	}
	return jsonrpc.Raw("null")
}
