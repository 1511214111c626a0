package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
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
	inputs  map[string]*node // what VS Code asks its user for, by id
}

// tables are the members that hold servers, and what they speak if they do not say.
var tables = []struct{ name, protocol string }{
	{"servers", ""}, {"mcpServers", MCP}, {"context_servers", MCP}, {"mcp", MCP}, {"mcp_servers", MCP}, {"agent_servers", Editor},
}

// schemes are those of addresses that can be reached.
var schemes = []string{"http", "https", "sse+http", "sse+https", "ws", "wss", "tcp", "tls", "unix"}

// known are the members of an entry of parley.yaml.
var known = []string{"url", "command", "args", "env", "envFile", "cwd", "headers", "protocol", "type", "framing", "title", "description", "disabled"}

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
	if list := root.get("inputs"); list != nil {
		r.inputs = make(map[string]*node)
		for _, in := range list.items {
			if id := in.get("id"); id != nil {
				r.inputs[id.text] = in
			}
		}
	}
	found := r.remotes(root)
	for _, t := range tables {
		n := root.get(t.name)
		if n == nil {
			continue
		}
		where := t.name
		if t.name == "mcp" && n.get("servers") != nil { // VS Code's settings.json
			n, where = n.get("servers"), "mcp.servers"
		}
		found = true
		r.table(n, where, t.protocol)
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
	env = append(env, f.forwarded()...)
	env = append(f.envFile(), env...) // what is named in the file itself comes last, and wins
	e.Dir = f.member("cwd").text(false)
	return env
}

// forwarded are the variables of our environment that Codex hands on by name; those that are not set are not missed.
func (f *field) forwarded() (env []string) {
	for _, name := range f.member("env_vars").list() {
		if value, ok := f.r.options.lookup(name); ok && isVariable(name) {
			env = append(env, name+"="+value)
			if isSecret(name) && len(value) >= minSecret {
				f.e.Secrets = append(f.e.Secrets, value)
			}
		}
	}
	return env
}

// envFile reads the variables of a file that VS Code's entries may name: a line each, NAME=VALUE. What it holds is not for showing.
func (f *field) envFile() (env []string) {
	at := f.member("envFile")
	name := at.text(false)
	if name == "" || len(f.e.Missing) > 0 {
		return nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(f.r.dir, name)
	}
	text, err := f.r.options.readFile(name)
	if err != nil {
		at.fail("cannot be read: %v", errors.Unwrap(err))
		return nil
	}
	for line := range strings.Lines(string(text[:min(len(text), maxFile)])) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "export "))
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !ok || strings.HasPrefix(line, "#") || !isVariable(key) || strings.ContainsRune(value, 0) {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		env = append(env, key+"="+value)
		if len(value) >= minSecret {
			f.e.Secrets = append(f.e.Secrets, value)
		}
	}
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
		case "stdio", "http", "streamable-http", "streamable_http", "streamableHttp", "local", "remote", "custom", "ws", "websocket", "":
		default:
			t.fail("%q is no type of a server: stdio, http or sse", kind)
		}
	}
	f.member("headers").pairs(f.header)
	// Codex: texts, names of variables, and the name of the variable that holds the token.
	f.member("http_headers").pairs(f.header)
	f.member("env_http_headers").pairs(func(name, variable string, at *field) { f.header(name, at.variable(variable, true), at) })
	if token := f.member("bearer_token_env_var"); token != nil {
		f.header("Authorization", "Bearer "+token.variable(token.text(false), true), token)
	}
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
	case !slices.Contains(schemes, t.Scheme) && len(t.Argv) == 0 && t.Scheme != "exec" && t.Scheme != "stdio":
		at.fail("begins with %q; it can be %s", t.Scheme+":", strings.Join(schemes, ", "))
	case t.Scheme == "exec" || t.Scheme == "stdio" || len(t.Argv) > 0:
		at.fail("leads to a program; that is command and args")
	}
}

// header adds a header to an entry.
func (f *field) header(name, value string, at *field) {
	if !isHeaderName(name) || strings.ContainsAny(value, "\r\n\x00") {
		at.fail("is no header")
		return
	}
	if f.e.Header == nil {
		f.e.Header = make(http.Header)
	}
	f.e.Header.Set(name, value)
}

// remotes reads a server.json of the MCP registry: addresses are entries. A package says how it is installed, not what is to be
// typed, so it is told and not guessed.
func (r *reader) remotes(root *node) bool {
	name, list, packages := root.get("name"), root.get("remotes"), root.get("packages")
	if name == nil || list == nil && packages == nil {
		return false
	}
	short := name.text[strings.LastIndexByte(name.text, '/')+1:]
	if list != nil {
		for i, n := range list.items {
			e := Entry{Name: short, Protocol: MCP, Line: n.line, Column: n.column}
			if i > 0 {
				e.Name = fmt.Sprintf("%s-%d", short, i+1)
			}
			if h := n.get("headers"); h != nil && h.kind == isList { // {"name", "value"} each
				n = &node{kind: isMap, line: n.line, column: n.column, members: append(slices.Clone(n.members), member{name: "headers", value: headersOf(h)})}
				n.members = slices.DeleteFunc(n.members, func(m member) bool { return m.name == "headers" && m.value == h })
			}
			r.entry(&e, n, fmt.Sprintf("remotes[%d]", i))
			r.file.Entries = append(r.file.Entries, e)
			if len(r.file.Entries) >= maxEntries {
				break
			}
		}
	}
	if packages != nil && len(r.file.Entries) == 0 {
		r.problem(packages.line, packages.column, "packages", "say how %s is installed; write down its command and args", short)
	}
	return true
}

// headersOf is a list of headers as a mapping; those that the user is to fill in have no value.
func headersOf(list *node) *node {
	out := &node{kind: isMap, line: list.line, column: list.column}
	for _, h := range list.items {
		if name, value := h.get("name"), h.get("value"); name != nil && value != nil {
			out.members = append(out.members, member{name: name.text, line: h.line, column: h.column, value: value})
		}
	}
	return out
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
