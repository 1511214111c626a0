package otelrpc

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// metaName is the top-level member of params that holds data about a request which is not part of
// it.
const metaName = "_meta"

// lax accepts what handlers will check later: here only names and positions matter.
var lax = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// An object stores the positions of its members, so that members can be removed and added while all
// other bytes remain.
type object struct {
	text    []byte
	members []member
	end     int // offset of the closing brace
}

// A member starts with its name and ends with its value.
type member struct {
	name            string
	start, from, to int // offsets of the name, of the value and after the value
}

// parseObject returns false if text is not an object.
func parseObject(text []byte) (object, bool) {
	o := object{text: text}
	d := jsontext.NewDecoder(bytes.NewReader(text), lax...)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return o, false
	}
	for d.PeekKind() == '"' {
		quoted, err := d.ReadValue()
		if err != nil {
			return o, false
		}
		m := member{start: int(d.InputOffset()) - len(quoted)}
		name, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil {
			return o, false
		}
		m.name = string(name)
		value, err := d.ReadValue()
		if err != nil {
			return o, false
		}
		m.to = int(d.InputOffset())
		m.from = m.to - len(value)
		o.members = append(o.members, m)
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
		return o, false
	}
	o.end = int(d.InputOffset()) - 1
	return o, true
}

// only returns the member with that name if there is exactly one. With duplicates it is unclear
// which one counts.
func (o object) only(name string) (member, bool) {
	var found member
	n := 0
	for _, m := range o.members {
		if m.name == name {
			found = m
			n++
		}
	}
	return found, n == 1
}

// without returns the text without some members and their commas.
func (o object) without(drop func(member) bool) []byte {
	if len(o.members) == 0 {
		return o.text
	}
	out := slices.Clone(o.text[:o.members[0].start])
	first := true
	for i, m := range o.members {
		if drop(m) {
			continue
		}
		if !first {
			out = append(out, o.text[o.members[i-1].to:m.start]...)
		}
		first = false
		out = append(out, o.text[m.start:m.to]...)
	}
	return append(out, o.text[o.members[len(o.members)-1].to:]...)
}

// with returns the text with more members at its end.
func (o object) with(more []byte) []byte {
	at := o.end
	if n := len(o.members); n > 0 {
		at = o.members[n-1].to
		more = append([]byte{','}, more...)
	}
	return slices.Concat(o.text[:at], more, o.text[at:])
}

// takeMeta reads the members named in fields that are strings in _meta, and returns params without
// them. It returns false if no such member exists.
func takeMeta(params jsonrpc.Raw, fields []string) (propagation.MapCarrier, jsonrpc.Raw, bool) {
	if !bytes.Contains(params, []byte(metaName)) && !bytes.Contains(params, []byte(`\u`)) {
		return nil, params, false // not even escaped: most params are not parsed here
	}
	outer, ok := parseObject(params)
	if !ok {
		return nil, params, false
	}
	meta, ok := outer.only(metaName)
	if !ok {
		return nil, params, false
	}
	inner, ok := parseObject(params[meta.from:meta.to])
	if !ok {
		return nil, params, false
	}
	carrier := make(propagation.MapCarrier)
	for _, name := range fields {
		m, ok := inner.only(name)
		if !ok {
			continue
		}
		if value, err := jsontext.AppendUnquote(nil, inner.text[m.from:m.to]); err == nil {
			carrier[name] = string(value)
		}
	}
	if len(carrier) == 0 {
		return nil, params, false
	}
	if len(carrier) == len(inner.members) {
		return carrier, outer.without(func(m member) bool { return m.name == metaName }), true
	}
	rest := inner.without(func(m member) bool { _, taken := carrier[m.name]; return taken })
	return carrier, slices.Concat(params[:meta.from], rest, params[meta.to:]), true
}

// giveMeta writes carrier to the _meta of params, replacing the members named in fields. It returns
// params unchanged if params or its _meta is not an object.
func giveMeta(params jsonrpc.Raw, carrier propagation.MapCarrier, fields []string) jsonrpc.Raw {
	outer, ok := parseObject(params)
	if !ok || len(carrier) == 0 {
		return params
	}
	var more []byte
	for _, name := range slices.Sorted(maps.Keys(carrier)) {
		if more != nil {
			more = append(more, ',')
		}
		more, _ = jsontext.AppendQuote(more, name) // invalid UTF-8 is replaced
		more = append(more, ':')
		more, _ = jsontext.AppendQuote(more, carrier[name])
	}
	meta, ok := outer.only(metaName)
	if !ok {
		if slices.ContainsFunc(outer.members, func(m member) bool { return m.name == metaName }) {
			return params
		}
		return outer.with(slices.Concat([]byte(`"`+metaName+`":{`), more, []byte("}")))
	}
	inner, ok := parseObject(params[meta.from:meta.to])
	if !ok {
		return params
	}
	cleared := inner.without(func(m member) bool {
		_, ours := carrier[m.name]
		return ours || slices.Contains(fields, m.name)
	})
	inner, ok = parseObject(cleared)
	if !ok {
		return params
	}
	return slices.Concat(params[:meta.from], inner.with(more), params[meta.to:])
}

// send adds the trace of ctx to params. Params that cannot be encoded are unchanged: the call
// itself will return the error.
func (ob *observer) send(ctx context.Context, params any) any {
	carrier := make(propagation.MapCarrier)
	ob.Propagator.Inject(ctx, carrier)
	if len(carrier) == 0 || params == nil {
		return params
	}
	raw, ok := params.(jsonrpc.Raw)
	if !ok {
		// Uses the codec of the engine.
		text, err := jsonrpc.AppendNotification(nil, jsonrpc.Version2, "m", params)
		if err != nil {
			return params
		}
		if bad := jsonrpc.Scan(text, func(m *jsonrpc.Message) { raw = m.Params }); bad != nil {
			return params
		}
	}
	if len(raw) == 0 {
		return params
	}
	return giveMeta(raw, carrier, ob.Propagator.Fields())
}
