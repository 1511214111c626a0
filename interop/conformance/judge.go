package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// judge returns the expected response to any text, directly from the rules: an independent check of
// the server's parser, for texts that are not in a table. The result of the method itself is not
// known here and is "answered".
func judge(text []byte) verdict {
	n, err := read(text)
	switch {
	case len(bytes.Trim(text, " \t\r\n")) == 0:
		return verdict{blank: true}
	case err != nil:
		return verdict{answers: []answer{fault("null", -32700)}}
	case n.kind != '[':
		return verdict{answers: judgeOne(n)}
	case len(n.kids) == 0:
		return verdict{answers: []answer{fault("null", -32600)}}
	}
	v := verdict{batch: true}
	for _, kid := range n.kids {
		v.answers = append(v.answers, judgeOne(kid)...)
	}
	return v
}

// A verdict is a want in which only the id of a method's own response is known.
type verdict struct {
	blank   bool
	batch   bool
	answers []answer
}

// anything is the message of a response that only the method determines.
const anything = "*"

func judgeOne(n *node) []answer {
	if n.kind != '{' {
		return []answer{fault("null", -32600)}
	}
	known := make(map[string]*node) // unknown names too, which must not occur twice either
	twice, idTwice, loneName := false, false, false
	for i, name := range n.names {
		loneName = loneName || isLone(n.spelt[i])
		if known[name] != nil {
			twice = true
			idTwice = idTwice || name == "id"
		}
		known[name] = n.kids[i]
	}
	id, method, params := known["id"], known["method"], known["params"]
	if method == nil && (known["result"] != nil || known["error"] != nil) {
		return nil // a response to no request
	}
	readable := id != nil && !idTwice && !isLone(id.raw) && (id.kind == '"' || id.kind == 0 || id.kind == 'n')
	good := known["jsonrpc"] != nil && known["jsonrpc"].text() == "2.0" && !twice && !loneName && (id == nil || readable) &&
		method != nil && method.kind == '"' && !isLone(method.raw) && known["result"] == nil && known["error"] == nil &&
		(params == nil || strings.IndexByte("{[n", params.kind) >= 0 && params.kind != 0)
	switch {
	case !good && readable:
		return []answer{fault(string(id.raw), -32600)}
	case !good:
		return []answer{fault("null", -32600)}
	case id == nil:
		return nil
	}
	return []answer{{id: string(id.raw), message: anything}}
}

// isLone reports whether a JSON string has an escaped surrogate without its counterpart.
func isLone(raw []byte) bool {
	if len(raw) == 0 || raw[0] != '"' {
		return false
	}
	unit := func(at int) rune {
		if at+6 > len(raw) || raw[at] != '\\' || raw[at+1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(raw[at+2:at+6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		first := unit(i)
		switch {
		case first < 0:
			i++
		case !utf16.IsSurrogate(first):
			i += 5
		case utf16.DecodeRune(first, unit(i+6)) != '\uFFFD':
			i += 11
		default:
			return true
		}
	}
	return false
}

// checkLoosely is check for a response in which the method's own result may be anything.
func (a answer) checkLoosely(message []byte) error {
	n, err := read(message)
	if err != nil {
		return err
	}
	if a.message != anything {
		return a.check(n)
	}
	if err := wellFormed(n); err != nil {
		return err
	}
	if id := n.member("id").raw; string(id) != a.id {
		return fmt.Errorf("the id is %s", short(id))
	}
	if e := n.member("error"); e != nil && (string(e.member("code").raw) == "-32600" || string(e.member("code").raw) == "-32700") {
		return errors.New("a good request was refused")
	}
	return nil
}

// check compares a received message with the verdict.
func (v verdict) check(message []byte) error {
	if !v.batch {
		return v.answers[0].checkLoosely(message)
	}
	n, err := read(message)
	if err != nil {
		return err
	}
	if n.kind != '[' || len(n.kids) != len(v.answers) {
		return fmt.Errorf("not an array of %d", len(v.answers))
	}
	for i, a := range v.answers {
		if err := a.checkLoosely(n.kids[i].raw); err != nil {
			return err
		}
	}
	return nil
}
