package playground

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

type copyParams struct {
	Log     string `json:"log,omitzero"`
	Ref     string `json:"ref,omitzero"`
	Target  string `json:"target,omitzero"`
	Text    string `json:"text,omitzero"`
	As      string `json:"as"`
	Secrets bool   `json:"secrets,omitzero"`
}

type textResult struct {
	Text string `json:"text"`
}

// apiCopy writes a message as something else: a command line, a program. Secrets are left out unless they are asked for.
func (p *Playground) apiCopy(ctx context.Context, in copyParams) (textResult, error) {
	s := sent{target: in.Target, payload: []byte(in.Text)}
	if in.Ref != "" {
		var err error
		if s, err = p.recall(in.Log, in.Ref); err != nil {
			return textResult{}, err
		}
	}
	p.mu.Lock()
	t := p.targets[s.target]
	var spec Target
	var l *link
	if t != nil {
		spec, l = t.Target, t.link
	}
	p.mu.Unlock()
	if t == nil {
		spec = Target{Name: s.target, Address: s.target}
	}
	m := copied{spec: spec, text: string(s.payload), secrets: in.Secrets}
	if l != nil {
		h := l.headers(ctx, s.payload, s.header)
		for _, name := range slices.Sorted(mapsKeys(h)) {
			if name == "User-Agent" {
				continue
			}
			for _, value := range h[name] {
				if isSecretHeader(name) && !in.Secrets {
					value = "$" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
				}
				m.headers = append(m.headers, [2]string{name, value})
			}
		}
	} else {
		m.headers = [][2]string{{"Content-Type", "application/json"}, {"Accept", "application/json, text/event-stream"}}
	}
	write, ok := map[string]func() string{"raw": m.raw, "curl": m.curl, "parley": m.parley, "go": m.golang, "python": m.python}[in.As]
	if !ok {
		return textResult{}, badParam("/as", "raw, curl, parley, go or python")
	}
	return textResult{write()}, nil
}

// A copied is a message on its way to the clipboard.
type copied struct {
	spec    Target
	text    string
	headers [][2]string
	secrets bool
}

func (m *copied) raw() string { return m.text }

// address is the target as a command line has it.
func (m *copied) address() string {
	if len(m.spec.Command) > 0 {
		if !m.secrets && m.spec.Show != "" {
			return "-- " + m.spec.Show
		}
		words := []string{"--"}
		for _, w := range m.spec.Command {
			words = append(words, shellWord(w))
		}
		return strings.Join(words, " ")
	}
	return shellWord(m.spec.Address)
}

func (m *copied) curl() string {
	t, err := parley.ParseTarget(m.spec.Address)
	if err != nil || t.Scheme != "http" && t.Scheme != "https" {
		return "# curl speaks HTTP; this target is " + m.spec.show() + "\n" + m.parley()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "curl -sS -N %s", shellWord(t.URL()))
	for _, h := range m.headers {
		fmt.Fprintf(&b, " \\\n  -H %s", headerWord(h, m.secrets))
	}
	fmt.Fprintf(&b, " \\\n  --data-binary %s", shellWord(m.text))
	return b.String()
}

// headerWord quotes a header so that a variable in place of a secret is filled in by the shell.
func headerWord(h [2]string, secrets bool) string {
	if !secrets && strings.HasPrefix(h[1], "$") && isSecretHeader(h[0]) {
		return `"` + h[0] + ": " + h[1] + `"`
	}
	return shellWord(h[0] + ": " + h[1])
}

func (m *copied) parley() string {
	method, params, single := "", []string(nil), false
	n := 0
	fault := jsonrpc.Scan([]byte(m.text), func(x *jsonrpc.Message) {
		n++
		if n > 1 || !x.Request || x.Bad != nil || x.ID.IsZero() {
			single = false
			return
		}
		method, params, single = x.Method, paramWords(x.Params), true
	})
	target := m.address()
	if fault != nil || !single || n != 1 || strings.HasPrefix(strings.TrimSpace(m.text), "[") || strings.HasPrefix(method, "-") {
		if behind, ok := strings.CutPrefix(target, "-- "); ok {
			return "printf %s " + shellWord(m.text) + " | parley call --raw -d - -- " + behind
		}
		return "printf %s " + shellWord(m.text) + " | parley call " + target + " --raw -d -"
	}
	words := append([]string{shellWord(method)}, params...)
	if behind, ok := strings.CutPrefix(target, "-- "); ok {
		return "parley call " + strings.Join(words, " ") + " -- " + behind
	}
	return "parley call " + target + " " + strings.Join(words, " ")
}

// paramWords are params as parley call takes them.
func paramWords(params jsonrpc.Raw) []string {
	var words []string
	switch kindOf(params) {
	case "array":
		for _, e := range elements(params) {
			words = append(words, shellWord(string(e)))
		}
	case "object":
		members(params, func(name string, value jsonrpc.Raw) { words = append(words, shellWord(name+":="+string(value))) })
	}
	return words
}

func (m *copied) golang() string {
	method, params := "METHOD", "nil"
	_ = jsonrpc.Scan([]byte(m.text), func(x *jsonrpc.Message) { // what is no message leaves the words above
		if x.Request && x.Bad == nil {
			method = x.Method
			if len(x.Params) > 0 {
				params = "jsonrpc.Raw(" + goText(string(x.Params)) + ")"
			}
		}
	})
	return "client, err := parley.Dial(ctx, " + strconv.Quote(m.spec.Address) + ")\nif err != nil {\n\treturn err\n}\ndefer client.Close()\n\n" +
		"result, err := jsonrpc.Call[jsonrpc.Raw](ctx, client, " + strconv.Quote(method) + ", " + params + ")"
}

// goText is a text as Go source, with as few escapes as possible.
func goText(text string) string {
	if strconv.CanBackquote(text) {
		return "`" + text + "`"
	}
	return strconv.Quote(text)
}

func (m *copied) python() string {
	var b strings.Builder
	fmt.Fprintf(&b, "import urllib.request\n\nbody = %s.encode()\nrequest = urllib.request.Request(%s, body, {", strconv.QuoteToASCII(m.text), strconv.QuoteToASCII(m.spec.Address))
	for i, h := range m.headers {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.QuoteToASCII(h[0]) + ": " + strconv.QuoteToASCII(h[1]))
	}
	b.WriteString("})\nwith urllib.request.urlopen(request) as answer:\n    print(answer.read().decode())")
	return b.String()
}

// shellWord quotes a word for a POSIX shell.
func shellWord(word string) string {
	plain := word != ""
	for _, r := range word {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,", r) {
			plain = false
		}
	}
	if plain && word[0] != '=' {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
