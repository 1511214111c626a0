package playground

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
	"github.com/da1ed7bb/parley/playground/suite"
)

// This file edits the files of saved calls as a person would: parts that do not change are
// preserved as written, including comments, order and unknown members.

// savedMembers are the members that this package writes, and those that text replaces.
var savedMembers = []string{"name", "target", "text", "method", "params", "notify", "headers", "variables", "asserts", "updated"}

// mergeSaved returns the text of a file after a call is saved in it. before is empty for a new
// file.
func mergeSaved(before []byte, s Saved) ([]byte, error) {
	own, err := json.Marshal(&s, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	if len(before) == 0 {
		return append(layOut(nil, own, "", "  "), '\n'), nil
	}
	file, err := suite.ParseJSON(before)
	if err != nil {
		return nil, err
	}
	object, ok := file.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("the file does not contain an object")
	}
	l := layout{gap: hujson.Extra("\n  "), unit: "  "}
	if n := len(object.Members); n > 0 {
		if l.gap = gapOf(object.Members[n-1].Name.BeforeExtra); l.gap[0] != '\n' {
			l.unit = ""
		} else {
			l.unit = string(l.gap[1:])
		}
	}
	if err := l.merge(object, own, ""); err != nil {
		return nil, err
	}
	return file.Pack(), nil
}

// gapOf returns the white space before a member: the line break and the indentation, without a
// comment at the end of the previous line.
func gapOf(extra hujson.Extra) hujson.Extra {
	i := bytes.LastIndexByte(extra, '\n')
	if i < 0 || len(bytes.TrimSpace(extra[i:])) > 0 {
		return hujson.Extra(" ")
	}
	return slices.Clone(extra[i:])
}

// A layout describes how a file is formatted.
type layout struct {
	gap  hujson.Extra // before a member
	unit string       // indentation of one level; "" if everything is on one line
}

// merge puts the members of own into an object of a file. at is the name of the member that
// contains the object, or "" for the file itself, whose unknown members are preserved.
func (l *layout) merge(object *hujson.Object, own jsonrpc.Raw, at string) (err error) {
	ours := make(map[string]jsonrpc.Raw)
	var names []string
	for name, value := range own.Members() {
		ours[string(name)] = value
		names = append(names, string(name))
	}
	kept := object.Members[:0]
	for _, m := range object.Members {
		name := m.Name.Value.(hujson.Literal).String()
		now := plainJSON(m.Value)
		mine, set := ours[name]
		delete(ours, name)
		switch {
		case !set && at == "" && (!slices.Contains(savedMembers, name) || len(now) <= 2): // unknown, or empty
		case !set:
			continue
		case schemaview.SameValue(mine, now), at == "variables" && suite.ValueOf(mine).Text == suite.ValueOf(now).Text:
		default:
			if err := l.change(&m.Value, name, mine); err != nil {
				return err
			}
		}
		kept = append(kept, m)
	}
	for _, name := range names {
		if value, left := ours[name]; left && string(value) != `""` {
			v := hujson.Value{BeforeExtra: hujson.Extra(" ")}
			if v.Value, err = l.fresh(value); err != nil {
				return err
			}
			kept = append(kept, hujson.ObjectMember{Name: hujson.Value{BeforeExtra: slices.Clone(l.gap), Value: hujson.String(name)}, Value: v})
		}
	}
	object.Members = kept
	return nil
}

// change gives a member another value. In lists and variables it changes only what differs, and
// preserves the rest as written.
func (l *layout) change(v *hujson.Value, name string, mine jsonrpc.Raw) (err error) {
	switch was := v.Value.(type) {
	case *hujson.Object:
		if name == "variables" {
			deeper := layout{unit: l.unit, gap: hujson.Extra(" ")}
			if n := len(was.Members); n > 0 {
				deeper.gap = gapOf(was.Members[n-1].Name.BeforeExtra)
			} else if l.unit != "" {
				break // written from scratch
			}
			return deeper.merge(was, mine, name)
		}
	case *hujson.Array:
		elementsNow := slices.Collect(mine.Elements())
		if len(was.Elements) == 0 {
			break
		}
		next := make([]hujson.Value, 0, len(elementsNow))
		for at, e := range elementsNow {
			i := slices.IndexFunc(was.Elements, func(x hujson.Value) bool { return sameElement(name, e, plainJSON(x)) })
			if i >= 0 {
				next = append(next, was.Elements[i])
				continue
			}
			fresh := hujson.Value{BeforeExtra: gapOf(was.Elements[len(was.Elements)-1].BeforeExtra)}
			if at < len(was.Elements) && len(elementsNow) == len(was.Elements) {
				// The new element replaces another and takes over the comment before it.
				fresh.BeforeExtra = was.Elements[at].BeforeExtra
			}
			if fresh.Value, err = l.fresh(e); err != nil {
				return err
			}
			next = append(next, fresh)
		}
		if n := len(next); n > 0 && next[n-1].AfterExtra == nil {
			// This preserves a trailing comma.
			next[n-1].AfterExtra = slices.Clone(was.Elements[len(was.Elements)-1].AfterExtra)
		}
		was.Elements = next
		return nil
	}
	v.Value, err = l.fresh(mine)
	return err
}

// sameElement compares an element of ours with one of a file, which may have additional members.
func sameElement(name string, mine, now jsonrpc.Raw) bool {
	switch name {
	case "asserts":
		var a, b Assert
		return decodeLoosely(mine, &a) == nil && decodeLoosely(now, &b) == nil && a.Path == b.Path && a.Is == b.Is && (len(a.Value) == 0) == (len(b.Value) == 0) && (len(a.Value) == 0 || schemaview.SameValue(a.Value, b.Value))
	case "headers":
		var a, b headerField
		return decodeLoosely(mine, &a) == nil && decodeLoosely(now, &b) == nil && a.Name == b.Name && (a.Value == nil) == (b.Value == nil) && (a.Value == nil || *a.Value == *b.Value)
	}
	return schemaview.SameValue(mine, now)
}

// fresh formats a new value.
func (l *layout) fresh(value jsonrpc.Raw) (hujson.ValueTrimmed, error) {
	v, err := hujson.Parse(layOut(nil, value, l.unit, l.unit))
	return v.Value, err
}

// plainJSON returns a value without its comments.
func plainJSON(v hujson.Value) jsonrpc.Raw {
	v = v.Clone()
	v.Standardize()
	v.Minimize()
	return jsonrpc.Raw(bytes.TrimSpace(v.Pack()))
}

// lineWidth is the maximum length of a value that is written on one line of a file.
const lineWidth = 100

// layOut appends a value in readable form: a short value on one line, a longer one with a line for
// each member. indent is the indentation of the line where it starts. If unit is "", everything is
// on one line.
func layOut(dst []byte, value jsonrpc.Raw, indent, unit string) []byte {
	flat := jsontext.Value(bytes.Clone(value))
	if flat.Format(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true), jsontext.PreserveRawStrings(true)) != nil {
		flat = jsontext.Value(value)
	}
	kind := schemaview.KindOf(value)
	if kind != "object" && kind != "array" || unit == "" || len(flat) <= 2 || indent != "" && len(indent)+len(flat) <= lineWidth {
		return append(dst, flat...)
	}
	open, end := "{", "}"
	if kind == "array" {
		open, end = "[", "]"
	}
	dst = append(dst, open...)
	deeper := indent + unit
	n := 0
	item := func(name string, v jsonrpc.Raw) {
		if n > 0 {
			dst = append(dst, ',')
		}
		n++
		dst = append(append(dst, '\n'), deeper...)
		if kind == "object" {
			dst = append(append(dst, raw(name)...), ": "...)
		}
		dst = layOut(dst, v, deeper, unit)
	}
	if kind == "object" {
		for name, v := range value.Members() {
			item(string(name), v)
		}
	} else {
		for v := range value.Elements() {
			item("", v)
		}
	}
	dst = append(append(dst, '\n'), indent...)
	return append(dst, end...)
}
