package playground

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file changes the files of saved calls as a person would: what is not touched stays as it is written, with its comments,
// its order and the members that are not ours.

// savedMembers are the members of a file that are ours.
var savedMembers = []string{"name", "target", "text", "headers", "variables", "asserts", "updated"}

// maxSavedDepth bounds the nesting of a file: the parser of JSON with comments knows no bound of its own.
const maxSavedDepth = 100

// parseSaved reads a file: JSON, with comments and commas at the end if somebody likes those.
func parseSaved(text []byte) (hujson.Value, error) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case rest[0] == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(rest, []byte("//")):
			i += skipTo(rest, "\n")
		case bytes.HasPrefix(rest, []byte("/*")):
			i += skipTo(rest, "*/")
		case rest[0] == '{' || rest[0] == '[':
			depth++
		case rest[0] == '}' || rest[0] == ']':
			depth--
		}
		if depth > maxSavedDepth {
			return hujson.Value{}, fmt.Errorf("it is nested more than %d deep", maxSavedDepth)
		}
	}
	return hujson.Parse(text)
}

// skipTo is how far it is to the end of a comment.
func skipTo(text []byte, end string) int {
	if i := bytes.Index(text[2:], []byte(end)); i >= 0 {
		return 1 + i + len(end)
	}
	return len(text)
}

// mergeSaved is the text of a file after a call was saved in it; before is empty for a new one.
func mergeSaved(before []byte, s Saved) ([]byte, error) {
	own, err := json.Marshal(&s, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	if len(before) == 0 {
		return append(layOut(nil, own, "", "  "), '\n'), nil
	}
	file, err := parseSaved(before)
	if err != nil {
		return nil, err
	}
	object, ok := file.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("the file holds no object")
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

// gapOf is the white space in front of a member: the line break and the blanks, without a comment that ends the line before.
func gapOf(extra hujson.Extra) hujson.Extra {
	i := bytes.LastIndexByte(extra, '\n')
	if i < 0 || len(bytes.TrimSpace(extra[i:])) > 0 {
		return hujson.Extra(" ")
	}
	return slices.Clone(extra[i:])
}

// A layout is how a file is written.
type layout struct {
	gap  hujson.Extra // before a member
	unit string       // by which a line is indented; "" if all is one line
}

// merge puts the members of own into an object of a file. at is the member in which it is: "" for the file itself, whose other
// members are somebody else's.
func (l *layout) merge(object *hujson.Object, own jsonrpc.Raw, at string) (err error) {
	ours := make(map[string]jsonrpc.Raw)
	var names []string
	members(own, func(name string, value jsonrpc.Raw) {
		ours[name] = value
		names = append(names, name)
	})
	kept := object.Members[:0]
	for _, m := range object.Members {
		name := m.Name.Value.(hujson.Literal).String()
		now := plainJSON(m.Value)
		mine, set := ours[name]
		delete(ours, name)
		switch {
		case !set && at == "" && (!slices.Contains(savedMembers, name) || len(now) <= 2): // not ours, or as empty as ours
		case !set:
			continue
		case sameValue(mine, now), at == "variables" && variableText(mine) == variableText(now):
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

// change gives a member another value. Of lists and of variables it changes what is another, and leaves the rest as it is written.
func (l *layout) change(v *hujson.Value, name string, mine jsonrpc.Raw) (err error) {
	switch was := v.Value.(type) {
	case *hujson.Object:
		if name == "variables" {
			deeper := layout{unit: l.unit, gap: hujson.Extra(" ")}
			if n := len(was.Members); n > 0 {
				deeper.gap = gapOf(was.Members[n-1].Name.BeforeExtra)
			} else if l.unit != "" {
				break // written anew
			}
			return deeper.merge(was, mine, name)
		}
	case *hujson.Array:
		elementsNow := elements(mine)
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
				fresh.BeforeExtra = was.Elements[at].BeforeExtra // it takes a place, with what stands before that
			}
			if fresh.Value, err = l.fresh(e); err != nil {
				return err
			}
			next = append(next, fresh)
		}
		if n := len(next); n > 0 && next[n-1].AfterExtra == nil {
			next[n-1].AfterExtra = slices.Clone(was.Elements[len(was.Elements)-1].AfterExtra) // a comma at the end stays
		}
		was.Elements = next
		return nil
	}
	v.Value, err = l.fresh(mine)
	return err
}

// sameElement compares an element of ours with one of a file, which may say more.
func sameElement(name string, mine, now jsonrpc.Raw) bool {
	switch name {
	case "asserts":
		var a, b Assert
		return decodeLoosely(mine, &a) == nil && decodeLoosely(now, &b) == nil && a.Path == b.Path && a.Is == b.Is && (len(a.Value) == 0) == (len(b.Value) == 0) && (len(a.Value) == 0 || sameValue(a.Value, b.Value))
	case "headers":
		var a, b headerField
		return decodeLoosely(mine, &a) == nil && decodeLoosely(now, &b) == nil && a.Name == b.Name && (a.Value == nil) == (b.Value == nil) && (a.Value == nil || *a.Value == *b.Value)
	}
	return sameValue(mine, now)
}

// fresh lays out a value that is new.
func (l *layout) fresh(value jsonrpc.Raw) (hujson.ValueTrimmed, error) {
	v, err := hujson.Parse(layOut(nil, value, l.unit, l.unit))
	return v.Value, err
}

// plainJSON is a value without its comments.
func plainJSON(v hujson.Value) jsonrpc.Raw {
	v = v.Clone()
	v.Standardize()
	v.Minimize()
	return jsonrpc.Raw(bytes.TrimSpace(v.Pack()))
}

// variableText is the value of a variable: a text, or what else somebody wrote, as it stands.
func variableText(value jsonrpc.Raw) (text string) {
	if kindOf(value) != "string" || value.Decode(&text) != nil {
		return string(value)
	}
	return text
}

// lineWidth is how long a value may be that stays on one line of a file.
const lineWidth = 100

// layOut appends a value as people write it: what is short on one line, what is longer with a line for each member. indent is that of
// the line it begins on; with unit "" all is one line.
func layOut(dst []byte, value jsonrpc.Raw, indent, unit string) []byte {
	flat := jsontext.Value(bytes.Clone(value))
	if flat.Format(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true), jsontext.PreserveRawStrings(true)) != nil {
		flat = jsontext.Value(value)
	}
	kind := kindOf(value)
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
		members(value, item)
	} else {
		for _, v := range elements(value) {
			item("", v)
		}
	}
	dst = append(append(dst, '\n'), indent...)
	return append(dst, end...)
}
