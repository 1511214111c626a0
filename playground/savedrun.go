package playground

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file runs saved calls: it fills in their variables, sends them, and holds the answers against what they have to be.

type runParams struct {
	Name      string            `json:"name"`
	Target    string            `json:"target,omitzero"`
	Variables map[string]string `json:"variables,omitempty"`
}

type runResult struct {
	sendResult
	Text string `json:"text"`
	heldResult
}

type heldParams struct {
	Ref     string       `json:"ref"` // of the call
	Asserts []assertView `json:"asserts"`
}

type heldResult struct {
	Results []assertResult `json:"results"`
	OK      bool           `json:"ok"`
}

type assertResult struct {
	Assert int         `json:"assert"`
	OK     bool        `json:"ok"`
	Got    jsonrpc.Raw `json:"got,omitzero"`
	Text   string      `json:"text"`
}

// savedRun sends a saved call and holds its answer against what it has to be.
func (p *Playground) savedRun(ctx context.Context, in runParams) (runResult, error) {
	s, _, err := p.findSaved(in.Name)
	if err != nil {
		return runResult{}, err
	}
	variables := make(map[string]string)
	for name, value := range s.Variables {
		if given, ok := in.Variables[name]; ok {
			value = given
		}
		variables[name] = value
	}
	header, err := headerOf(s.Headers)
	if err != nil {
		return runResult{}, err
	}
	for _, values := range header {
		for i := range values {
			values[i] = fillIn(values[i], variables)
		}
	}
	if slices.ContainsFunc(valuesOf(header), func(v string) bool { return strings.ContainsAny(v, "\r\n\x00") }) {
		return runResult{}, badParam("/variables", "a header is one line")
	}
	out := runResult{Text: fillIn(s.Text, variables)}
	out.sendResult, err = p.send(ctx, orDefault(in.Target, s.Target), outgoing{[]byte(out.Text), header, false}, true)
	if err != nil {
		return out, err
	}
	out.heldResult = p.holdAll(s.Saved.Asserts, out.Answer)
	return out, nil
}

func valuesOf(h http.Header) (all []string) {
	for _, values := range h {
		all = append(all, values...)
	}
	return all
}

// variableName is what stands between the braces of a variable.
var variableName = regexp.MustCompile(`\{\{([A-Za-z_][A-Za-z0-9_.-]*)\}\}`)

// fillIn puts the values of variables in the place of {{name}}, as they stand. What has no value stays. A value is not looked into
// again.
func fillIn(text string, variables map[string]string) string {
	return variableName.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := variables[found[2:len(found)-2]]; ok {
			return value
		}
		return found
	})
}

// savedCheck waits for the answer to a call that was sent, and holds it against what it has to be.
func (p *Playground) savedCheck(ctx context.Context, in heldParams) (heldResult, error) {
	ref, err := capture.ParseRef(in.Ref)
	if err != nil {
		return heldResult{}, badParam("/ref", "%q names no message", in.Ref)
	}
	asserts, err := assertsOf(in.Asserts)
	if err != nil {
		return heldResult{}, err
	}
	p.rec.Flush()
	if _, ok := p.rec.Row(ref); !ok {
		return heldResult{}, badParam("/ref", "#%s is not there", in.Ref)
	}
	answer, err := p.await(ctx, ref)
	if err != nil {
		return heldResult{}, err
	}
	return p.holdAll(asserts, answer), nil
}

// holdAll holds the answer in a row against all assertions. No row is no answer, of which nothing but "missing" is true.
func (p *Playground) holdAll(asserts []Assert, ref string) heldResult {
	var answer []byte
	if at, err := capture.ParseRef(ref); err == nil {
		answer, _ = p.rec.Payload(at) // one that is not kept fits no assertion
	}
	out := heldResult{Results: []assertResult{}, OK: true}
	for i, a := range asserts {
		r := a.hold(answer)
		r.Assert = i
		out.Results = append(out.Results, r)
		out.OK = out.OK && r.OK
	}
	return out
}

// maxAsserts bounds the assertions of one call.
const maxAsserts = 200

// checkAsserts reports what is wrong with assertions before they are used.
func checkAsserts(list []Assert) error {
	if len(list) > maxAsserts {
		return badParam("/asserts", "that are %d assertions; a call has up to %d", len(list), maxAsserts)
	}
	for i, a := range list {
		if _, err := readPath(a.Path); err != nil {
			return badParam(fmt.Sprintf("/asserts/%d/path", i), "%v", err)
		}
		if !slices.Contains([]string{"exists", "missing", "equals", "matches", "less", "more"}, a.Is) {
			return badParam(fmt.Sprintf("/asserts/%d/is", i), "%q is none of exists, missing, equals, matches, less, more", a.Is)
		}
	}
	return nil
}

// hold tells whether the assertion is true of an answer.
func (a *Assert) hold(answer []byte) assertResult {
	path, err := readPath(a.Path)
	if err != nil {
		return assertResult{Text: err.Error()}
	}
	got := path.find(jsonrpc.Raw(bytes.TrimSpace(answer)))
	r := assertResult{Got: got}
	switch a.Is {
	case "exists":
		r.OK = got != nil
	case "missing":
		r.OK = got == nil
	case "equals":
		r.OK = got != nil && len(a.Value) > 0 && sameValue(a.Value, got)
	case "matches":
		var pattern, text string
		if a.Value.Decode(&pattern) != nil || len(pattern) > 1000 {
			return assertResult{Got: got, Text: "the pattern is no text"}
		}
		expression, err := regexp.Compile(pattern)
		if err != nil {
			return assertResult{Got: got, Text: "the pattern is no regular expression"}
		}
		if got.Decode(&text) != nil {
			text = string(got)
		}
		r.OK = got != nil && expression.MatchString(text)
	case "less", "more":
		x, ok := number(got)
		y, also := number(a.Value)
		r.OK = ok && also && len(got) > 0 && (x.Cmp(y) < 0) == (a.Is == "less") && x.Cmp(y) != 0
	default:
		return assertResult{Got: got, Text: "is: exists, missing, equals, matches, less or more"}
	}
	r.Text = strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Path, a.Is, a.Value)) + ": "
	switch {
	case r.OK:
		r.Text += "holds"
	case got == nil:
		r.Text += "does not hold; there is nothing"
	default:
		r.Text += "does not hold; it is " + cutLabel(string(got), 200)
	}
	return r
}

// A jsonPath leads into an answer: names and indexes.
type jsonPath []any

var pathStep = regexp.MustCompile(`^(?:\.([A-Za-z0-9_$-]+)|\[(\d{1,9})\]|\["((?:[^"\\]|\\.)*)"\])`)

func readPath(text string) (jsonPath, error) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok {
		return nil, fmt.Errorf("a path begins with $: $.result.name")
	}
	p := jsonPath{}
	for rest != "" {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("%q is no step of a path", rest)
		}
		rest = rest[len(m[0]):]
		switch {
		case m[2] != "":
			n := 0
			for _, c := range m[2] {
				n = n*10 + int(c-'0')
			}
			p = append(p, n)
		case m[1] != "":
			p = append(p, m[1])
		default:
			p = append(p, strings.ReplaceAll(m[3], `\"`, `"`))
		}
	}
	return p, nil
}

func (p jsonPath) find(value jsonrpc.Raw) jsonrpc.Raw {
	for _, step := range p {
		var next jsonrpc.Raw
		switch step := step.(type) {
		case string:
			members(value, func(name string, v jsonrpc.Raw) {
				if name == step {
					next = v
				}
			})
		case int:
			if list := elements(value); step < len(list) {
				next = list[step]
			}
		}
		if value = next; value == nil {
			return nil
		}
	}
	if len(value) == 0 {
		return nil
	}
	return value
}
