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
	"github.com/da1ed7bb/parley/internal/x/httptoken"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A reader converts nodes to entries.
type reader struct {
	file    *File
	options *Options
	own     bool // the file is parley.yaml, whose members must all be known
	dir     string
	hidden  map[string]bool  // names of the project's servers, which hide others of the file
	inputs  map[string]*node // the values that VS Code requests from its user, by ID
	found   int              // number of problems, also of those that are not recorded

	// For the gateway.
	scratch        Entry // collects what belongs to no server
	upstreams      Upstream
	sources        map[string]source // by the name in the file
	broken         map[string]bool   // names of servers that are not entries because of a problem
	byName         map[string]*destination
	destinations   []*destination // in the order of the file
	hasIdentity    bool           // the file has gateway.identity
	brokenIdentity bool           // it has a problem
	hasTLS         bool
}

// maxProblems is the maximum number of problems that are recorded.
const maxProblems = 100

// tables lists the members that contain servers, and the default protocol of each.
var tables = []struct{ name, protocol string }{
	{"servers", ""}, {"mcpServers", MCP}, {"context_servers", MCP}, {"mcp", MCP}, {"mcp_servers", MCP}, {"agent_servers", Editor},
}

// schemes lists the supported address schemes.
var schemes = []string{"http", "https", "sse+http", "sse+https", "ws", "wss", "tcp", "tls", "unix"}

// known lists the members of an entry of parley.yaml.
var known = append([]string{"url", "command", "args", "env", "envFile", "cwd", "headers", "protocol", "type", "framing", "title", "description", "disabled"}, upstreamMembers...)

func (r *reader) problem(line, column int, path, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	r.record(Problem{Line: line, Column: column, Path: path, Text: text})
	return text
}

// record records a problem.
func (r *reader) record(p Problem) {
	r.found++
	if len(r.file.Problems) < maxProblems {
		r.file.Problems = append(r.file.Problems, p)
	}
}

// read finds the tables of servers.
func (r *reader) read(root *node) {
	if root == nil || root.kind == isNull {
		r.problem(0, 0, "", "it is empty")
		return
	}
	if root.kind != isMap {
		r.problem(root.line, root.column, "", "a configuration must be a mapping that contains servers")
		return
	}
	list := root.get("inputs")
	if settings := root.get("mcp"); list == nil && settings != nil { // VS Code's settings.json
		list = settings.get("inputs")
	}
	if list != nil {
		r.inputs = make(map[string]*node)
		for _, in := range list.items {
			if id := in.get("id"); id != nil {
				r.inputs[id.text] = in
			}
		}
	}
	gateway := member{}
	for _, m := range root.members {
		if m.name == "gateway" {
			gateway = m
		}
	}
	if gateway.value != nil && (root.get("servers") != nil || root.get("mcpServers") != nil || root.get("mcp_servers") != nil) {
		r.own = true // other programs have a member gateway too, but not beside these
	}
	if !r.own {
		gateway = member{}
	}
	r.upstreamDefaults(gateway.value)
	found := r.remotes(root)
	project := r.options.project()
	if r.own {
		project = ""
	}
	for _, t := range tablesOf(root, project) {
		found = true
		r.in(t)
	}
	if r.own {
		for _, m := range root.members {
			if !slices.Contains(topMembers, m.name) {
				r.unknown(m, "", topMembers)
			}
		}
	}
	if others := projectsOf(root); !found && len(others) > 0 && !r.own {
		r.problem(root.line, root.column, "", "the file lists servers for other folders only, such as %s", others[0].folder)
	} else if !found {
		r.problem(root.line, root.column, "", "the file lists no servers: it has neither servers nor mcpServers")
	}
	if gateway.value != nil || r.options.isGateway() {
		r.gateway(gateway)
	}
}

// in reads a table. The servers of a project run in its folder, and hide others with the same name.
func (r *reader) in(t serverTable) {
	if t.folder == "" {
		r.table(t.node, t.path, t.protocol)
		return
	}
	dir := r.dir
	r.dir = t.folder
	r.table(t.node, t.path, t.protocol)
	r.dir = dir
	r.hidden = make(map[string]bool)
	for _, e := range r.file.Entries {
		r.hidden[e.Name] = true
	}
}

// topMembers are the members of parley.yaml.
var topMembers = []string{"servers", "gateway", "mcpServers", "context_servers", "mcp", "mcp_servers", "agent_servers", "$schema"}

// A serverTable is a member of a file that contains servers.
type serverTable struct {
	node           *node
	path, protocol string
	folder         string // of the project that has these servers; "" for the others
}

// tablesOf returns the members of a file that contain servers, those of the project that contains
// dir first. If dir is empty, projects are ignored.
func tablesOf(root *node, dir string) (list []serverTable) {
	if t, ok := projectOf(root, dir); ok {
		list = append(list, t)
	}
	for _, t := range tables {
		n := root.get(t.name)
		if n == nil {
			continue
		}
		where := t.name
		switch {
		case t.name != "mcp":
		case n.get("servers") != nil: // VS Code's settings.json
			n, where = n.get("servers"), "mcp.servers"
		case root.get("mcpServers") != nil: // Gemini CLI's settings.json has settings there
			continue
		}
		list = append(list, serverTable{node: n, path: where, protocol: t.protocol})
	}
	return list
}

func (r *reader) table(n *node, path, protocol string) {
	if n.kind == isNull {
		return
	}
	if n.kind != isMap {
		r.problem(n.line, n.column, path, "is %s, but must be a mapping of names to servers", kindNames[n.kind])
		return
	}
	for _, m := range n.members {
		where := path + "." + m.name
		switch {
		case len(r.file.Entries) >= maxEntries:
			r.problem(m.line, m.column, where, "there are more than %d servers", maxEntries)
			return
		case m.value.kind != isMap:
			r.problem(m.value.line, m.value.column, where, "is %s, but must be a mapping", kindNames[m.value.kind])
			r.broken[m.name] = true
			continue
		case m.name == "" || strings.ContainsAny(m.name, "\x00\n\r"):
			r.problem(m.line, m.column, where, "is not a valid name")
			continue
		}
		if r.hidden[m.name] {
			continue
		}
		if _, twice := r.file.Find(m.name); twice {
			r.problem(m.line, m.column, where, "duplicate server name")
			continue
		}
		e := Entry{Name: m.name, Protocol: protocol, Line: m.line, Column: m.column}
		r.entry(&e, m.value, where)
		r.file.Entries = append(r.file.Entries, e)
		r.sources[e.Name] = source{&field{r: r, n: m.value, path: where}, protocol == "" && m.value.get("protocol") == nil}
	}
}

// A field is a value that is being converted into a part of an entry.
type field struct {
	r    *reader
	e    *Entry
	n    *node
	path string
}

// fail records a problem, which makes the entry unusable.
func (f *field) fail(format string, args ...any) {
	text := f.r.problem(f.n.line, f.n.column, f.path, format, args...)
	if f.e.Problem == "" {
		f.e.Problem = strings.TrimPrefix(f.path[strings.LastIndexByte(f.path, '.')+1:]+": "+text, ": ")
	}
}

// member returns a member, or nil if it is missing or nothing.
func (f *field) member(name string) *field {
	if f == nil {
		return nil
	}
	n := f.n.get(name)
	if n == nil || n.kind == isNull {
		return nil
	}
	return &field{f.r, f.e, n, f.path + "." + name}
}

// text returns a scalar with its variables expanded. secret marks the value as one that must not be
// shown.
func (f *field) text(secret bool) string {
	if f == nil {
		return ""
	}
	switch f.n.kind {
	case isText, isNumber, isBool:
		return f.expand(f.n.text, secret)
	}
	f.fail("is %s, but must be a string", kindNames[f.n.kind])
	return ""
}

func (f *field) list() []string {
	if f == nil {
		return nil
	}
	if f.n.kind != isList {
		f.fail("is %s, but must be a list", kindNames[f.n.kind])
		return nil
	}
	list := []string{}
	for i, item := range f.n.items {
		list = append(list, (&field{f.r, f.e, item, fmt.Sprintf("%s[%d]", f.path, i)}).text(false))
	}
	return list
}

// pairs calls add for each member of a mapping of strings.
func (f *field) pairs(add func(name, value string, at *field)) {
	if f == nil {
		return
	}
	if f.n.kind != isMap {
		f.fail("is %s, but must be a mapping of names to strings", kindNames[f.n.kind])
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
				r.unknown(m, path, known)
			}
		}
	}
	e.Title, e.About = f.member("title").text(false), f.member("description").text(false)
	if p := f.member("protocol"); p != nil {
		e.Protocol = p.text(false)
		if !slices.Contains([]string{JSONRPC, MCP, ACP, A2A, Editor, LSP}, e.Protocol) {
			p.fail("must be one of jsonrpc, mcp, acp, a2a, editor and lsp")
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
			h.fail("must be line or header")
		}
	}
	env := f.program(e)
	f.address(e)
	switch {
	case len(e.Command) > 0 && e.Address != "":
		f.fail("has both command and url; use only one")
	case len(e.Command) == 0 && e.Address == "" && e.Problem == "":
		f.fail("has neither command nor url")
	}
	if e.Protocol == "" {
		e.Protocol = f.usual(e)
	}
	e.Upstream = r.upstreams
	if r.own {
		f.upstream(&e.Upstream)
	}
	r.finish(e, env)
}

// program reads the program to start, and returns the named variables of its environment.
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
				at.fail("is not a valid variable name")
				return
			}
			env = append(env, name+"="+value)
		})
	}
	env = append(env, f.forwarded()...)
	env = append(f.envFile(), env...) // variables of the file itself come last and take precedence
	e.Dir = f.member("cwd").text(false)
	return env
}

// forwarded returns the variables of our environment that Codex forwards by name. Variables that
// are not set are omitted without a problem.
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

// envFile reads the variables of a file that VS Code's entries may name: NAME=VALUE, one per line.
// The values are treated as secrets.
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
		if refused, ok := errors.AsType[*private.RefusedError](err); ok {
			at.fail("is not allowed: %v", refused)
		} else {
			at.fail("cannot be read: %v", errors.Unwrap(err))
		}
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

// address reads the address of a server.
func (f *field) address(e *Entry) {
	at, older := f.member("url"), false
	if h := f.member("httpUrl"); h != nil { // Gemini CLI, where url is the older transport
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
			t.fail("%q is not a server type: use stdio, http or sse", kind)
		}
	}
	plain := func(name, value string, at *field) { f.header(name, value, at, at.n.text) }
	f.member("headers").pairs(plain)
	// Codex: strings, names of variables, and the name of the variable that contains the token.
	f.member("http_headers").pairs(plain)
	f.member("env_http_headers").pairs(func(name, variable string, at *field) {
		f.header(name, at.variable(variable, true), at, "${env:"+variable+"}")
	})
	if token := f.member("bearer_token_env_var"); token != nil {
		variable := token.text(false)
		f.header("Authorization", "Bearer "+token.variable(variable, true), token, "Bearer ${env:"+variable+"}")
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
		return // it is incomplete
	}
	t, err := parley.ParseTarget(e.Address)
	switch {
	case err != nil:
		at.fail("is not a valid address")
	case !slices.Contains(schemes, t.Scheme) && len(t.Argv) == 0 && t.Scheme != "exec" && t.Scheme != "stdio":
		at.fail("has the scheme %q; use %s", t.Scheme+":", strings.Join(schemes, ", "))
	case t.Scheme == "exec" || t.Scheme == "stdio" || len(t.Argv) > 0:
		at.fail("is a program; use command and args")
	}
}

// header adds a header to an entry. source is its value before the expansion of variables.
func (f *field) header(name, value string, at *field, source string) {
	if at.isOpenCode() {
		source = openCode.Replace(source)
	}
	if !httptoken.Valid(name) || strings.ContainsAny(value, "\r\n\x00") {
		at.fail("is not a valid header")
		return
	}
	if f.e.Header == nil {
		f.e.Header = make(http.Header)
	}
	f.e.Header.Set(name, value)
	if f.e.Headers == nil {
		f.e.Headers = new(Headers)
	}
	f.e.Headers.set(name, NewValue(source, f.expandOptions()))
}

// remotes reads a server.json of the MCP registry: its addresses become entries. A package
// describes how it is installed and not which command starts it, so it is reported as a problem.
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
			if h := n.get("headers"); h != nil && h.kind == isList { // a list of {"name", "value"}
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
		r.problem(packages.line, packages.column, "packages", "describe how to install %s; set command and args", short)
	}
	return true
}

// headersOf converts a list of headers to a mapping. Headers that the user must fill in have no
// value.
func headersOf(list *node) *node {
	out := &node{kind: isMap, line: list.line, column: list.column}
	for _, h := range list.items {
		if name, value := h.get("name"), h.get("value"); name != nil && value != nil {
			out.members = append(out.members, member{name: name.text, line: h.line, column: h.column, value: value})
		}
	}
	return out
}

// usual returns the default protocol of a server.
func (f *field) usual(e *Entry) string {
	switch {
	case e.Framing == stream.Header:
		return LSP
	case e.Address == "", strings.HasPrefix(e.Address, "http"), strings.HasPrefix(e.Address, "sse+"):
		return MCP
	}
	return JSONRPC
}

// isSecret reports whether the value of this name must not be shown.
func isSecret(name string) bool { return secret.Header(name) || secret.Query(name) }
