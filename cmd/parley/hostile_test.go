package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/race"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// A glass is an in-memory terminal whose output can be read as it arrives.
type glass struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (g *glass) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(p)
}

func (g *glass) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

func (g *glass) isTerminal() bool { return true }

// keys is the keyboard input of a terminal.
type keys struct{ io.Reader }

func (keys) isTerminal() bool { return true }

// escapes reads the corpus: for each kind, one text that contains all of its sequences.
func escapes(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("testdata/hostile/escapes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kinds := map[string][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		parts := strings.SplitN(lines.Text(), "\t", 3)
		if len(parts) != 3 {
			t.Fatalf("%q has no three columns", lines.Text())
		}
		text, err := strconv.Unquote(parts[2])
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if strings.Contains(parts[1], "first") {
			kinds[parts[1]] = append(kinds[parts[1]], text)
			continue
		}
		kinds[parts[0]] = append(kinds[parts[0]], text)
	}
	all := map[string]string{}
	for kind, texts := range kinds {
		all[kind] = strings.Join(texts, " ")
		slices.Reverse(texts) // output is cut, so this way both ends are shown
		all[kind+", reversed"] = strings.Join(texts, " ")
	}
	if len(all) < 10 {
		t.Fatalf("the corpus has %d texts", len(all))
	}
	return all
}

// kindsToRun returns the texts of escapes, and under the race detector two of them, since their
// kinds take the same paths.
func kindsToRun(t *testing.T) map[string]string {
	t.Helper()
	all := escapes(t)
	if race.Enabled {
		return map[string]string{"fake": all["fake"], "fake, reversed": all["fake, reversed"]}
	}
	return all
}

// unescaped returns text as a quoted string with as few escapes as JSON allows.
func unescaped(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// hostileServer speaks MCP, responds to all other methods with an object that has the members of
// all protocols, and puts text into every string.
func hostileServer(text string) jsonrpc.Handler {
	fill := func(template string) jsonrpc.Raw {
		return jsonrpc.Raw(strings.ReplaceAll(template, "X", unescaped(text)))
	}
	property := `{"type":"string","title":X,"description":X,"enum":[X,"b"],"default":X,"format":X}`
	tool := `{"name":NAME,"title":X,"description":X,"inputSchema":{"type":"object","properties":{X:` + property + `,"a":` + property + `},"required":[X]},"annotations":{"title":X},"_meta":{X:X}}`
	tools := strings.ReplaceAll(tool, "NAME", `"t"`) + "," + strings.ReplaceAll(tool, "NAME", "X") + "," + strings.ReplaceAll(tool, "NAME", `"fail"`)
	answers := map[string]string{
		"initialize":               `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{"subscribe":true},"prompts":{},"logging":{},"completions":{}},"serverInfo":{"name":X,"title":X,"version":X},"instructions":X}`,
		"tools/list":               `{"tools":[` + tools + `]}`,
		"resources/list":           `{"resources":[{"uri":X,"name":X,"title":X,"description":X,"mimeType":X}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":X,"name":X,"description":X,"mimeType":X}]}`,
		"resources/read":           `{"contents":[{"uri":X,"mimeType":X,"text":X},{"uri":X,"mimeType":X,"blob":"AAAA"}]}`,
		"prompts/list":             `{"prompts":[{"name":X,"title":X,"description":X,"arguments":[{"name":X,"description":X},{"name":"a","description":X}]},{"name":"p","arguments":[{"name":"a"}]}]}`,
		"prompts/get":              `{"description":X,"messages":[{"role":"user","content":{"type":"text","text":X}},{"role":X,"content":{"type":"text","text":X}}]}`,
		"completion/complete":      `{"completion":{"values":[X,"b"],"hasMore":true}}`,
		"ping":                     `{}`,
		"logging/setLevel":         `{}`,
		"resources/subscribe":      `{}`,
		"rpc.discover":             `{"openrpc":"1.2.6","info":{"title":X,"version":X},"methods":[{"name":X,"summary":X,"params":[{"name":X,"description":X,"schema":{}}]},{"name":"m","summary":X,"params":[{"name":X,"schema":{}},{"name":"p","description":X,"schema":{}}]}]}`,
	}
	other := `{"name":X,"title":X,"description":X,"version":X,"agents":[{"name":X,"description":X,"input_content_types":[X],"output_content_types":[X]}],
		"run_id":X,"agent_name":X,"session_id":X,"status":"failed","output":[{"role":"agent","parts":[{"content_type":"text/plain","content":X}]}],"error":{"code":"server_error","message":X},
		"id":X,"contextId":X,"state":X,"history":[X],"task":{"id":X,"contextId":X,"status":{"state":"TASK_STATE_FAILED","message":{"messageId":X,"role":"ROLE_AGENT","parts":[{"text":X}]}},"artifacts":[{"artifactId":X,"name":X,"parts":[{"text":X}]}]},
		X:[X,{X:X}],"list":[1,X,{X:X,"b":X}]}`
	return jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		if strings.HasPrefix(req.Method, "notifications/") {
			return nil, nil
		}
		peer := req.Peer()
		if req.Method == "resources/subscribe" {
			_ = peer.Notify(ctx, "notifications/resources/updated", fill(`{"uri":"x://y"}`))
			_ = peer.Notify(ctx, "notifications/resources/updated", fill(`{"uri":X}`))
			_ = peer.Notify(ctx, "notifications/tools/list_changed", fill(`{X:X}`))
			_ = peer.Notify(ctx, "notifications/message", fill(`{"level":X,"logger":X,"data":{X:X}}`))
		}
		if answer, ok := answers[req.Method]; ok {
			return fill(answer), nil
		}
		switch req.Method {
		case "text":
			return fill("X"), nil
		case "list":
			return fill(`[X,[X],{X:X},{"a":X,"b":1}]`), nil
		case "server/discover", "initialized":
			return nil, jsonrpc.ErrMethodNotFound
		case "err":
			return nil, &jsonrpc.Error{Code: 7, Message: text, Data: fill(`{"pointer":X,"reason":X,X:X}`)}
		case "params":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text, Data: fill(`{"pointer":X,"reason":X}`)}
		case "news":
			_ = peer.Notify(ctx, strings.ToValidUTF8(text, "?"), fill(`[X]`))
			return fill(`{X:X}`), nil
		case "asks":
			var said jsonrpc.Raw
			_ = peer.Call(ctx, "answer", fill(`{"question":X}`), &said)
			return said, nil
		case "tools/call":
			var p struct {
				Name string `json:"name"`
				Meta struct {
					Token jsonrpc.Raw `json:"progressToken"`
				} `json:"_meta"`
			}
			_ = json.Unmarshal(req.Params, &p)
			_ = peer.Notify(ctx, "notifications/message", fill(`{"level":"warning","logger":X,"data":X}`))
			if p.Meta.Token != nil {
				_ = peer.Notify(ctx, "notifications/progress", fill(`{"progressToken":`+string(p.Meta.Token)+`,"progress":1,"total":2,"message":X}`))
			}
			if p.Name == "fail" {
				return fill(`{"isError":true,"content":[{"type":"text","text":X}]}`), nil
			}
			if p.Name != "t" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
			}
			var said jsonrpc.Raw
			_ = peer.Call(ctx, "elicitation/create", fill(`{"message":X,"requestedSchema":{"type":"object","properties":{"a":`+property+`,"b":{"type":"boolean","title":X}},"required":["a"]}}`), &said)
			_ = peer.Call(ctx, "sampling/createMessage", fill(`{"systemPrompt":X,"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":X}}]}`), &said)
			return fill(`{"content":[{"type":"text","text":X},{"type":"resource_link","uri":X,"name":X},{"type":"resource","resource":{"uri":X,"mimeType":X,"text":X}},{"type":"image","mimeType":X,"data":"AAAA"},{"type":X}],"structuredContent":{X:X}}`), nil
		}
		return fill(other), nil
	})
}

// hostileAgent sends text in every kind of output that an agent has.
func hostileAgent(text string) *agent.Agent {
	return &agent.Agent{
		Card: agent.Card{Name: "evil", Title: text, Description: text, Skills: []agent.Skill{{ID: text, Name: text, Description: text, Examples: []string{text}}}},
		Run: func(ctx context.Context, r *agent.Run) error {
			for _, p := range []agent.Progress{{Message: text}, {Message: text, Done: 1, Total: 2}} {
				if err := r.Progress(ctx, p); err != nil {
					return err
				}
			}
			for i := range len(text) { // byte by byte, which splits characters
				if err := r.Say(ctx, strings.ToValidUTF8(text[i:i+1], "?")); err != nil {
					return err
				}
			}
			if err := r.Emit(ctx, agent.Text(text), agent.Value(map[string]string{text: text}).Named(text), agent.Text(text).Named(text)); err != nil {
				return err
			}
			if _, err := r.Ask(ctx, &agent.Question{Text: text, Options: []agent.Option{{ID: "y", Name: text, Kind: agent.AllowOnce}, {ID: "n", Name: "no"}}}); err != nil {
				return err
			}
			return &agent.Failure{State: agent.Failed, Text: text}
		},
	}
}

// hostileWeb responds to each request with a status and the body text, or with an event stream.
func hostileWeb(t *testing.T, text string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			for line := range strings.Lines(text) {
				fmt.Fprintf(w, "event: %s\ndata: %s\n\n", strings.NewReplacer("\n", "", "\r", "").Replace(line), strings.NewReplacer("\n", "", "\r", "").Replace(line))
			}
		case "/ok":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		case "/auth":
			w.Header()["Www-Authenticate"] = []string{"Bearer error=" + strconv.Quote(strings.ToValidUTF8(text, "?"))}
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, text)
		case "/rest":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"code":"invalid_input","message":%s,"error":{"code":400,"status":%[1]s,"message":%[1]s}}`, unescaped(text))
		default:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, text)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// fakes matches lines that only this program may write.
var fakes = regexp.MustCompile(`(?m)^ {0,3}(parley: FAKE|Send this\?|Open the URL in a browser|> FAKE|the (server|agent) asks: FAKE|declined FAKE|[←→] FAKE|\[FAKE|progress FAKE).*FAKE|^ {0,3}(parley:|>|declined|←|→|progress) FAKE`)

// checkShown reports the parts of an output for people that are unsafe. A document names the
// authors of its texts itself.
func checkShown(t *testing.T, what, shown string, coloured, document bool) {
	t.Helper()
	for _, own := range []string{toColumn0 + wipeRow, wrapOff, wrapOn, wipeRow, wipeBelow} {
		shown = strings.ReplaceAll(shown, own, "")
	}
	shown = regexp.MustCompile(`\x1b\[[0-9]+A\r`).ReplaceAllString(shown, "")
	for i := strings.IndexByte(shown, 0x1b); i >= 0; i = strings.IndexByte(shown, 0x1b) {
		n := 0
		if coloured {
			n = colourAt([]byte(shown[i:]))
		}
		if n == 0 {
			t.Errorf("%s shows an escape: %.60q", what, shown[i:])
			return
		}
		shown = shown[:i] + shown[i+n:]
	}
	for line := range strings.Lines(shown) {
		if line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", " "); harmless.Has(line) {
			t.Errorf("%s shows %q", what, line)
			return
		}
	}
	if line := fakes.FindString(shown); line != "" && !document {
		t.Errorf("%s shows a line that could be ours: %q\n%s", what, line, shown)
	}
}

// hostileArgument is the first argument of the child process of this test. The second is the text
// in hexadecimal.
const hostileArgument = "hostile-child"

// hostileCommand is the command line of a hostileChild that sends text.
func hostileCommand(text string) []string {
	return []string{os.Args[0], hostileArgument, hex.EncodeToString([]byte(text))}
}

// hostileChild is the child process of this test: it responds to each line on stdin like a hostile
// stdio server.
func hostileChild(code string) int {
	bytes, err := hex.DecodeString(code)
	if err != nil {
		panic(err)
	}
	text := string(bytes)
	fmt.Fprintf(os.Stderr, "%s\nparley: FAKE\n", text)
	fmt.Fprintf(os.Stdout, "%s\n", strings.NewReplacer("\n", " ").Replace(text))
	conn := jsonrpc.NewConn(stdio.New(nil))
	conn.Handler = hostileServer(text)
	_ = conn.Serve(context.Background()) // it ends with its input
	return 3
}

func TestNothingHiddenReachesATerminal(t *testing.T) {
	t.Parallel()
	for kind, text := range kindsToRun(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rpc := serveOn(t, &parley.Listener{Handler: hostileServer(text)}, "tcp://127.0.0.1:0").String()
			overHTTP := serveOn(t, &parley.Listener{Handler: hostileServer(text)}, "http://127.0.0.1:0/").String()
			evil := hostileAgent(strings.ToValidUTF8(text, "?"))
			agents := acp.NewServer(nil)
			agents.Add(acpagent.New(evil))
			t.Cleanup(func() { _ = agents.Close() })
			overACP := serveOn(t, &parley.Listener{Converse: func(c *jsonrpc.Conn) func() { agents.Configure(&c.Answerer); return nil }}, "tcp://127.0.0.1:0").String()
			tasks := a2a.NewServer(a2aagent.Card(&evil.Card), a2aagent.New(evil), nil)
			t.Cleanup(tasks.Close)
			overA2A := serveOn(t, &parley.Listener{Converse: func(c *jsonrpc.Conn) func() { tasks.Configure(&c.Answerer); return nil }}, "tcp://127.0.0.1:0").String()
			web := hostileWeb(t, text)
			junk := answering(t, strings.NewReplacer("\n", " ").Replace(text)+"\n"+text+"\n", false)
			dir, state := t.TempDir(), t.TempDir()
			session := hostileSession(t, dir, text)
			batch := writeIn(t, dir, "batch", `{"method":"text"}`+"\n"+`{"method":"err"}`+"\n"+`{"method":"news"}`)
			config := writeIn(t, dir, "mcp.json", `{"mcpServers":{`+unescaped(text)+`:{"url":`+unescaped("http://"+text)+`},"a":{"command":`+unescaped(text)+`,"args":[`+unescaped(text)+`]},"b":{`+unescaped(text)+`:1}}}`)
			plan := writeIn(t, dir, "plan.yaml", "name: evil\nteam: {evil: {target: "+strconv.Quote(overACP)+", protocol: acp, agent: evil}}\nsteps:\n  - {id: one, agent: evil, prompt: hello}\n")
			child := append([]string{"--"}, hostileCommand(text)...)

			var commands [][]string
			add := func(words ...string) { commands = append(commands, words) }
			for _, method := range []string{"text", "list", "other", "err", "params", "news", "asks"} {
				add("call", rpc, method)
				add("call", overHTTP, method, "--trace")
			}
			for _, method := range []string{"text", "list", "other", "err"} {
				for _, form := range []string{"json", "ndjson", "yaml", "table", "raw"} {
					add("call", rpc, method, "-o", form)
				}
				add("call", rpc, method, "--jq", ".", "-o", "raw")
				add("call", rpc, method, "--stream", "--trace")
				for _, to := range []string{rpc, overHTTP, junk, web + "/ok", web + "/events", web + "/no"} {
					add("call", to, "--raw", `{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`, "--timeout", "5s")
				}
			}
			add("call", rpc, "--batch", batch)
			add("call", rpc, "--batch", batch, "-o", "table")
			add("call", overHTTP, "--batch", batch, "--stream")
			for _, path := range []string{"/ok", "/no", "/events", "/auth", "/rest"} {
				add("call", web+path, "x", "--timeout", "5s")
				add("mcp", "tools", web+path, "--login", "never", "--timeout", "5s")
				add("acp", "agents", web+path, "--timeout", "5s")
				add("acp", "run", web+path, "evil", "x", "--timeout", "5s")
				add("a2a", "card", web+path, "--timeout", "5s")
			}
			for _, form := range []string{"text", "json", "ndjson", "yaml", "table", "raw"} {
				for _, words := range [][]string{{"tools"}, {"tools", "t"}, {"resources"}, {"prompts"}, {"ping"}} {
					add(append([]string{"mcp", words[0], rpc, "-o", form}, words[1:]...)...)
				}
				add("mcp", "call", rpc, "t", "a=b", "-o", form)
				add("mcp", "call", rpc, "fail", "-o", form)
				add("mcp", "read", rpc, "x://y", "-o", form)
				add("mcp", "get", rpc, "p", "-o", form)
				add("mcp", "complete", rpc, "p", "a=", "-o", form)
				add("acp", "agents", overACP, "-o", form)
				add("acp", "agents", rpc, "-o", form)
				add("acp", "run", overACP, "evil", "hello", "-o", form)
				add("a2a", "send", overA2A, "hello", "-o", form)
				add("a2a", "card", overA2A, "-o", form)
				add("a2a", "tasks", overA2A, "-o", form)
			}
			add("mcp", "call", rpc, "t", "a=b", "--decline")
			add("mcp", "call", rpc, "t", "a=b", "--answer", "a=b", "--sample", "x", "--trace")
			add("mcp", "call", rpc, "other")
			add("mcp", "tools", rpc, text[:1]+"nothing")
			add("acp", "run", overACP, "evil", "hello", "--yes", "--trace")
			add("acp", "run", rpc, "evil", "hello")
			add("acp", "get", rpc, "x")
			add("acp", "session", rpc, "x")
			add("acp", "cancel", rpc, "x")
			add("a2a", "send", overA2A, "hello", "--yes", "--trace")
			add("a2a", "send", rpc, "hello")
			add("a2a", "get", rpc, "x")
			add("a2a", "cancel", rpc, "x")
			add("a2a", "card", rpc)
			for _, words := range [][]string{{"call", "text"}, {"call", "err", "--trace"}, {"mcp", "tools"}, {"edit", "hello"}, {"tap"}} {
				add(append(words, child...)...)
			}
			add("replay", session)
			add("replay", session, "--color", "always")
			add("replay", session, rpc, "--requests")
			add("replay", session, rpc)
			for _, form := range []string{"markdown", "har", "session"} {
				add("replay", session, "--export", form)
			}
			add("config", "check", config)
			add("config", "check", plan)
			add("run", plan, "--answer", "evil=y")
			add("run", plan, "-o", "text")
			add("run", "list")
			add("run", "show", "last")
			add("run", "show", "last", "--events")
			add("run", plan, "--check")
			for _, words := range [][]string{{"call", rpc, ""}, {"call", rpc, "m", ""}, {"mcp", "call", rpc, ""}, {"mcp", "call", rpc, "t", ""}, {"mcp", "call", rpc, "t", "a="},
				{"mcp", "read", rpc, ""}, {"mcp", "get", rpc, ""}, {"mcp", "get", rpc, "p", "a="}, {"acp", "run", overACP, ""}, {"acp", "run", rpc, ""}, {"a2a", "send", overA2A, "--skill", ""}} {
				add(append([]string{"__complete"}, words...)...)
			}

			for _, words := range commands {
				for _, person := range []bool{true, false} {
					what := fmt.Sprintf("parley %.200q, for a person %v,", words, person)
					var out, errs glass
					a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(name string) string {
						return map[string]string{"NO_COLOR": "1", "XDG_STATE_HOME": state}[name]
					}}
					if person {
						a.stdin = keys{strings.NewReader("\n\n\n1\ny\n\n\nx\n")}
					} else {
						a.stdout, a.stderr = struct{ io.Writer }{&out}, struct{ io.Writer }{&errs}
					}
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					a.main(ctx, words)
					if ctx.Err() != nil {
						t.Errorf("%s takes more than 30 s", what)
					}
					cancel()
					coloured, document := slices.Contains(words, "--color"), slices.Contains(words, "--export") || words[0] == "__complete" || !person && slices.Contains(words, "--")
					if words[0] != "tap" || person { // a tap forwards bytes
						checkShown(t, what+" on stderr", errs.String(), coloured, document)
					}
					if person || words[0] == "__complete" || slices.Contains(words, "--export") && !slices.Contains(words, "session") || words[0] == "config" || words[0] == "replay" && len(words) < 4 {
						checkShown(t, what+" on stdout", out.String(), coloured, document)
					}
					if words[0] == "__complete" && strings.Contains(kind, "fake") && strings.Contains(regexp.MustCompile(`\t.*`).ReplaceAllString(out.String(), ""), "\nFAKE") {
						t.Errorf("%s offers what a name holds behind its newline: %q", what, out.String())
					}
				}
			}
		})
	}
}

func writeIn(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// hostileSession returns a recording of a hostile host and a hostile server.
func hostileSession(t *testing.T, dir, text string) string {
	t.Helper()
	file := filepath.Join(dir, "session.jsonl")
	rec, err := capture.New(&capture.Options{File: file, Redact: capture.Redaction{Off: true}})
	if err != nil {
		t.Fatal(err)
	}
	quoted := unescaped(text)
	w := rec.Wire(capture.WireInfo{Target: text, Carrier: "http"})
	x := w.Exchange(capture.Out, text, "/"+text, http.Header{text: {text}})
	x.Request([]byte(`{"jsonrpc":"2.0","id":` + quoted + `,"method":` + quoted + `,"params":[` + quoted + `]}`))
	x.Head(200, http.Header{"X": {text}})
	x.Response([]byte(`{"jsonrpc":"2.0","id":`+quoted+`,"error":{"code":1,"message":`+quoted+`}}`), "1")
	x.Response([]byte(text), "2")
	x.End(fmt.Errorf("%s", text))
	s := rec.Wire(capture.WireInfo{Target: "child", Carrier: "stdio"})
	s.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","id":1,"method":"other"}`))
	s.Payload(capture.In, []byte(`{"jsonrpc":"2.0","id":1,"result":{`+quoted+`:1,"list":[`+quoted+`]}}`))
	s.Stderr([]byte(text))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}
