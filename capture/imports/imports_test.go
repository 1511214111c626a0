package imports

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/capture"
)

// TestRead reads recordings as the programs write them.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text, format string
		want               []string
		skipped            int
	}{
		{"HAR of a browser", `{"log":{"version":"1.2","entries":[
 {"startedDateTime":"2026-11-20T12:00:01.000Z","time":20,"request":{"method":"POST","url":"https://h.example/mcp?x=1","headers":[{"name":":authority","value":"h"},{"name":"Content-Type","value":"application/json"}],"postData":{"mimeType":"application/json","text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}"}},
  "response":{"status":200,"headers":[],"content":{"mimeType":"text/event-stream","text":"id: 7\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":1,\"result\":1}\r\n\r\n: ping\n\n"}}},
 {"startedDateTime":"2026-11-20T12:00:00Z","time":5,"request":{"method":"GET","url":"https://h.example/logo.png","headers":[]},"response":{"status":200,"headers":[],"content":{"mimeType":"image/png","encoding":"base64","text":"AAAA"}}},
 {"startedDateTime":"2026-11-20T12:00:02Z","time":5,"request":{"method":"POST","url":"https://h.example/mcp","headers":[],"postData":{"text":"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"b\"}"}},"response":{"status":0,"headers":[],"content":{}}},
 {"startedDateTime":"2026-11-20T12:00:03Z","time":0,"_resourceType":"websocket","_webSocketMessages":[{"type":"send","time":1795176184.5,"opcode":1,"data":"{\"jsonrpc\":\"2.0\",\"method\":\"n\"}"},{"type":"receive","time":1795176185,"opcode":1,"data":"no json"}],"request":{"method":"GET","url":"wss://h.example/ws","headers":[]},"response":{"status":101,"headers":[],"content":{}}},
 {"startedDateTime":"yesterday","request":{},"response":{}}]}}`, formatHAR, []string{
			"open 1  https://h.example/mcp", "request 1 out POST /mcp?x=1", `message 1 out {"jsonrpc":"2.0","id":1,"method":"a"}`, "response 1 in 200",
			"message 1 in {\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":1}", "end 1  ", "request 1 out POST /mcp", `message 1 out {"jsonrpc":"2.0","id":2,"method":"b"}`, "end 1  there was no response",
			"open 2  wss://h.example/ws", `message 2 out {"jsonrpc":"2.0","method":"n"}`, "message 2 in no json"}, 2},
		{"log of mcpsnoop", `{"session_id":"s","server_label":"notes","seq":1,"ts":"2026-11-20T12:00:00Z","direction":"meta","transport":"stdio","raw":{"command":["x"]}}
{"session_id":"s","server_label":"notes","seq":2,"ts":"2026-11-20T12:00:01Z","direction":"c2s","transport":"stdio","raw":{"jsonrpc":"2.0","id":9007199254740993,"method":"a"}}
{"session_id":"s","server_label":"notes","seq":3,"ts":"2026-11-20T12:00:02Z","direction":"stderr","transport":"stdio","text":"hello"}
{"session_id":"s","server_label":"notes","seq":4,"ts":"2026-11-20T12:00:03Z","direction":"s2c","transport":"stdio","text":"banner"}
{"session_id":"s","server_la`, formatMcpsnoop, []string{"open 1  notes", `message 1 out {"jsonrpc":"2.0","id":9007199254740993,"method":"a"}`, "stderr 1  hello", "message 1 in banner"}, 1},
		{"export of mcpsnoop", `{"generated_at":"2026-11-20T12:00:09Z","session":{"id":"s","label":"h:1","transport":"http","endpoint":"http://h:1/mcp"},"calls":[],"events":[
 {"seq":1,"timestamp":"2026-11-20T12:00:01Z","direction":"c2s","kind":"request","raw":{
   "jsonrpc": "2.0", "id": 1, "method": "a"}}]}`, formatMcpsnoop, []string{"open 1  http://h:1/mcp", `message 1 out {"jsonrpc":"2.0","id":1,"method":"a"}`}, 0},
		{"history of the Inspector", `{"exportedAt":"2026-11-20T12:00:09Z","entries":[
 {"id":"1","timestamp":"2026-11-20T12:00:01Z","direction":"request","message":{"jsonrpc":"2.0","id":0,"method":"initialize"},"response":{"jsonrpc":"2.0","id":0,"result":{}},"duration":4.5},
 {"id":"2","timestamp":"2026-11-20T12:00:02Z","direction":"notification","message":{"jsonrpc":"2.0","method":"notifications/initialized"}},
 {"id":"3","timestamp":"2026-11-20T12:00:03Z","direction":"request","message":{"jsonrpc":"2.0","id":0,"method":"roots/list"},"response":{"jsonrpc":"2.0","id":0,"result":{"roots":[]}}},
 {"id":"4","timestamp":"2026-11-20T12:00:04Z","direction":"notification","message":{"jsonrpc":"2.0","method":"notifications/message"}},
 {"id":"5","timestamp":"2026-11-20T12:00:05Z","direction":"request","origin":"server","message":{"jsonrpc":"2.0","id":1,"method":"ping"}},
 {"id":"6","message":{"text":"no message"}}]}`, formatInspector, []string{
			"open 1  ", `message 1 out {"jsonrpc":"2.0","id":0,"method":"initialize"}`, `message 1 in {"jsonrpc":"2.0","id":0,"result":{}}`, `message 1 out {"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`message 1 in {"jsonrpc":"2.0","id":0,"method":"roots/list"}`, `message 1 out {"jsonrpc":"2.0","id":0,"result":{"roots":[]}}`, `message 1 in {"jsonrpc":"2.0","method":"notifications/message"}`, `message 1 in {"jsonrpc":"2.0","id":1,"method":"ping"}`}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read([]byte("\ufeff" + c.text))
			if err != nil {
				t.Fatal(err)
			}
			var events []string
			for i, e := range got.Events {
				if e.Seq != int64(i+1) {
					t.Errorf("event %d has the number %d", i, e.Seq)
				}
				text := string(e.Data) + e.Text
				switch e.Kind {
				case capture.KindOpen:
					text = e.Wire.Target
				case capture.KindRequest:
					text = e.Method + " " + e.URL
				case capture.KindResponse:
					text = fmt.Sprint(e.Status)
				}
				events = append(events, fmt.Sprintf("%s %d %s %s", e.Kind, e.Conn, e.Dir, text))
			}
			if !slices.Equal(events, c.want) || got.Format != c.format || got.Skipped != c.skipped {
				t.Errorf("%s, %d skipped\n got %q\nwant %q", got.Format, got.Skipped, events, c.want)
			}
		})
	}
}

// TestReadHostile reads recordings with entries of wrong types, impossible times and other bodies:
// such an entry is skipped, and all others are read.
func TestReadHostile(t *testing.T) {
	const call = `{"startedDateTime":"2026-11-20T12:00:00Z","time":1,"request":{"method":"POST","url":"http://h/","postData":{"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}"}},"response":{"status":200,"content":{"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}"}}}`
	har := func(entries ...string) string { return `{"log":{"entries":[` + strings.Join(entries, ",") + `]}}` }
	with := func(old, new string) string {
		if !strings.Contains(call, old) {
			t.Fatalf("there is no %s", old)
		}
		return strings.Replace(call, old, new, 1)
	}
	const message = `{"jsonrpc":"2.0","id":1,"result":1}`
	encoded := base64.StdEncoding.EncodeToString([]byte(message))
	for name, c := range map[string]struct {
		text              string
		messages, skipped int
	}{
		"status is a text":     {har(with(`"status":200`, `"status":"200"`), call), 2, 1},
		"entries of any type":  {har(`null`, `7`, `"x"`, `[]`, `{}`, call), 2, 5},
		"headers are a map":    {har(with(`"method":"POST"`, `"method":"POST","headers":{"a":"b"}`), call), 2, 1},
		"time is huge":         {har(with(`"time":1`, `"time":1e300`)), 2, 0},
		"time is not known":    {har(with(`"time":1`, `"time":-1`)), 2, 0},
		"the last year":        {har(with(`2026-11-20T12:00:00Z","time":1`, `9999-12-31T23:59:59Z","time":1000`)), 2, 0},
		"base64":               {har(with(`"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}"`, `"encoding":"base64","text":"`+encoded+`"`)), 2, 0},
		"base64 in lines":      {har(with(`"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}"`, `"encoding":"base64","text":"`+encoded[:8]+`\r\n`+encoded[8:]+`"`)), 2, 0},
		"base64 that is none":  {har(with(`"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}"`, `"encoding":"base64","text":"%%%"`)), 1, 0},
		"an encoded stream":    {har(with(`"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}"`, `"mimeType":"Text/Event-Stream; charset=utf-8","encoding":"base64","text":"`+base64.StdEncoding.EncodeToString([]byte("data: "+message+"\r\rdata: "+message))+`"`)), 3, 0},
		"streams of others":    {har(call, `{"startedDateTime":"2026-11-20T12:00:00Z","request":{"method":"GET","url":"http://h/"},"response":{"status":200,"content":{"mimeType":"text/event-stream","text":"data: tick\n\n"}}}`), 2, 1},
		"binary frames":        {har(`{"startedDateTime":"2026-11-20T12:00:00Z","_resourceType":"websocket","_webSocketMessages":[{"type":"receive","time":1e300,"opcode":2,"data":"` + encoded + `"},{"type":"send","time":-5,"opcode":2,"data":"%"}],"request":{"url":"ws://h/"},"response":{}}`), 2, 0},
		"export of mcpsnoop":   {`{"session":{"id":"s"},"events":[7,{"timestamp":"never"},{"timestamp":"2026-11-20T12:00:01Z","direction":"c2s","raw":` + message + `}]}`, 1, 2},
		"log of mcpsnoop":      {`{"ts":"2026-11-20T12:00:01Z","direction":"c2s","raw":` + message + "}\n[]\n{\"ts\":7}\n{\"ts\":\"2026-11-20T12:00:02Z\",\"direction\":\"s2c\",\"raw\":" + message[:20], 1, 3},
		"history of Inspector": {`[5,{"timestamp":9,"message":{}},{"timestamp":"2026-11-20T12:00:01Z","direction":"request","message":{"jsonrpc":"2.0","id":1,"method":"a"},"response":` + message + `,"duration":1e300}]`, 2, 2},
	} {
		got, err := Read([]byte(c.text))
		if c.messages == 0 {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		messages := 0
		lines := capture.AppendHeader(nil)
		for i := range got.Events {
			if got.Events[i].Kind == capture.KindMessage {
				messages++
			}
			lines = capture.AppendLine(lines, &got.Events[i])
		}
		if messages != c.messages || got.Skipped != c.skipped {
			t.Errorf("%s: %d messages and %d skipped, want %d and %d", name, messages, got.Skipped, c.messages, c.skipped)
		}
		if log, err := capture.Read(bytes.NewReader(lines)); err != nil || log.Err() != nil {
			t.Errorf("%s: the session cannot be read: %v", name, err)
		}
	}
}

func TestReadNothing(t *testing.T) {
	for text, want := range map[string]error{
		"": errUnknown, "hello": errUnknown, "{": errUnknown, "[]": errUnknown, "[1]": errUnknown, `{"a":[{"b":1}]}`: errUnknown,
		`{"log":{"entries":[]}}`: errEmpty, `{"session":{},"events":[]}`: errEmpty,
	} {
		if got, err := Read([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// FuzzRead reads any text: it must not panic, and the events must be valid lines of a session.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"log":{"entries":[{"startedDateTime":"2026-11-20T12:00:01Z","request":{"method":"POST","url":"http://h/","postData":{"text":"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}"}},"response":{"status":200}}]}}`,
		`{"ts":"2026-11-20T12:00:01Z","direction":"c2s","raw":{"jsonrpc":"2.0","method":"a"}}`,
		`[{"timestamp":"2026-11-20T12:00:01Z","direction":"request","message":{"jsonrpc":"2.0","method":"a"}}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Read(text)
		if err != nil {
			return
		}
		for i := range got.Events {
			line := capture.AppendLine(nil, &got.Events[i])
			if _, err := capture.ParseLine(line); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
	})
}
