package config

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A reader makes entries of nodes.
type reader struct {
	file    *File
	options *Options
	own     bool // it is parley.yaml, whose every member is ours
	dir     string
}

// tables are the members that hold servers, and what they speak if they do not say.
var tables = []struct{ name, protocol string }{
	{"servers", ""}, {"mcpServers", MCP}, {"context_servers", MCP}, {"mcp", MCP}, {"agent_servers", Editor},
}

// known are the members of an entry of parley.yaml.
var known = []string{"url", "command", "args", "env", "cwd", "headers", "protocol", "type", "framing", "title", "description", "disabled"}

func (r *reader) problem(line, column int, path, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	r.file.Problems = append(r.file.Problems, Problem{line, column, path, text})
	return text
}

// read finds the tables of servers.
func (r *reader) read(root *node) {
	if root == nil || root.kind == isNull {
		r.problem(0, 0, "", "it is empty")
		return
	}
	if root.kind != isMap {
		r.problem(root.line, root.column, "", "a configuration is a mapping with servers in it")
		return
	}
	found := false
	for _, t := range tables {
		n := root.get(t.name)
		if n == nil {
			continue
		}
		if t.name == "mcp" && n.get("servers") != nil { // VS Code's settings.json
			n = n.get("servers")
		}
		found = true
		r.table(n, t.name, t.protocol)
	}
	if r.own {
		for _, m := range root.members {
			if !slices.ContainsFunc(tables, func(t struct{ name, protocol string }) bool { return t.name == m.name }) && m.name != "$schema" {
				r.problem(m.line, m.column, m.name, "is not known here")
			}
		}
	}
	if !found {
		r.problem(root.line, root.column, "", "there are no servers in it: neither servers nor mcpServers")
	}
}

func (r *reader) table(n *node, path, protocol string) {
	if n.kind == isNull {
		return
	}
	if n.kind != isMap {
		r.problem(n.line, n.column, path, "is %s; a mapping of names to servers is wanted", kindNames[n.kind])
		return
	}
	for _, m := range n.members {
		where := path + "." + m.name
		switch {
		case len(r.file.Entries) >= maxEntries:
			r.problem(m.line, m.column, where, "there are more than %d servers", maxEntries)
			return
		case m.value.kind != isMap:
			r.problem(m.value.line, m.value.column, where, "is %s; a mapping is wanted", kindNames[m.value.kind])
			continue
		case m.name == "" || strings.ContainsAny(m.name, "\x00\n\r"):
			r.problem(m.line, m.column, where, "is no name")
			continue
		}
		if _, twice := r.file.Find(m.name); twice {
			r.problem(m.line, m.column, where, "there is a server of this name already")
			continue
		}
		e := Entry{Name: m.name, Protocol: protocol, Line: m.line, Column: m.column}
		r.entry(&e, m.value, where)
		r.file.Entries = append(r.file.Entries, e)
	}
}

// A field is a value on its way into an entry.
type field struct {
	r    *reader
	e    *Entry
	n    *node
	path string
}

// fail notes a problem of an entry, which cannot be used then.
func (f *field) fail(format string, args ...any) {
	text := f.r.problem(f.n.line, f.n.column, f.path, format, args...)
	if f.e.Problem == "" {
		f.e.Problem = strings.TrimPrefix(f.path[strings.LastIndexByte(f.path, '.')+1:]+": "+text, ": ")
	}
}

func (f *field) member(name string) *field {
	n := f.n.get(name)
	if n == nil || n.kind == isNull {
		return nil
	}
	return &field{f.r, f.e, n, f.path + "." + name}
}

// text is a scalar with its variables filled in; secret says that what it holds is not for showing.
func (f *field) text(secret bool) string {
	if f == nil {
		return ""
	}
	switch f.n.kind {
	case isText, isNumber, isBool:
		return f.expand(f.n.text, secret)
	}
	f.fail("is %s; a text is wanted", kindNames[f.n.kind])
	return ""
}

func (f *field) list() []string {
	if f == nil {
		return nil
	}
	if f.n.kind != isList {
		f.fail("is %s; a list is wanted", kindNames[f.n.kind])
		return nil
	}
	list := []string{}
	for i, item := range f.n.items {
		list = append(list, (&field{f.r, f.e, item, fmt.Sprintf("%s[%d]", f.path, i)}).text(false))
	}
	return list
}

// pairs calls add for each member of a mapping of texts.
func (f *field) pairs(add func(name, value string, at *field)) {
	if f == nil {
		return
	}
	if f.n.kind != isMap {
		f.fail("is %s; a mapping of names to texts is wanted", kindNames[f.n.kind])
		return
	}
	for _, m := range f.n.members {
		at := &field{f.r, f.e, m.value, f.path + "." + m.name}
		add(m.name, at.text(isSecret(m.name)), at)
	}
}

// entry reads one server.
func (r *reader) entry(e *Entry, n *node, path string) {
	f := &field{r, e, n, path}
	if r.own {
		for _, m := range n.members {
			if !slices.Contains(known, m.name) {
				r.problem(m.line, m.column, path+"."+m.name, "is not known here")
			}
		}
	}
	e.Title, e.About = f.member("title").text(false), f.member("description").text(false)
	if p := f.member("protocol"); p != nil {
		e.Protocol = p.text(false)
		if !slices.Contains([]string{JSONRPC, MCP, ACP, A2A, Editor, LSP}, e.Protocol) {
			p.fail("is none of jsonrpc, mcp, acp, a2a, editor and lsp")
		}
	}
	if d := n.get("disabled"); d != nil {
		e.Disabled = d.text == "true"
	}
	if d := n.get("enabled"); d != nil { // opencode
		e.Disabled = d.text == "false"
	}
	if h := f.member("framing"); h != nil {
		switch h.text(false) {
		case "line":
		case "header":
			e.Framing = stream.Header
		default:
			h.fail("is neither line nor header")
		}
	}
	env := f.program(e)
	f.address(e)
	switch {
	case len(e.Command) > 0 && e.Address != "":
		f.fail("has a command and a url; it can be one of both")
	case len(e.Command) == 0 && e.Address == "" && e.Problem == "":
		f.fail("has neither command nor url")
	}
	if e.Protocol == "" {
		e.Protocol = f.usual(e)
	}
	r.finish(e, env)
}

// program reads what is to be started, and returns the named variables of its environment.
func (f *field) program(e *Entry) (env []string) {
	c := f.member("command")
	if c == nil {
		return nil
	}
	switch c.n.kind {
	case isList: // opencode
		e.Command = c.list()
	case isMap: // older Zed: {"path", "args", "env"}
		e.Command = append([]string{c.member("path").text(false)}, c.member("args").list()...)
		c.member("env").pairs(func(name, value string, _ *field) { env = append(env, name+"="+value) })
	default:
		e.Command = []string{c.text(false)}
	}
	if len(e.Command) == 0 || e.Command[0] == "" {
		if len(e.Missing) == 0 {
			c.fail("is empty")
		}
		e.Command = []string{"?"}
	}
	e.Command = append(e.Command, f.member("args").list()...)
	for i, word := range e.Command[1:] { // --api-key=… and --token …
		name, value, inline := strings.Cut(word, "=")
		switch {
		case inline && isSecret(strings.TrimLeft(name, "-")) && len(value) >= minSecret:
			e.Secrets = append(e.Secrets, value)
		case strings.HasPrefix(word, "-") && isSecret(strings.TrimLeft(word, "-")) && i+2 < len(e.Command) && len(e.Command[i+2]) >= minSecret:
			e.Secrets = append(e.Secrets, e.Command[i+2])
		}
	}
	for _, name := range []string{"env", "environment"} {
		f.member(name).pairs(func(name, value string, at *field) {
			if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
				at.fail("is no name of a variable")
				return
			}
			env = append(env, name+"="+value)
		})
	}
	e.Dir = f.member("cwd").text(false)
	return env
}

// address reads where a server is.
func (f *field) address(e *Entry) {
	at, older := f.member("url"), false
	if h := f.member("httpUrl"); h != nil { // Gemini's CLI, where url is the older transport
		at = h
	} else if f.member("serverUrl") != nil { // Windsurf
		at = f.member("serverUrl")
	}
	if at != nil {
		e.Address = at.text(false)
	}
	if t := f.member("type"); t != nil {
		switch kind := t.text(false); kind {
		case "sse":
			older = true
		case "stdio", "http", "streamable-http", "streamableHttp", "local", "remote", "custom", "ws", "websocket", "":
		default:
			t.fail("%q is no type of a server: stdio, http or sse", kind)
		}
	}
	f.member("headers").pairs(func(name, value string, at *field) {
		if !isHeaderName(name) || strings.ContainsAny(value, "\r\n\x00") {
			at.fail("is no header")
			return
		}
		if e.Header == nil {
			e.Header = make(http.Header)
		}
		e.Header.Set(name, value)
	})
	if e.Address == "" || at == nil {
		return
	}
	if older && strings.HasPrefix(e.Address, "http") {
		e.Address = "sse+" + e.Address
	}
	if u, err := url.Parse(e.Address); err == nil {
		if password, ok := u.User.Password(); ok {
			e.Secrets = append(e.Secrets, password)
		}
		for name, values := range u.Query() {
			if isSecret(name) {
				e.Secrets = append(e.Secrets, values...)
			}
		}
	}
	if len(e.Missing) > 0 {
		return // it is not complete
	}
	t, err := parley.ParseTarget(e.Address)
	switch {
	case err != nil:
		at.fail("is no address that can be reached")
	case t.Scheme == "exec" || t.Scheme == "stdio" || len(t.Argv) > 0:
		at.fail("leads to a program; that is command and args")
	}
}

// usual is what a server speaks that does not say.
func (f *field) usual(e *Entry) string {
	switch {
	case e.Framing == stream.Header:
		return LSP
	case e.Address == "", strings.HasPrefix(e.Address, "http"), strings.HasPrefix(e.Address, "sse+"):
		return MCP
	}
	return JSONRPC
}

func isHeaderName(text string) bool {
	for i := range len(text) {
		c := text[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return text != ""
}

// isSecret reports whether what has this name is not for showing.
func isSecret(name string) bool {
	name = strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
	for _, key := range capture.DefaultKeys {
		tail, any := strings.CutPrefix(key, "*")
		if any && strings.HasSuffix(name, tail) || name == key {
			return true
		}
	}
	return strings.HasSuffix(name, "token") || strings.HasSuffix(name, "key")
}
