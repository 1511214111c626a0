package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Difference is a response, or a part of one, that differs from the recorded one.
type Difference struct {
	Ref    capture.Ref // of the recorded request
	Method string
	Path   string // path in the response, such as result.content[0].text; "" for the whole response
	Then   string // JSON text, or a description of what was there instead
	Now    string
}

func (d Difference) String() string {
	return fmt.Sprintf("#%s %s: %s was %s, is %s", d.Ref, d.Method, d.Path, d.Then, d.Now)
}

// CompareOptions configure [Server.Compare].
type CompareOptions struct {
	// Ignore lists names of members that may differ at any position, such as "timestamp".
	Ignore []string

	// Before is called before each recorded message is sent. If nil, it is not called.
	Before func(ref capture.Ref)

	// Each is called after each response with its differences. If nil, it is not called.
	Each func(ref capture.Ref, method string, differences []Difference)
}

// Compare sends the recorded requests and notifications to peer one at a time in their order, and
// compares the responses. The Server must be for the direction to send: [capture.Out] for a client.
// Compare returns an error if peer can no longer be called.
func (s *Server) Compare(ctx context.Context, peer jsonrpc.Peer, o *CompareOptions) ([]Difference, error) {
	var opts CompareOptions
	if o != nil {
		opts = *o
	}
	var all []Difference
	for _, c := range s.calls {
		if c.row.Kind != capture.RowNotification && c.answer == nil {
			continue // the recorded request had no response
		}
		if opts.Before != nil {
			opts.Before(c.row.Ref)
		}
		if c.row.Kind == capture.RowNotification {
			if err := peer.Notify(ctx, c.row.Method, c.params); err != nil {
				return all, fmt.Errorf("#%s %s: %w", c.row.Ref, c.row.Method, err)
			}
			continue
		}
		var result jsonrpc.Raw
		err := peer.Call(ctx, c.row.Method, c.params, &result)
		answered, isAnswer := errors.AsType[*jsonrpc.Error](err)
		if err != nil && !isAnswer {
			return all, fmt.Errorf("#%s %s: %w", c.row.Ref, c.row.Method, err)
		}
		found := c.differs(result, answered, opts.Ignore)
		if opts.Each != nil {
			opts.Each(c.row.Ref, c.row.Method, found)
		}
		all = append(all, found...)
	}
	return all, nil
}

func (c *call) differs(result jsonrpc.Raw, e *jsonrpc.Error, ignore []string) []Difference {
	d := &differ{ref: c.row.Ref, method: c.row.Method, ignore: ignore}
	switch {
	case c.answer.Error == nil && e == nil:
		d.values("result", parsed(c.answer.Result), parsed(result))
	case c.answer.Error == nil:
		d.add("the response", string(c.answer.Result), "error "+e.Error())
	case e == nil:
		d.add("the response", "error "+string(c.answer.Error), string(result))
	default:
		then := map[string]any{}
		_ = json.Unmarshal(c.answer.Error, &then, lenient) // already parsed before
		now := map[string]any{"code": float64(e.Code), "message": e.Message}
		if e.Data != nil {
			now["data"] = parsed(e.Data)
		}
		d.values("error", then, now)
	}
	return d.found
}

func parsed(text jsonrpc.Raw) (v any) {
	_ = json.Unmarshal(text, &v, lenient) // it is valid JSON
	return v
}

// maxFound is the maximum number of differences of one response.
const maxFound = 20

type differ struct {
	ref    capture.Ref
	method string
	ignore []string
	found  []Difference
}

func (d *differ) add(path, then, now string) {
	if len(d.found) < maxFound {
		d.found = append(d.found, Difference{d.ref, d.method, path, then, now})
	}
}

func (d *differ) values(path string, then, now any) {
	switch a := then.(type) {
	case map[string]any:
		b, ok := now.(map[string]any)
		if !ok {
			break
		}
		names := maps.Clone(a)
		maps.Copy(names, b)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if slices.Contains(d.ignore, name) {
				continue
			}
			was, before := a[name]
			is, after := b[name]
			switch {
			case !before:
				d.add(path+"."+name, "absent", text(is))
			case !after:
				d.add(path+"."+name, text(was), "absent")
			default:
				d.values(path+"."+name, was, is)
			}
		}
		return
	case []any:
		b, ok := now.([]any)
		if !ok || len(a) != len(b) {
			break
		}
		for i := range a {
			d.values(path+"["+strconv.Itoa(i)+"]", a[i], b[i])
		}
		return
	default:
		switch now.(type) {
		case map[string]any, []any:
		default:
			if then == now || then == capture.Hidden {
				return
			}
		}
	}
	d.add(path, text(then), text(now))
}

func text(v any) string {
	out, err := json.Marshal(v, json.Deterministic(true), lenient)
	if err != nil {
		return err.Error()
	}
	if len(out) > 200 {
		return string(out[:200]) + "…"
	}
	return string(out)
}

// differencesOf compares two JSON values, such as the results of one call in two sessions. ignore
// has names of members that may differ at any position. A value that was redacted in before equals
// any. It returns at most 20 differences, without Ref and Method.
func differencesOf(before, after jsonrpc.Raw, ignore []string) []Difference {
	d := &differ{ignore: ignore}
	d.values("", parsed(before), parsed(after))
	return d.found
}

// canonicalText returns the JSON text of a value without the named members. It is equal for equal
// values.
func canonicalText(value jsonrpc.Raw, without []string) string {
	v := parsed(value)
	drop(v, without)
	out, err := json.Marshal(v, json.Deterministic(true), lenient)
	if err != nil {
		return string(value)
	}
	return string(out)
}

func drop(v any, names []string) {
	switch x := v.(type) {
	case map[string]any:
		for _, name := range names {
			delete(x, name)
		}
		for _, member := range x {
			drop(member, names)
		}
	case []any:
		for _, item := range x {
			drop(item, names)
		}
	}
}
