package replay

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// An Entry is one value of a list that is compared with another list.
type Entry struct {
	Name  string      // entries of the same name are compared
	Value jsonrpc.Raw // nil if only the name is known
	Ref   capture.Ref // of the recorded request, or the zero Ref
}

// A Session is what is compared of a recording.
type Session struct {
	// Calls have the method and the params as their names, and the result or the error as values.
	// Calls of the server have "← " before the method.
	Calls []Entry

	// Tools are those of the last tools/list with all its pages, by name. They are nil if the
	// recording has no tools/list.
	Tools []Entry
}

// ReadSession reads the calls and the tools of a recording. It returns early if ctx ends.
func ReadSession(ctx context.Context, log *capture.Log) (*Session, error) {
	s := &Session{Calls: []Entry{}}
	tools := make(map[string]Entry)
	listed := false
	for _, r := range log.Rows(capture.Ref{}, 0) {
		if r.Kind != capture.RowRequest {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		request, err := log.Payload(r.Ref)
		if err != nil {
			continue
		}
		params := memberOf(request, "params")
		answer, value := jsonrpc.Raw(nil), jsonrpc.Raw(`{"response":"`+r.State+`"}`)
		if payload, err := log.Payload(r.Answer); err == nil && !r.Answer.IsZero() {
			name := "result"
			if answer = memberOf(payload, name); answer == nil {
				name = "error"
			}
			value = jsonrpc.Raw(fmt.Sprintf(`{"%s":%s}`, name, memberOf(payload, name)))
		}
		if r.Method == "tools/list" {
			if list, ok := Tools(answer); ok {
				listed = true
				if memberOf(params, "cursor") == nil {
					clear(tools)
				}
				for _, tool := range list {
					tool.Ref = r.Ref
					tools[tool.Name] = tool
				}
			}
			continue
		}
		arrow := map[capture.Dir]string{capture.In: "← "}[r.Dir]
		s.Calls = append(s.Calls, Entry{strings.TrimSpace(arrow + r.Method + " " + comparableParams(params)), value, r.Ref})
	}
	if listed {
		s.Tools = make([]Entry, 0, len(tools))
		for _, tool := range tools {
			s.Tools = append(s.Tools, tool)
		}
		slices.SortFunc(s.Tools, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	}
	return s, nil
}

// comparableParams returns params in one form for the same values, without _meta, which differs in
// each call.
func comparableParams(params jsonrpc.Raw) string {
	if len(params) == 0 {
		return ""
	}
	return canonicalText(params, []string{"_meta"})
}

func memberOf(value jsonrpc.Raw, name string) (found jsonrpc.Raw) {
	for key, member := range value.Members() {
		if string(key) == name {
			found = member
		}
	}
	return found
}

// Tools returns the elements of a list with their names, sorted by name: an array of objects, or
// an object with the member "tools" or "result" that contains one. ok is false for other values.
func Tools(value jsonrpc.Raw) (list []Entry, ok bool) {
	value = bytes.TrimSpace(value)
	if len(value) > 0 && value[0] == '{' {
		for name, member := range value.Members() {
			if name := string(name); name == "tools" || name == "result" {
				return Tools(member)
			}
		}
		return nil, false
	}
	if len(value) == 0 || value[0] != '[' {
		return nil, false
	}
	for tool := range value.Elements() {
		name := ""
		for key, member := range tool.Members() {
			if string(key) == "name" {
				_ = member.Decode(&name) // checked below
			}
		}
		if name == "" {
			return nil, false
		}
		list = append(list, Entry{Name: name, Value: tool})
	}
	slices.SortStableFunc(list, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return list, true
}

// A Change is one difference of two lists.
type Change struct {
	Kind     string      // "removed", "added" or "changed"
	Name     string      // of the entry
	Value    Difference  // of a changed entry
	Old, New capture.Ref // of the entries, or the zero Ref
}

// Changes compares two lists by name: the nth entry of a name with the nth of the other list.
// ignore has the names of members that may differ at any position.
func Changes(before, after []Entry, ignore []string) []Change {
	var found, added []Change
	rest := make(map[string][]Entry)
	for _, e := range after {
		rest[e.Name] = append(rest[e.Name], e)
	}
	for _, e := range before {
		others := rest[e.Name]
		if len(others) == 0 {
			found = append(found, Change{Kind: "removed", Name: e.Name, Old: e.Ref})
			continue
		}
		rest[e.Name] = others[1:]
		if e.Value == nil || others[0].Value == nil {
			continue // only the names are known
		}
		for _, d := range differencesOf(e.Value, others[0].Value, ignore) {
			found = append(found, Change{"changed", e.Name, d, e.Ref, others[0].Ref})
		}
	}
	for _, e := range slices.Backward(after) { // what is left is the last of each name
		if n := len(rest[e.Name]); n > 0 {
			rest[e.Name] = rest[e.Name][:n-1]
			added = append(added, Change{Kind: "added", Name: e.Name, New: e.Ref})
		}
	}
	slices.Reverse(added)
	return append(found, added...)
}
