package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// A diary is the log of the other side.
type diary struct {
	mu      sync.Mutex // guards the fields below
	lines   []string
	changed chan struct{}
}

func newDiary() *diary { return &diary{changed: make(chan struct{})} }

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
	close(d.changed)
	d.changed = make(chan struct{})
}

// has waits until a line contains text.
func (d *diary) has(t *testing.T, text string) {
	t.Helper()
	end := time.After(patience)
	for {
		d.mu.Lock()
		all, changed := strings.Join(d.lines, "\n"), d.changed
		d.mu.Unlock()
		if strings.Contains(all, text) {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("the other side noted %q, want %q in it", all, text)
		}
	}
}

// waiting blocks until ctx is cancelled, and logs the reason.
func (d *diary) waiting(ctx context.Context, who string) error {
	d.write(who + " begins")
	<-ctx.Done()
	d.write(who + " was cancelled: " + context.Cause(ctx).Error())
	return context.Cause(ctx)
}

// others starts the test's servers: an agent that waits and one that fails, in ACP and A2A, and an
// MCP server that asks and waits.
func others(t *testing.T, d *diary) (base string) {
	t.Helper()
	wait := &agent.Agent{Card: agent.Card{Name: "wait", Description: "Waits until it is given up."}, Run: func(ctx context.Context, r *agent.Run) error {
		if err := r.Say(ctx, "I wait."); err != nil {
			return err
		}
		return d.waiting(ctx, r.Protocol)
	}}
	fail := &agent.Agent{Card: agent.Card{Name: "fail", Description: "Fails."}, Run: func(context.Context, *agent.Run) error {
		return agent.Errorf("The printer is on fire.")
	}}
	acpServer := acp.NewServer(nil)
	acpServer.Add(acpagent.New(wait))
	acpServer.Add(acpagent.New(fail))
	rpc, err := acphttp.NewRPC(acpServer, nil)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/acp", rpc)
	for name, one := range map[string]*agent.Agent{"wait": wait, "fail": fail} {
		card := a2aagent.Card(&one.Card)
		card.SupportedInterfaces = a2ahttp.Interfaces("/"+name+"/a2a", "/"+name+"/rest", a2a.V10)
		card.Capabilities.Streaming = true
		s := a2a.NewServer(card, a2aagent.New(one), nil)
		t.Cleanup(func() { s.Close() })
		h := &a2ahttp.Server{A2A: s}
		mux.Handle("/"+name+"/a2a", h.RPC())
		mux.Handle("/"+name+"/a2a"+a2ahttp.CardPath, h.Card())
	}
	s := mcp.NewServer(mcp.Implementation{Name: "asker", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.Request, _ struct{}) (string, error) {
		return "", d.waiting(ctx, "mcp")
	})
	mcp.AddTool(s, mcp.Tool{Name: "ask-url"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		a, err := r.Elicit(ctx, "pay", &mcp.Elicitation{Mode: mcp.ElicitURL, Message: "Pay for it there.", URL: "https://pay.example/9"})
		if err != nil {
			return "", err
		}
		return "url: " + a.Action, nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "ask-roots"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		roots, err := r.Roots(ctx, "roots")
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("roots: %v", roots), nil
	})
	handler := mcphttp.NewHandler(s, &mcphttp.Options{Unguarded: true})
	mux.Handle("/mcp", handler)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		_ = handler.Close()
		if err := acpServer.Close(); err != nil {
			t.Log(err)
		}
	})
	return server.URL
}

// blamesNobody fails if a rule is reported as broken in the recording.
func (u *up) blamesNobody(t *testing.T) {
	t.Helper()
	if found := u.call(t, "wire/rows", map[string]any{"filter": "status:broken"}); !strings.HasPrefix(string(found), `{"rows":[]`) {
		t.Errorf("somebody is blamed: %s", found)
	}
}

// startRun starts a run of the target that is selected in the sidebar.
func (p *tab) startRun() {
	p.t.Helper()
	p.clickOn(`eyes.first("button", "Start a run", eyes.first("navigation", "Targets and sessions"))`)
	p.see("region", "Agent run")
}

// runs opens the run of a target from the sidebar.
func (p *tab) runs(name string) {
	p.t.Helper()
	p.clickOn(`eyes.first("button", /^(\S+ )?` + strings.NewReplacer("/", `\/`, ".", `\.`).Replace(name) + `/, eyes.first("navigation", "Targets and sessions"))`)
	p.startRun()
}

// tells sends a message to the agent.
func (p *tab) tells(text string) {
	p.t.Helper()
	p.fill("textbox", "Message to the agent", text)
	p.key("Enter")
}

// ends waits until the run shows its result.
func (p *tab) ends(how string) {
	p.t.Helper()
	p.until("the run does not say "+how, `/`+how+`/.test(eyes.text(eyes.first("region", "Agent run")))`)
}

// pick selects one of several agents.
func (p *tab) pick(name string) {
	p.t.Helper()
	p.see("combobox", "Agent")
	p.until("the agent cannot be chosen", `(() => { const s = eyes.first("combobox", "Agent"); if (![...s.options].some((o) => o.value === `+quoted(name)+`)) return false; s.value = `+quoted(name)+`; s.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
}

// TestRunACP runs an agent over ACP: it streams, asks and continues, waits for a later answer,
// reports progress and is cancelled.
func TestRunACP(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "")
	p.runs("@agents")
	p.pick("words")
	p.tells("one word after the other")
	p.ends("Completed")
	p.until("the words did not come", `/one word after the other/.test(eyes.clean(eyes.text(eyes.all("log")[0])).replace(/^.*you one word after the other/, ""))`)
	p.row(`runs\/create .*words`)

	p.pick("ask")
	p.tells("good morning")
	p.see("group", "Question from the agent")
	p.says("What is your name?")
	p.judgeBoth("run-question")
	p.fill("textbox", "Your answer", "Ada")
	p.key("Enter")
	p.says("Hello Ada! Your message: good morning")
	p.ends("Completed")
	p.row(`runs\/resume`)

	p.tells("good evening")
	p.click("button", "Answer later")
	p.ends("Waiting for you")
	p.judge("run-waits")
	p.fill("textbox", "Your answer", "Grace")
	p.click("button", "Answer")
	p.says("Hello Grace! Your message: good evening")
	p.ends("Completed")

	p.pick("slow")
	p.tells("50 steps of 2s")
	p.says(" of 50") // each step is shown until the next one
	p.judge("run-progress")
	p.click("button", "Cancel")
	p.ends("Cancelled")
	p.row(`runs\/cancel`)
	p.judgeBoth("run-cancelled")
}

// TestRunA2A runs an agent over A2A: it streams, asks (input-required) and continues in the same
// task, waits for a later answer, and is cancelled.
func TestRunA2A(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "")
	p.runs("@courier")
	p.tells("a cake to the harbour, 3 stops of 50ms")
	p.says("Stop 3 of 3: passed on.")
	p.says("Delivered: a cake")
	p.ends("Completed")
	p.row(`SendStreamingMessage`)
	p.judgeBoth("run-a2a")

	u.blamesNobody(t)
	p.tells("/ask good morning")
	p.says("What is your name?")
	p.fill("textbox", "Your answer", "Ada")
	p.click("button", "Answer")
	p.says("Hello Ada! Your message: good morning")
	p.ends("Completed")

	p.tells("/scribe water the plants")
	p.says("bytes to note.md?")
	p.click("button", "Answer later")
	p.ends("Waiting for you")
	p.click("button", "/^(Yes|Allow)/")
	p.ends("Completed")
	p.says("note.md")

	p.tells("/courier 50 stops of 2s")
	p.says(" of 50")
	p.click("button", "Cancel")
	p.ends("Cancelled")
	p.row(`CancelTask`)
}

// TestRunEditor runs an agent of the Agent Client Protocol, a program on stdio: it streams, asks
// for permission, and writes files; also on a phone.
func TestRunEditor(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "")
	p.runs("@scribe")
	p.tells("Water the plants. Feed the cat.")
	p.says("bytes to note.md?")
	p.see("group", "Question from the agent")
	p.guideImage("run")
	p.judgeBoth("run-permission")
	p.click("button", "/^(Yes|Allow)/")
	p.says("Written to note.md.")
	p.ends("Completed")
	p.row(`session\/prompt`)
	p.row(`session\/request_permission`)

	p.tells("Once more.")
	p.click("button", "/^(No|Reject)/")
	p.says("Not written.")

	p.tells("/slow 50 steps of 2s")
	p.says(" of 50") // each step is shown until the next one
	p.click("button", "Cancel")
	p.ends("Cancelled")
	p.row(`session\/cancel`)

	p = u.page(t, phone, "target="+"@scribe")
	p.click("button", "Targets")
	p.startRun()
	p.tells("Water the plants.")
	p.says("bytes to note.md?")
	p.judgeBoth("run-phone")
	p.click("button", "/^(Yes|Allow)/")
	p.says("Written to note.md.")
}

// TestRunEnds checks that a failed run shows its reason. A cancelled agent receives the
// cancellation, which its own log shows.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	d := newDiary()
	base := others(t, d)
	u := start(t)
	u.open(t, base+"/acp", "protocol=acp")
	u.open(t, base+"/wait/a2a", "protocol=a2a")
	u.open(t, base+"/fail/a2a", "protocol=a2a")
	for _, c := range []struct{ target, pick, protocol string }{{base + "/acp", "wait", "acp"}, {base + "/wait/a2a", "", "a2a"}} {
		t.Run(c.protocol, func(t *testing.T) {
			p := u.page(t, desk, "target="+c.target)
			p.startRun()
			if c.pick != "" {
				p.pick(c.pick)
			}
			p.tells("wait for me")
			p.says("I wait.")
			d.has(t, c.protocol+" begins")
			p.click("button", "Cancel")
			p.ends("Cancelled")
			d.has(t, c.protocol+" was cancelled")
		})
	}
	for _, c := range []struct{ target, pick string }{{base + "/acp", "fail"}, {base + "/fail/a2a", ""}} {
		p := u.page(t, desk, "target="+c.target)
		p.startRun()
		if c.pick != "" {
			p.pick(c.pick)
		}
		p.tells("print it")
		p.ends("Failed")
		p.says("The printer is on fire.")
		p.judge("run-failed")
	}
}

// TestRunForeign runs third-party agents: the official SDK for A2A asks and is cancelled, and so
// does that of the Agent Client Protocol.
func TestRunForeign(t *testing.T) {
	t.Parallel()
	server := harness.Need(t, "the A2A SDK", "../a2a/node/node_modules/.installed-from")
	_ = server
	at := harness.Server(t, []string{"node", "../a2a/node/server.mjs"})["url"]
	script, err := filepath.Abs("../editor/node/agent.mjs")
	if err != nil {
		t.Fatal(err)
	}
	harness.Need(t, "the SDK of the editor protocol", "../editor/node/node_modules/.installed-from")
	config := filepath.Join(t.TempDir(), "parley.json")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"tourist": map[string]any{"command": "node", "args": []string{script}, "protocol": "editor"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	u := start(t, "-c", config)
	u.open(t, at+"/rpc", "protocol=a2a")

	p := u.page(t, desk, "target="+at+"/rpc")
	p.startRun()
	p.tells("hello")
	p.says("echo: hello")
	p.ends("Completed")
	p.tells("ask")
	p.says("Which one?")
	p.fill("textbox", "Your answer", "the blue one")
	p.click("button", "Answer")
	p.says("You said: the blue one")
	p.ends("Completed")
	p.tells("wait")
	p.row(`statusUpdate|WORKING|SendStreamingMessage .*waiting`)
	p.click("button", "Cancel")
	p.ends("Cancelled")
	p.row(`CancelTask .*result`)

	p = u.page(t, desk, "target=@tourist")
	p.startRun()
	p.tells("question")
	p.says("May I?")
	p.click("button", "Yes")
	p.ends("Completed")
	p.tells("wait")
	p.says("waiting")
	p.click("button", "Cancel")
	p.ends("Cancelled")
}

// compose puts text for a target into the composer and sends it.
func (p *tab) compose(u *up, name, text string) {
	p.t.Helper()
	p.visit(u.at(draftLink(name, text)))
	p.see("region", "Composer")
	p.until("the draft is not there", "eyes.bytes().length > 10")
	p.clickOn(`eyes.first("button", /^Send/, eyes.first("region", "Composer"))`)
}

// TestCancelReaches checks that a call cancelled by hand is cancelled at the other side in each
// protocol, which its own log shows.
func TestCancelReaches(t *testing.T) {
	t.Parallel()
	d := newDiary()
	base := others(t, d)
	u := start(t)
	u.open(t, base+"/acp", "protocol=acp")
	u.open(t, base+"/wait/a2a", "protocol=a2a")
	u.open(t, base+"/mcp", "protocol=mcp")
	p := u.page(t, desk, "")
	for _, c := range []struct{ protocol, target, text, says string }{
		{"mcp", base + "/mcp", `{"jsonrpc":"2.0","id":60,"method":"tools/call","params":{"name":"wait","arguments":{}}}`, "notifications/cancelled"},
		{"acp", base + "/acp", `{"jsonrpc":"2.0","id":61,"method":"runs/create","params":{"agent_name":"wait","mode":"stream","input":[{"role":"user","parts":[{"content_type":"text/plain","content":"x"}]}]}}`, "runs/cancel"},
		{"a2a", base + "/wait/a2a", `{"jsonrpc":"2.0","id":62,"method":"SendStreamingMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"x"}]}}}`, "CancelTask"},
	} {
		p.compose(u, c.target, c.text)
		d.has(t, c.protocol+" begins")
		if c.protocol != "mcp" {
			p.until("the other side has said nothing", `eyes.rows().some((r) => /runs\/create|SendStreaming/.test(r.text) && /inside/.test(r.text))`)
		}
		p.click("button", "Cancel")
		d.has(t, c.protocol+" was cancelled")
		if !strings.Contains(u.session(t), c.says) {
			t.Errorf("%s is not on the wire", c.says)
		}
	}
}

// answers responds to the question in the composer with one of its drafts.
func (p *tab) answers(name string) {
	p.t.Helper()
	p.click("button", name)
	p.key("Ctrl+Enter")
}

// TestQuestionsByHand answers requests from servers by hand: a login elsewhere, folders, a model's
// text, a custom method, a permission.
func TestQuestionsByHand(t *testing.T) {
	t.Parallel()
	base := others(t, newDiary())
	u := start(t)
	u.open(t, base+"/mcp", "protocol=mcp")
	p := u.page(t, desk, "")
	call := func(id int, name, arguments string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, arguments)
	}

	// A request elicitation/create in URL mode: the address is shown, and nothing is opened
	// automatically.
	p.compose(u, base+"/mcp", call(40, "ask-url", "{}"))
	p.question()
	p.see("button", "Accept")
	p.says("https://pay.example/9")
	p.see("link", "Open in a new tab")
	p.judgeBoth("question-url")
	p.answers("Accept")
	p.row(`ask-url .*result`)
	p.until("the tool did not hear of it", `eyes.all("region").some((e) => /url: accept/.test(e.textContent))`)

	// A request roots/list.
	p.compose(u, base+"/mcp", call(41, "ask-roots", "{}"))
	p.question()
	p.see("button", "One folder")
	p.judge("question-roots")
	p.answers("One folder")
	p.row(`ask-roots .*result`)
	p.until("the tool did not get the folder", `eyes.all("region").some((e) => /file:\/\/\/tmp\/project/.test(e.textContent))`)

	// A request sampling/createMessage: the person replaces the model.
	p.compose(u, "@table", call(42, "kitchen/invent", `{"ingredients":["leek","apple"]}`))
	p.question()
	p.says("Write the reply yourself")
	p.judge("question-sampling")
	p.bytes(strings.Replace(ask[string](p, "eyes.bytes()"), `"text": ""`, `"text": "Leek with apple."`, 1))
	p.key("Ctrl+Enter")
	p.row(`kitchen\/invent.*result`)
	p.until("the tool did not get the words", `eyes.all("region").some((e) => /Leek with apple/.test(e.textContent))`)

	// A request ask: a custom method of the caller.
	p.compose(u, "@demo-tcp", `{"jsonrpc":"2.0","id":43,"method":"ask","params":{"question":"Tea?"}}`)
	p.question()
	p.says("Tea?")
	p.judge("question-ask")
	p.bytes(strings.Replace(ask[string](p, "eyes.bytes()"), `"result": ""`, `"result": "Yes, with milk."`, 1))
	p.key("Ctrl+Enter")
	p.row(`ask .*result`)
	p.until("the answer did not arrive", `eyes.all("region").some((e) => /Yes, with milk/.test(e.textContent))`)

	// A request session/request_permission: the editor's part, by hand.
	var s struct {
		Ref    string         `json:"ref"`
		Answer string         `json:"answer"`
		Rest   map[string]any `json:",embed"`
	}
	// Pages that were left may hold their stream for a while, and a browser has six connections.
	p = u.page(t, desk, "")
	u.call(t, "targets/open", map[string]any{"target": "@scribe"})
	if err := json.Unmarshal(u.call(t, "send", map[string]any{"target": "@scribe", "wait": true, "text": `{"jsonrpc":"2.0","id":50,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`}), &s); err != nil {
		t.Fatal(err)
	}
	var m struct {
		Text string         `json:"text"`
		Rest map[string]any `json:",embed"`
	}
	if err := json.Unmarshal(u.call(t, "wire/message", map[string]any{"ref": s.Answer}), &m); err != nil {
		t.Fatal(err)
	}
	var made struct {
		Result struct {
			ID   string         `json:"sessionId"`
			Rest map[string]any `json:",embed"`
		} `json:"result"`
		Rest map[string]any `json:",embed"`
	}
	if err := json.Unmarshal([]byte(m.Text), &made); err != nil {
		t.Fatal(err)
	}
	p.compose(u, "@scribe", fmt.Sprintf(`{"jsonrpc":"2.0","id":51,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"Feed the cat."}]}}`, made.Result.ID))
	p.row(`session\/request_permission`)
	p.question()
	p.says("requests permission")
	p.judgeBoth("question-permission")
	p.answers("/^(Yes|Allow)/")
	p.row(`fs\/write_text_file`)
	p.question()
	p.says("No file is written")
	p.answers("Done")
	p.row(`session\/prompt .*(result|end_turn)`)
}
