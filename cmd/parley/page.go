package main

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
)

//go:embed page/index.html
var pageText string

//go:embed page/style.css
var pageStyle []byte

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// A page serves the demo's addresses and methods as HTML. It is an http.Handler.
type page struct {
	service *demo.Service
	prefix  string // the words before "call" in a command to paste
	targets []parley.Target
	locked  bool // callers must present a token

	// Indexes of the first targets that serve a single protocol: MCP, ACP, A2A.
	firstMCP, firstACP, firstA2A int

	agents *demoAgents // nil if the demo has no agents
}

// An address is one address of the demo and how to call it.
type address struct {
	Kind string // transport, for people
	Call string // a command to paste
	base string // the command without method and params
}

// addresses returns the demo's addresses. HTTP addresses also serve WebSocket on the same path. The
// commands name tokenFile if a token is required.
func (p *page) addresses(tokenFile string) []address {
	var list []address
	add := func(kind, target, call string) {
		base := p.prefix + " call " + shellWord(target)
		if p.locked && !strings.HasPrefix(target, "unix:") {
			base += " --token-file " + shellWord(tokenFile)
		}
		list = append(list, address{Kind: kind, Call: base + " " + call, base: base})
	}
	for _, t := range p.targets[:min(p.firstMCP, len(p.targets))] {
		switch text := t.String(); t.Scheme {
		case "http", "https":
			add(strings.ToUpper(t.Scheme), text, "subtract 42 23")
			add("WebSocket", "ws"+strings.TrimPrefix(text, "http"), `ask "tea or coffee?" --answer tea`)
		case "ws", "wss":
			add("WebSocket", text, `ask "tea or coffee?" --answer tea`)
		case "tcp":
			add("TCP", text, "countdown 3 200 --stream")
		case "tls":
			add("TLS", text, "countdown 3 200 --stream")
		case "unix":
			add("Unix socket", text, "sum 1 2 4 --trace")
		case "stdio": // the parent process has the other end
		default:
			add(t.Scheme, text, "subtract 42 23")
		}
	}
	return list
}

// toolAddresses returns the addresses of MCP, each with a different command, so that readers
// discover more commands.
func (p *page) toolAddresses(tokenFile string) []address {
	var list []address
	add := func(kind, command, target, rest string) {
		call := p.prefix + " mcp " + command + " " + shellWord(target)
		if p.locked && !strings.HasPrefix(target, "unix:") {
			call += " --token-file " + shellWord(tokenFile)
		}
		list = append(list, address{Kind: kind, Call: strings.TrimSpace(call + " " + rest)})
	}
	const book = `book-table restaurant="Zur Linde" guests:=4`
	for i, t := range p.targets {
		if p.agents != nil && i >= p.firstACP {
			break
		}
		switch {
		case t.Scheme == "http" || t.Scheme == "https":
			root := t.Scheme + "://" + t.Address
			add(strings.ToUpper(t.Scheme), "tools", root+mcpPath, "")
			add("WebSocket", "call", "ws"+strings.TrimPrefix(root, "http")+mcpPath, "kitchen/cook dish=risotto")
			add("HTTP+SSE", "prompts", "sse+"+root+ssePath, "")
		case i < p.firstMCP || t.Scheme == "stdio":
		case t.Scheme == "unix":
			add("Unix socket", "call", t.String(), book)
		default:
			add(strings.ToUpper(t.Scheme), "listen", t.String(), "clock://now")
		}
	}
	return list
}

// anyFile replaces the name of the token file on the page, because everybody can read the page.
const anyFile = "FILE"

// A shownMethod is one method on the page.
type shownMethod struct {
	Name, Signature, Summary string
	Calls                    []shownCall
}

// A shownCall is a command to paste and its output.
type shownCall struct{ Command, Result string }

func (p *page) methods() ([]shownMethod, error) {
	document, err := p.service.Discovery.Document()
	if err != nil {
		return nil, err
	}
	addresses := p.addresses(anyFile)
	var list []shownMethod
	for _, m := range document.Methods {
		shown := shownMethod{Name: m.Name, Signature: signature(&m), Summary: m.Summary}
		base := p.prefix + " call :3000/rpc"
		if len(addresses) > 0 {
			base = addresses[0].base
		}
		if m.Name == "ask" { // POST cannot carry requests of the server
			for _, a := range addresses {
				if a.Kind != "HTTP" && a.Kind != "HTTPS" {
					base = a.base
					break
				}
			}
		}
		shown.Calls = calls(base, &m)
		list = append(list, shown)
	}
	return list, nil
}

// calls returns commands for the examples of a method. A method without examples is called without
// params, or shown by name.
func calls(base string, m *openrpc.Method) []shownCall {
	special := map[string][]shownCall{
		"fail":         {{Command: `fail code:=-32050 message="no luck"`}},
		"panic":        {{Command: "panic"}},
		"ask":          {{Command: `ask "tea or coffee?" --answer tea`, Result: `"tea"`}},
		"countdown":    {{Command: "countdown 3 200 --stream"}},
		"login":        {{Command: "login ada"}},
		"whoami":       {{Command: "whoami TOKEN", Result: `{"name": "ada"}`}},
		"counter":      {{Command: "counter TOKEN", Result: "1"}},
		"update":       {{Command: "update 1 2 3 4 5 -n"}},
		"notify_hello": {{Command: "notify_hello 7 -n"}},
		"notify_sum":   {{Command: "notify_sum 1 2 4 -n"}},
		"log_event":    {{Command: `log_event "door opened"`, Result: "1"}},
		"get_log":      {{Command: "get_log 1 -o table"}},
	}
	list, ok := special[m.Name]
	if !ok {
		for _, example := range m.Examples {
			call := shownCall{Command: m.Name}
			for _, param := range example.Params {
				call.Command += " " + shellWord(paramWord(param.Value))
			}
			if example.Result != nil {
				call.Result = string(appendPretty(nil, example.Result.Value, palette{}))
			}
			list = append(list, call)
		}
	}
	for i := range list {
		list[i].Command = base + " " + list[i].Command
	}
	return list
}

// paramWord formats a value as a word of the command line: a string without quotes if that means
// the same.
func paramWord(value jsonrpc.Raw) string {
	var text string
	if value.Decode(&text) == nil {
		if _, err := jsonrpc.ParseRaw([]byte(text)); err != nil && !named.MatchString(text) && text != "" {
			return text
		}
	}
	return string(value)
}

// signature formats a method as its name and parameters: subtract(minuend, subtrahend).
func signature(m *openrpc.Method) string {
	var b strings.Builder
	b.WriteString(m.Name + "(")
	for i, param := range m.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(param.Name)
		switch _, variadic := param.Extra[openrpc.Variadic]; {
		case variadic:
			b.WriteString("…")
		case !param.Required:
			b.WriteString("?")
		}
	}
	return b.String() + ")"
}

// shellWord quotes a word for a shell if necessary.
func shellWord(word string) string {
	plain := strings.IndexFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r))
	}) < 0
	if plain && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	switch {
	case r.URL.Path != "/" && r.URL.Path != "/style.css":
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		guard.MethodOnly("GET, HEAD").Write(w, r)
	case r.URL.Path == "/":
		p.serveIndex(w)
	default:
		p.send(w, "text/css; charset=utf-8", pageStyle)
	}
}

func (p *page) serveIndex(w http.ResponseWriter) {
	methods, err := p.methods()
	if err != nil {
		http.Error(w, "cannot describe the methods", http.StatusInternalServerError)
		return
	}
	curl, auth := "", ""
	if p.locked {
		auth = "  -H \"Authorization: Bearer $(cat FILE)\" \\\n"
	}
	for _, t := range p.targets {
		if _, ok := pageOf(t); ok {
			curl = "curl " + shellWord(t.URL()) + " \\\n" + auth + `  --json '{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}'`
			break
		}
	}
	var b bytes.Buffer
	err = pageTemplate.Execute(&b, map[string]any{
		"Addresses": p.addresses(anyFile), "Tools": p.toolAddresses(anyFile), "Agents": p.agents.addresses(p, anyFile), "Methods": methods, "Curl": curl, "Version": "parley " + thisBuild().Version,
	})
	if err != nil {
		http.Error(w, "cannot render the page", http.StatusInternalServerError)
		return
	}
	p.send(w, "text/html; charset=utf-8", b.Bytes())
}

func (p *page) send(w http.ResponseWriter, kind string, body []byte) {
	guard.Secure(w.Header())
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // the client may be gone
}
