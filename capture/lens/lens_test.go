package lens_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
)

const (
	initialize  = `> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}`
	initialized = `< {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"table","version":"1"}}}`
	modern      = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"h","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

// story makes a session from lines: "> message", "< message", "POST Name: value, Name: value",
// "end".
func story(lines []string) string {
	var out bytes.Buffer
	fmt.Fprintln(&out, `{"parley":"session","version":1}`)
	exchange := int64(0)
	for i, text := range lines {
		e := capture.Event{Seq: int64(i + 1), Kind: capture.KindMessage, Conn: 1, Exchange: exchange}
		word, rest, _ := strings.Cut(text, " ")
		switch word {
		case "POST":
			exchange++
			e.Kind, e.Dir, e.Exchange, e.Method, e.URL, e.Header = capture.KindRequest, capture.Out, exchange, "POST", "/", http.Header{}
			for field := range strings.SplitSeq(rest, ", ") {
				if name, value, ok := strings.Cut(field, ": "); ok {
					e.Header.Add(name, value)
				}
			}
		case "end":
			e.Kind = capture.KindEnd
		case ">":
			e.Dir, e.Data = capture.Out, []byte(rest)
		default:
			e.Dir, e.Data = capture.In, []byte(rest)
		}
		e.Size = len(e.Data)
		out.Write(capture.AppendLine(nil, &e))
	}
	return out.String()
}

func TestJudges(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  string // each row with details: ref, name, version, parent, state of a call, findings
	}{
		{"schema of the agreed revision", []string{initialize, initialized,
			`> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}`,
			`< {"jsonrpc":"2.0","id":1,"result":{"content":"none"}}`}, `
			3 schema: params.name is missing
			4 schema: result.content is string, not array`},
		{"null, used and cancelled ids", []string{initialize, initialized,
			`> {"jsonrpc":"2.0","id":null,"method":"tools/list"}`,
			`> {"jsonrpc":"2.0","id":0,"method":"ping"}`,
			`< {"jsonrpc":"2.0","id":0,"result":{}}`,
			`> {"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
			`> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
			`< {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`}, `
			3 mcp-id-null: an id must not be null in MCP
			4 mcp-id-used: id 0 was already used by #1 in this session
			8 late: #6 was cancelled before this response`},
		{"progress that does not grow, or belongs to nothing", []string{initialize, initialized,
			`> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":7}}}`,
			`< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":2}}`,
			`< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":2}}`,
			`< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"7","progress":1}}`}, `
			5 mcp-progress: progress must grow with each notification
			6 mcp-progress: progress for a request that is not open`},
		{"a batch where there are none", []string{initialize, initialized, `> [{"jsonrpc":"2.0","id":5,"method":"ping"}]`}, `
			3.1 mcp-batch: version 2025-11-25 has no batches`},
		{"headers that say something else", []string{
			`POST Mcp-Protocol-Version: 2026-07-28, Mcp-Method: tools/call, Mcp-Name: other`,
			`> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book",` + modern + `}}`,
			`end`,
			`POST Mcp-Protocol-Version: 2025-11-25`,
			`> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modern + `}}`}, `
			2 mcp-header: Mcp-Name is other, but the body has book; unanswered: the exchange ended without a response
			5 mcp-header: MCP-Protocol-Version is 2025-11-25, but the session uses 2026-07-28; mcp-header: Mcp-Method is missing`},
		{"A2A answers many times", []string{
			`POST A2A-Version: 1.0`,
			`> {"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}}`,
			`< {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}`,
			`< {"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t","contextId":7,"status":{"state":"TASK_STATE_COMPLETED"}}}}`}, `
			4 schema: result.statusUpdate.contextId is integer, not string`},
		{"an agent of an editor", []string{
			`> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`,
			`< {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}`,
			`> {"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"x"}]}}`,
			`< {"jsonrpc":"2.0","id":1,"result":{"stopReason":"bored"}}`,
			`> {"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":7,"mcpServers":[]}}`}, `
			4 schema: result.stopReason is "bored"; end_turn, max_tokens, max_turn_requests, refusal or cancelled expected
			5 schema: params.cwd is integer, not string`,
		},
		{"an answer with a number to an elicitation, which the published schema forbids by mistake", []string{initialize, initialized,
			`< {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"number":{"type":"number","default":3.14}}}}}`,
			`> {"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"number":3.14,"whole":3,"yes":true,"text":"x"}}}`}, ``},
		{"an answer that no branch takes", []string{initialize, initialized,
			`< {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`,
			`> {"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"a":{"b":1}}}}`}, `
			4 schema: result.content.a is object; string[], string, number or boolean expected`},
		{"JSON-RPC without any of them", []string{
			`> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"anything":1}}`, `< {"jsonrpc":"2.0","id":0,"result":1}`,
			`> {"jsonrpc":"2.0","id":1,"method":"tasks/get","params":[7]}`}, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, err := capture.Read(strings.NewReader(story(c.lines)), lens.Judges()...)
			if err != nil || log.Err() != nil {
				t.Fatal(err, log.Err())
			}
			var got []string
			for _, r := range log.Rows(capture.Ref{}, 0) {
				var found []string
				for _, f := range r.Findings {
					found = append(found, f.Rule+": "+f.Text)
				}
				if len(found) > 0 {
					got = append(got, r.Ref.String()+" "+strings.Join(found, "; "))
				}
			}
			want := strings.ReplaceAll(strings.TrimSpace(c.want), "\t", "")
			if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestNamesAndTies checks the subject of a call, and which messages belong to it.
func TestNamesAndTies(t *testing.T) {
	log, err := capture.Read(strings.NewReader(story([]string{initialize, initialized,
		`> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book","_meta":{"progressToken":"a"}}}`,
		`> {"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"file:///x","_meta":{"progressToken":"b"}}}`,
		`< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"b","progress":1,"total":3,"message":"half"}}`,
		`< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"no"}],"isError":true}}`,
		`> {"jsonrpc":"2.0","id":9,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///y"},"workDoneToken":5}}`,
		`> {"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":9}}`,
	})), lens.Judges()...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range log.Rows(capture.Ref{Seq: 3}, 0) {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s under %s %s %s", r.Ref, r.Name, r.Parent, r.State, r.Brief)))
	}
	want := []string{"3 book under  done", "4 file:///x under  waiting", "5  under 4  half", "6 book under 3  tool error: no", "7 file:///y under  cancelled", "8  under 7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestBriefs checks the short summaries of results.
func TestBriefs(t *testing.T) {
	for _, c := range []struct{ result, want string }{
		{`19`, "19"},
		{`null`, "null"},
		{`"hello,\n you"`, `"hello,\n you"`},
		{`{}`, ""},
		{`["hello",5]`, `["hello",5]`},
		{`[` + strings.Repeat(`{"a":1},`, 20) + `{}]`, "21 items"},
		{`{"a":1,"b":[1,2]}`, `{"a":1,"b":[1,2]}`},
		{`{"tools":[{"name":"` + strings.Repeat("x", 60) + `"}]}`, "1 tool"},
		{`{"next":"` + strings.Repeat("x", 60) + `","classes":[{},{}]}`, "2 classes"},
		{`{"first":"` + strings.Repeat("x", 60) + `","second":[]}`, "first, second"},
		{`{"capabilities":{"hoverProvider":true,"more":[1,2,3,4,5,6,7]},"serverInfo":{"name":"gopls","version":"v0.20"}}`, "gopls v0.20"},
		{`[` + strings.Repeat(`1,`, 40_000) + `1]`, ""}, // too long to be examined
	} {
		log, err := capture.Read(strings.NewReader(story([]string{`> {"jsonrpc":"2.0","id":1,"method":"x"}`, `< {"jsonrpc":"2.0","id":1,"result":` + c.result + `}`})), lens.Judges()...)
		if err != nil {
			t.Fatal(err)
		}
		if r, _ := log.Row(capture.Ref{Seq: 2}); r.Brief != c.want {
			t.Errorf("%.100s: %q, want %q", c.result, r.Brief, c.want)
		}
	}
	log, err := capture.Read(strings.NewReader(story([]string{initialize, initialized,
		`> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book"}}`,
		`< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"image","data":"","mimeType":"image/png"}]}}`,
		`> {"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"x:y"}}`,
		`< {"jsonrpc":"2.0","id":2,"result":{"contents":[{"uri":"x:y","text":"# Menu\nSoup"}]}}`,
	})), lens.Judges()...)
	if err != nil {
		t.Fatal(err)
	}
	for seq, want := range map[int64]string{2: "table 2025-11-25", 4: "image", 6: "# Menu Soup"} {
		if r, _ := log.Row(capture.Ref{Seq: seq}); r.Brief != want {
			t.Errorf("#%d: %q, want %q", seq, r.Brief, want)
		}
	}
}

// TestUpdatesInWords checks that updates from an editor's agent show their text.
func TestUpdatesInWords(t *testing.T) {
	update := func(u string) string {
		return `< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + u + `}}`
	}
	log, err := capture.Read(strings.NewReader(story([]string{
		`> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`,
		update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Water\n the plants. "}}`),
		update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":" "}}`),
		update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"","mimeType":"image/png"}}`),
		update(`{"sessionUpdate":"tool_call","toolCallId":"1","title":"Write note.md","content":[]}`),
	})), lens.Judges()...)
	if err != nil {
		t.Fatal(err)
	}
	for seq, want := range map[int64]string{2: "agent_message_chunk: Water the plants.", 3: "agent_message_chunk", 4: "agent_message_chunk", 5: "Write note.md"} {
		if r, _ := log.Row(capture.Ref{Seq: seq}); r.Brief != want {
			t.Errorf("#%d: %q, want %q", seq, r.Brief, want)
		}
	}
}

func BenchmarkOpen100000(b *testing.B) {
	lines := []string{initialize, initialized}
	for i := range 50_000 {
		lines = append(lines, fmt.Sprintf(`> {"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"book-table","arguments":{"guests":4}}}`, i+1),
			fmt.Sprintf(`< {"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"Zur Linde, 4 guests, 20:15, garden."}]}}`, i+1))
	}
	text := story(lines)
	for b.Loop() {
		log, err := capture.Read(strings.NewReader(text), lens.Judges()...)
		if err != nil || log.Len() != 100_002 {
			b.Fatal(err, log.Len())
		}
	}
}
