package capture_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/capture"
)

// aHostileSession returns a Log whose peer sends markup, secrets and hidden characters everywhere.
func aHostileSession(t *testing.T) *capture.Log {
	t.Helper()
	// Recorded with its secrets: the export has to hide them.
	rec, err := capture.New(&capture.Options{MaxDisk: -1, Redact: capture.Redaction{Off: true}})
	if err != nil {
		t.Fatal(err)
	}
	s := rec.Wire(capture.WireInfo{Target: "node <script>alert(1)</script> --token gh" + "p_abcdefghijklmnopqrstuvwxyz0123456789", Carrier: "stdio"})
	s.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","id":"<img src=x onerror=alert(2)>","method":"<b>bold</b>","params":{"password":"hunter2","x":"</pre><script>alert(3)</script>"}}`))
	s.Payload(capture.In, []byte(`{"jsonrpc":"2.0","id":"<img src=x onerror=alert(2)>","error":{"code":-32000,"message":"</summary><a href=javascript:alert(4)>`+"\u202e\u200b"+`"}}`))
	s.Payload(capture.In, []byte("\"</details><iframe>\x1b[2J"))
	s.Stderr([]byte("<style>*{display:none}</style>"))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return rec.Log
}

// TestHTML checks that nothing of a peer becomes markup, and that the document needs nothing else.
func TestHTML(t *testing.T) {
	var out bytes.Buffer
	if err := aHostileSession(t).WriteHTML(&out, nil); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	allowed := "!doctype html head /head meta title /title style /style body /body h1 /h1 details /details summary /summary span /span p /p pre /pre"
	for _, m := range regexp.MustCompile(`<([!/]?[a-zA-Z0-9]+)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(" "+allowed+" /html ", " "+m[1]+" ") {
			t.Errorf("the element %q of a peer is in the document", m[0])
		}
	}
	if n := strings.Count(text, "<style"); n != 1 {
		t.Errorf("%d style elements", n)
	}
	for _, secret := range []string{"hunter2", "ghp_", "\u202e", "\u200b", "\x1b", "http://", "https://"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in the document", secret)
		}
	}
	for _, want := range []string{"&lt;b&gt;bold&lt;/b&gt;", "-32000", "default-src 'none'"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestOTLP checks the spans of a session: IDs, times, kinds, parents and errors.
func TestOTLP(t *testing.T) {
	type span struct {
		TraceID, SpanID, ParentSpanID, Name, StartTimeUnixNano, EndTimeUnixNano string
		Kind                                                                    int
		Events                                                                  []struct{ Name string }
		Status                                                                  struct{ Code int }
		Attributes                                                              []struct {
			Key   string
			Value struct{ StringValue string }
		}
	}
	read := func(log *capture.Log) (list []span, text string) {
		t.Helper()
		var out bytes.Buffer
		if err := log.WriteOTLP(&out, nil); err != nil {
			t.Fatal(err)
		}
		var doc struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("%v: %s", err, out.Bytes())
		}
		for _, r := range doc.ResourceSpans {
			for _, s := range r.ScopeSpans {
				list = append(list, s.Spans...)
			}
		}
		return list, out.String()
	}
	spans, _ := read(aSession(t))
	if len(spans) != 2 || spans[0].Name != "a" || spans[1].Name != "b" {
		t.Fatalf("%+v", spans)
	}
	a, b := spans[0], spans[1]
	if len(a.TraceID) != 32 || len(a.SpanID) != 16 || a.TraceID == b.TraceID || a.SpanID == b.SpanID || a.Kind != 3 || a.Status.Code != 0 || a.EndTimeUnixNano < a.StartTimeUnixNano {
		t.Errorf("%+v", a)
	}
	if len(a.Events) != 1 || a.Events[0].Name != "tick" {
		t.Errorf("events: %+v", a.Events)
	}
	hostile, text := read(aHostileSession(t))
	if len(hostile) != 1 || hostile[0].Status.Code != 2 {
		t.Errorf("%+v", hostile)
	}
	for _, want := range []string{"rpc.system.name=jsonrpc", "rpc.response.status_code=-32000", "network.transport=pipe", "error.type=-32000"} {
		found := false
		for _, attribute := range hostile[0].Attributes {
			found = found || attribute.Key+"="+attribute.Value.StringValue == want
		}
		if !found {
			t.Errorf("%s is missing in %+v", want, hostile[0].Attributes)
		}
	}
	for _, secret := range []string{"hunter2", "ghp_", "\u202e", "\x1b"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is exported", secret)
		}
	}
}
