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

// A Difference is an answer that is not the one of the recording.
type Difference struct {
	Ref    capture.Ref // of the recorded request
	Method string
	Path   string // where in the answer, such as result.content[0].text; "" for the answer as a whole
	Then   string // JSON text, or what there was instead
	Now    string
}

func (d Difference) String() string {
	return fmt.Sprintf("#%s %s: %s was %s, is %s", d.Ref, d.Method, d.Path, d.Then, d.Now)
}

// CompareOptions tune [Server.Compare].
type CompareOptions struct {
	// Ignore names members that may differ, wherever they stand, such as "timestamp".
	Ignore []string

	// Before is told of each recorded message before it is sent. Nil: nobody is.
	Before func(ref capture.Ref)

	// Each is told of each request that was answered, with what differs. Nil: nobody is.
	Each func(ref capture.Ref, method string, differences []Difference)
}

// Compare sends the recorded requests and notifications to peer, one after the other in their order, and compares the answers. The
// Server is that of the direction that shall be sent, [capture.Out] for a client. It returns an error when peer cannot be asked any more.
func (s *Server) Compare(ctx context.Context, peer jsonrpc.Peer, o *CompareOptions) ([]Difference, error) {
	var opts CompareOptions
	if o != nil {
		opts = *o
	}
	var all []Difference
	for _, c := range s.calls {
		if c.row.Kind != capture.RowNotification && c.answer == nil {
			continue // it had none then
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
		d.add("the answer", string(c.answer.Result), "error "+e.Error())
	case e == nil:
		d.add("the answer", "error "+string(c.answer.Error), string(result))
	default:
		then := map[string]any{}
		_ = json.Unmarshal(c.answer.Error, &then, lenient) // it was read before
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

// maxFound bounds the differences of one answer.
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
