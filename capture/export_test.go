package capture_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

// aSession is a call over HTTP whose answer is a stream, and one on a byte stream.
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
