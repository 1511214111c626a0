package capture_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/harmless"
)

// aSession returns a Log with one HTTP call whose response is a stream, and one call on a byte
// stream.
func aSession(t *testing.T) *capture.Log {
	t.Helper()
	rec, err := capture.New(&capture.Options{MaxDisk: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := rec.Wire(capture.WireInfo{Target: "http://127.0.0.1:3000/mcp", Carrier: "http"})
	x := w.Exchange(capture.Out, "POST", "/mcp?n=1", http.Header{"Content-Type": {"application/json"}})
	x.Request([]byte(`{"jsonrpc":"2.0","id":1,"method":"a"}`))
	x.Head(200, http.Header{"Content-Type": {"text/event-stream"}})
	x.Response([]byte(`{"jsonrpc":"2.0","method":"tick","params":{"password":"hunter2"}}`), "1")
	x.Response([]byte(`{"jsonrpc":"2.0","id":1,"result":"| <b>"}`), "2")
	x.End(nil)
	s := rec.Wire(capture.WireInfo{Target: "node server.js", Carrier: "stdio"})
	s.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","id":1,"method":"b"}`))
	s.Payload(capture.In, []byte("```\nno json"))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return rec.Log
}

func TestHAR(t *testing.T) {
	var out bytes.Buffer
	if err := aSession(t).WriteHAR(&out, nil); err != nil {
		t.Fatal(err)
	}
	var har struct {
		Log struct {
			Entries []struct {
				Request struct {
					URL  string `json:"url"`
					Post struct {
						Text string `json:"text"`
					} `json:"postData"`
				} `json:"request"`
				Response struct {
					Status  int `json:"status"`
					Content struct {
						Text string `json:"text"`
					} `json:"content"`
				} `json:"response"`
				Messages []struct{ Type, Data string } `json:"_webSocketMessages"`
			} `json:"entries"`
		} `json:"log"`
	}
	if err := json.Unmarshal(out.Bytes(), &har); err != nil {
		t.Fatal(err)
	}
	if len(har.Log.Entries) != 2 {
		t.Fatalf("%d entries, want 2: %s", len(har.Log.Entries), out.Bytes())
	}
	web, pipe := har.Log.Entries[0], har.Log.Entries[1]
	if web.Request.URL != "http://127.0.0.1:3000/mcp?n=1" || web.Request.Post.Text == "" || web.Response.Status != 200 || len(web.Messages) != 2 ||
		!strings.HasPrefix(web.Response.Content.Text, "data: {") {
		t.Errorf("over HTTP: %+v", web)
	}
	if len(pipe.Messages) != 2 || pipe.Messages[0].Type != "send" || pipe.Messages[1].Data != "```\nno json" {
		t.Errorf("on stdio: %+v", pipe)
	}
	if strings.Contains(out.String(), "hunter2") {
		t.Error("a password is in the archive")
	}
}

func TestMarkdownAndPartOfASession(t *testing.T) {
	log := aSession(t)
	filter, err := capture.ParseFilter("method:b", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var all, part bytes.Buffer
	if err := log.WriteMarkdown(&all, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| a |", "| result a |", "````json\n```\nno json\n````", `{"jsonrpc":"2.0","id":1,"result":"| <b>"}`} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("%q is missing:\n%s", want, all.String())
		}
	}
	if strings.Contains(all.String(), "hunter2") {
		t.Error("a password is in the text")
	}
	if err := log.WriteSession(&part, &capture.ExportOptions{Filter: filter}); err != nil {
		t.Fatal(err)
	}
	again, err := capture.Read(&part)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range again.Rows(capture.Ref{}, 0) {
		if r.Method == "a" {
			t.Errorf("%+v was not chosen", r)
		}
	}
	if _, err := again.Payload(capture.Ref{Seq: 9}); err != nil {
		t.Errorf("what was chosen: %v\n%s", err, part.String())
	}
}

// hostile is text that controls a terminal, in all forms in which a peer can put it into JSON or
// next to it.
const hostile = "\x1b]0;t\a\x1b[2J\u009b31m\x7f\b\r\u202eabc\u2066\u200b\u2060\ufeff\U000e0041\u2028 | [a](http://x) <b> `c` &#x202e;"

// TestExportsAreHarmless checks that no export and no recording contains terminal controls, and
// none changes the meaning.
func TestExportsAreHarmless(t *testing.T) {
	rec, err := capture.New(&capture.Options{MaxDisk: -1})
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	raw := "\u009b\x7f\u202e\u200b\U000e0041" // valid in a JSON string
	w := rec.Wire(capture.WireInfo{Target: "http://h/" + raw, Carrier: "http"})
	x := w.Exchange(capture.Out, "POST", "/"+raw, http.Header{"X-" + raw: {raw}})
	x.Request([]byte(`{"jsonrpc":"2.0","id":"` + raw + `","method":` + string(quoted) + `,"params":["` + raw + `"]}`))
	x.Head(200, http.Header{"X": {raw}})
	x.Response([]byte(`{"jsonrpc":"2.0","id":"`+raw+`","error":{"code":1,"message":"`+raw+`"}}`), "1")
	x.Response([]byte(hostile+"\xff\n# parley: fine\n"+strings.Repeat("`", 40)), "2")
	x.End(nil)
	rec.Wire(capture.WireInfo{Target: raw, Carrier: "stdio"}).Stderr([]byte(hostile))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(io.Writer, *capture.ExportOptions) error{
		"markdown": rec.Log.WriteMarkdown, "har": rec.Log.WriteHAR, "session": rec.Log.WriteSession,
	} {
		var out bytes.Buffer
		if err := write(&out, &capture.ExportOptions{Redact: capture.Redaction{Off: true}}); err != nil {
			t.Fatal(err)
		}
		for i, r := range out.String() {
			switch {
			case r == '\n', r == '\t':
			case r < ' ', r >= 0x7f && r < 0xa0:
				t.Errorf("%s holds U+%04X at %d", name, r, i)
			case name != "session" && harmless.Hidden(r): // recorded frames are unchanged
				t.Errorf("%s holds U+%04X at %d", name, r, i)
			}
		}
		switch name {
		case "har":
			if !json.Valid(out.Bytes()) {
				t.Errorf("the archive is no JSON: %s", out.Bytes())
			}
		case "markdown":
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(line, "|") && strings.Contains(line, "&#x202e;") {
					t.Errorf("a cell holds an entity, which Markdown would decode: %s", line)
				}
				if strings.HasPrefix(line, "|") && strings.Contains(line, "[a](") {
					t.Errorf("a cell holds a link: %s", line)
				}
			}
			if !utf8.Valid(out.Bytes()) || !strings.Contains(out.String(), strings.Repeat("`", 41)+"json\n") {
				t.Errorf("text became Markdown:\n%s", out.String())
			}
		case "session":
			again, err := capture.Read(&out)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rec.Log.Rows(capture.Ref{}, 0) {
				before, errBefore := rec.Log.Payload(r.Ref)
				after, errAfter := again.Payload(r.Ref)
				if !bytes.Equal(before, after) || (errBefore == nil) != (errAfter == nil) {
					t.Errorf("%s %s was %q, is %q", r.Ref, r.Kind, before, after)
				}
			}
		}
	}
}

// TestMarkdownOfBackticksIsQuick checks that the fence for a payload of backticks only is found in
// one pass.
func TestMarkdownOfBackticksIsQuick(t *testing.T) {
	rec, err := capture.New(&capture.Options{MaxDisk: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := rec.Wire(capture.WireInfo{Target: "x", Carrier: "stdio"})
	for range 200 { // 200 × 16,384² comparisons would take minutes
		w.Payload(capture.In, bytes.Repeat([]byte("`"), 64<<10))
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := rec.Log.WriteMarkdown(&out, nil); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("`", 16<<10+1) + "json\n"; !strings.Contains(out.String(), want) {
		t.Error("the fence is not longer than what it encloses")
	}
}

// TestHARofManyMessages checks that a stream of many messages is exported at a cost that is
// proportional to its length: each message used to copy all before it.
func TestHARofManyMessages(t *testing.T) {
	rec, err := capture.New(&capture.Options{MaxDisk: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := rec.Wire(capture.WireInfo{Target: "http://127.0.0.1:3000/mcp", Carrier: "http"})
	x := w.Exchange(capture.Out, "POST", "/mcp", http.Header{"Content-Type": {"application/json"}})
	x.Head(200, http.Header{"Content-Type": {"text/event-stream"}})
	const messages = 2000
	for i := range messages {
		x.Request([]byte(`{"jsonrpc":"2.0","method":"a"}`))
		x.Response([]byte(`{"jsonrpc":"2.0","method":"tick","params":["`+strings.Repeat("x", 100)+`"]}`), strconv.Itoa(i))
	}
	x.End(nil)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := rec.Log.WriteHAR(io.Discard, nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 64<<20 {
		t.Errorf("%d messages allocate %d MiB", messages, spent>>20)
	}
}

// TestMembersOfALargeBatch checks that reading each message of a batch costs one pass over it, not
// one for each message: as a replay, a comparison, a search and an export do it.
func TestMembersOfALargeBatch(t *testing.T) {
	const members = 2000
	rec, err := capture.New(&capture.Options{MaxDisk: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := rec.Wire(capture.WireInfo{Target: "a", Carrier: "tcp"})
	for dir, form := range map[capture.Dir]string{capture.Out: `{"jsonrpc":"2.0","id":%d,"method":"m","params":["x"]}`, capture.In: `{"jsonrpc":"2.0","id":%d,"result":["x"]}`} {
		var all []string
		for i := range members {
			all = append(all, fmt.Sprintf(form, i))
		}
		w.Payload(dir, []byte("["+strings.Join(all, ",")+"]"))
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	rows := rec.Log.Rows(capture.Ref{}, 0)
	for name, read := range map[string]func() (n int){
		"payloads": func() (n int) {
			for i := range members {
				for _, seq := range []int64{rows[len(rows)-1].Ref.Seq, rows[len(rows)-1].Ref.Seq - 1} {
					if text, err := rec.Log.Payload(capture.Ref{Seq: seq, Member: i + 1}); err == nil && bytes.Contains(text, fmt.Appendf(nil, `"id":%d,`, i)) {
						n++
					}
				}
			}
			return n
		},
		"search": func() (n int) {
			f, err := capture.ParseFilter("jsonrpc", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			for range rec.Log.Select(f, capture.Ref{}) {
				n++
			}
			return n - 2 // the batches
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n := read()
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 32<<20 || n != 2*members {
			t.Errorf("%s: %d of %d messages, %d MiB", name, n, 2*members, spent>>20)
		}
	}
}
