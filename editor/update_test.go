package editor_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// updates holds one update of each kind in wire form. Each must be valid, and equal after decoding
// and encoding it.
var updates = []string{
	`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"hi"}}`,
	`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"h\u00e9"},"messageId":"m1"}`,
	`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"AAEC","mimeType":"image/png","uri":"file:///a.png"}}`,
	`{"sessionUpdate":"agent_message_chunk","content":{"type":"audio","data":"","mimeType":"audio/wav"},"_meta":{"a":1}}`,
	`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource_link","name":"n","uri":"file:///n","size":3,"annotations":{"audience":["user"],"priority":0.5}}}`,
	`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource","resource":{"uri":"file:///t","mimeType":"text/plain","text":"x"}}}`,
	`{"sessionUpdate":"agent_message_chunk","content":{"type":"resource","resource":{"uri":"file:///b","blob":"AA=="},"_meta":{"k":"v"}}}`,
	`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":""}}`,
	`{"sessionUpdate":"tool_call","toolCallId":"1","title":"Read","kind":"read","status":"pending","locations":[{"path":"/a","line":3}],"rawInput":{"path":"/a"}}`,
	`{"sessionUpdate":"tool_call","toolCallId":"1","title":""}`,
	`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"x"}},{"type":"diff","path":"/a","newText":""},{"type":"terminal","terminalId":"t"}],"rawOutput":null}`,
	`{"sessionUpdate":"tool_call_update","toolCallId":"1","content":[]}`,
	`{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"in_progress"}]}`,
	`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"web","description":"Searches.","input":{"hint":"what"}},{"name":"x","description":""}]}`,
	`{"sessionUpdate":"current_mode_update","currentModeId":"code"}`,
	`{"sessionUpdate":"config_option_update","configOptions":[{"type":"select","id":"m","name":"Model","currentValue":"a","options":[{"group":"g","name":"G","options":[{"value":"a","name":"A"}]}]},{"type":"boolean","id":"b","name":"B","currentValue":true}]}`,
	`{"sessionUpdate":"session_info_update","title":null,"updatedAt":"2026-11-20T15:00:00Z"}`,
	`{"sessionUpdate":"session_info_update"}`,
	`{"sessionUpdate":"usage_update","used":10,"size":100,"cost":{"amount":0.25,"currency":"EUR"}}`,
	`{"sessionUpdate":"notice","severity":"warning","title":"Careful","description":"hot"}`,
	`{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed","summary":[{"type":"text","text":"short"}]}`,
	`{"sessionUpdate":"compaction_summary_chunk","compactionId":"c","content":{"type":"text","text":"short"}}`,
}

// foreign holds updates that version 1 does not define, or not in this form. They pass through byte
// for byte.
var foreign = []string{
	`{"sessionUpdate":"_acme/mood","mood":{"happy":true}}`,
	`{"sessionUpdate":"plan_update","planId":7}`,
	`{"sessionUpdate":"agent_message_chunk","content":{"type":"hologram","rays":[1,2]}}`,
	`{"sessionUpdate":"tool_call_update","toolCallId":"1","content":[{"type":"_acme/chart","bars":[1]}]}`,
	`{"sessionUpdate":"usage_update","used":"many","size":1}`,
	`{"mood":"no kind at all"}`,
	`{"sessionUpdate":"agent_thought_chunk"}`,
}

func again(t *testing.T, text string) (*editor.Update, string) {
	t.Helper()
	u := new(editor.Update)
	if err := jsonrpc.Raw(text).Decode(u); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	out, err := u.AppendJSON(nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return u, string(out)
}

func TestUpdates(t *testing.T) {
	b := schemaOf(t)
	kinds := map[string]bool{}
	for _, text := range updates {
		u, out := again(t, text)
		kinds[u.Kind] = true
		if u.Raw != nil {
			t.Errorf("not understood: %s", text)
		}
		if err := b.check("SessionUpdate", []byte(out)); err != nil {
			t.Errorf("%s is written as %s, which is no SessionUpdate: %v", text, out, err)
		}
		if v, w := canonical(t, text), canonical(t, out); v != w {
			t.Errorf("read and written:\n got %s\nwant %s", w, v)
		}
	}
	if len(kinds) != 14 {
		t.Errorf("%d kinds were tried", len(kinds))
	}
}

func TestForeignUpdatesPassThrough(t *testing.T) {
	for _, text := range foreign {
		if _, out := again(t, text); out != text {
			t.Errorf("\n got %s\nwant %s", out, text)
		}
	}
}

// TestUnknownMembersAreKept checks that members that version 1 does not define are retained.
func TestUnknownMembersAreKept(t *testing.T) {
	u, out := again(t, `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"},"mood":"good"}`)
	if u.Text() != "x" || string(u.Chunk.Extra["mood"]) != `"good"` {
		t.Errorf("read as %+v", u.Chunk)
	}
	if out != `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"},"mood":"good"}` {
		t.Errorf("written as %s", out)
	}
}

func TestServersOfMCP(t *testing.T) {
	b := schemaOf(t)
	for _, text := range []string{
		`{"name":"a","command":"/bin/a","args":["-x"],"env":[{"name":"K","value":"v"}]}`,
		`{"name":"a","command":"/bin/a","args":[],"env":[]}`,
		`{"type":"http","name":"h","url":"https://example.com/mcp","headers":[{"name":"A","value":"b"}]}`,
		`{"type":"sse","name":"s","url":"https://example.com/sse","headers":[]}`,
	} {
		var m editor.MCPServer
		if err := jsonrpc.Raw(text).Decode(&m); err != nil {
			t.Fatal(err)
		}
		out, err := m.AppendJSON(nil)
		if err != nil || canonical(t, string(out)) != canonical(t, text) {
			t.Errorf("\n got %s, %v\nwant %s", out, err, text)
		}
		if err := b.check("McpServer", out); err != nil {
			t.Error(err)
		}
	}
	var m editor.MCPServer
	strange := `{"type":"acp","name":"x","port":1}`
	if err := jsonrpc.Raw(strange).Decode(&m); err != nil {
		t.Fatal(err)
	}
	if out, err := m.AppendJSON(nil); err != nil || string(out) != strange {
		t.Errorf("a type that nobody knows is written as %s, %v", out, err)
	}
}

func TestOptions(t *testing.T) {
	o := editor.Choice("m", "Model", "a", editor.ConfigValue{Value: "a", Name: "A"})
	if diff := cmp.Diff([]editor.ConfigValue{{Value: "a", Name: "A"}}, o.Values()); diff != "" {
		t.Error(diff)
	}
	o.Options = raw(`[{"group":"g","name":"G","options":[{"value":"b","name":"B"}]},{"value":"c","name":"C"}]`)
	if diff := cmp.Diff([]editor.ConfigValue{{Value: "b", Name: "B"}, {Value: "c", Name: "C"}}, o.Values()); diff != "" {
		t.Error(diff)
	}
	if s := editor.Switch("x", "X", true); string(s.CurrentValue) != "true" || s.Values() != nil {
		t.Errorf("a switch is %+v", s)
	}
}
