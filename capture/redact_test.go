package capture_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

var secrets = []struct{ in, want string }{
	{`{"password":"hunter2","n":1}`, `{"password":"[redacted]","n":1}`},
	{`{"a":[{"api_key":"x"},{"API-Key":7}]}`, `{"a":[{"api_key":"[redacted]"},{"API-Key":"[redacted]"}]}`},
	{`{"p\u0061ssword":"hunter2"}`, `{"p\u0061ssword":"[redacted]"}`},
	{`{"password" : "hunter2"}`, `{"password" : "[redacted]"}`},
	{`{"token":{"kind":"x"},"password":null}`, `{"token":{"kind":"[redacted]"},"password":null}`},
	{`{"progressToken":"p7","nextToken":1}`, `{"progressToken":"p7","nextToken":1}`},
	{`{"params":{"card":{"number":"4111-22"},"items":[{"ssn":1},{"ssn":2}]}}`, `{"params":{"card":"[redacted]","items":[{"ssn":"[redacted]"},{"ssn":"[redacted]"}]}}`},
	{`[{"params":{"card":1}}]`, `[{"params":{"card":"[redacted]"}}]`},
	{`{"text":"it is s3cr\"et-value!"}`, `{"text":"it is s3cr\"et-value!"}`},
	{`{"text":"it is long-secret!"}`, `{"text":"it is [redacted]!"}`},
	{`no json but long-secret`, `no json but [redacted]`},
	{`{"password":"half`, `{"password":"[redacted]"`},
	{"{\"password\"\t:\"hunter2\"}", "{\"password\"\t:\"[redacted]\"}"},
	{`{"Authorization":["Bearer hunter2"],"passphrase":{"value":"hunter2"}}`, `{"Authorization":["[redacted]"],"passphrase":{"value":"[redacted]"}}`},
	{`grant_type=password&password=hunter2`, `grant_type=password&password=[redacted]`},
}

func TestRedaction(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s.jsonl")
	rec, err := capture.New(&capture.Options{File: name, Redact: capture.Redaction{Values: []string{"long-secret", "abc"}, Paths: []string{"$.params.card", "$..items[*].ssn"}}})
	if err != nil {
		t.Fatal(err)
	}
	w := rec.Wire(capture.WireInfo{Target: "http://user:pw@h/?token=abcdef&x=1"})
	for _, c := range secrets {
		w.Payload(capture.Out, []byte(c.in))
	}
	x := w.Exchange(capture.Out, "POST", "/mcp?api_key=abcdef&n=long-secret", http.Header{"Authorization": {"Bearer abcdef"}, "Cookie": {"a=b"}, "Mcp-Method": {"x"}})
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	for i, c := range secrets {
		got, err := rec.Payload(capture.Ref{Seq: int64(i + 2)})
		if err != nil || string(got) != c.want {
			t.Errorf("%s\nis kept as  %s, want\n%s; %v", c.in, got, c.want, err)
		}
	}
	e, err := rec.Event(int64(len(secrets) + 2))
	if err != nil || e.Exchange != x.ID() {
		t.Fatalf("%+v, %v", e, err)
	}
	if e.URL != "/mcp?api_key=[redacted]&n=[redacted]" || e.Header.Get("Authorization") != "Bearer [redacted]" || e.Header.Get("Cookie") != "[redacted]" || e.Header.Get("Mcp-Method") != "x" {
		t.Errorf("kept: %q %v", e.URL, e.Header)
	}
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter2", "long-secret", "abcdef", "4111-22", "pw@"} {
		if bytes.Contains(file, []byte(secret)) {
			t.Errorf("%q is in the file:\n%s", secret, file)
		}
	}
	for _, bad := range []string{"params", "$", "$..", "$.a[", "$.a..", "$x"} {
		if _, err := capture.New(&capture.Options{MaxDisk: -1, Redact: capture.Redaction{Paths: []string{bad}}}); err == nil {
			t.Errorf("the path %q was taken", bad)
		}
	}
}

// TestHeadersAreRedacted checks the headers of providers, and that a session has the same pseudonym
// everywhere.
func TestHeadersAreRedacted(t *testing.T) {
	rec, err := capture.New(&capture.Options{MaxDisk: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := rec.Wire(capture.WireInfo{Target: "http://h/"})
	for _, name := range []string{"X-Auth-Token", "Private-Token", "X-GitHub-Token", "X-Vault-Token", "X-Amz-Security-Token", "X-Secret-Key", "X-Auth-Key",
		"X-Api-Key", "Proxy-Authorization", "Set-Cookie", "Mcp-Session-Id", "X-Session-Id"} {
		w.Exchange(capture.Out, "POST", "/?n=1", http.Header{name: {"CANARY-1"}}).Head(200, http.Header{name: {"CANARY-1"}})
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := rec.WriteSession(&out, &capture.ExportOptions{Redact: capture.Redaction{Off: true}}); err != nil || bytes.Contains(out.Bytes(), []byte("CANARY")) {
		t.Errorf("%v, and the recording is\n%s", err, &out)
	}
	sessions := map[string]int{}
	for _, r := range rec.Rows(capture.Ref{}, 0) {
		sessions[r.Session]++
	}
	if delete(sessions, ""); len(sessions) != 1 {
		t.Errorf("the sessions are %v", sessions)
	}
}

// TestHide adds a value during a recording: events written afterwards do not contain it.
func TestHide(t *testing.T) {
	rec, err := capture.New(&capture.Options{MaxDisk: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := rec.Wire(capture.WireInfo{})
	rec.Hide("CANARY-1", "", "abc")
	w.Payload(capture.Out, []byte(`{"text":"CANARY-1 abc"}`))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := rec.Payload(capture.Ref{Seq: 2}); err != nil || string(got) != `{"text":"[redacted] abc"}` {
		t.Errorf("recorded: %s, %v", got, err)
	}
}

// FuzzRedaction checks that valid JSON remains valid, and no value under a hidden name remains.
func FuzzRedaction(f *testing.F) {
	for _, c := range secrets {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		line := `{"parley":"session","version":1}` + "\n"
		e := capture.Event{Seq: 1, Kind: capture.KindMessage, Dir: capture.Out, Data: data, Size: len(data)}
		log, err := capture.Read(strings.NewReader(line + string(capture.AppendLine(nil, &e))))
		if err != nil || log.Err() != nil {
			t.Fatal(err, log.Err())
		}
		if got, err := log.Payload(capture.Ref{Seq: 1}); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%q came back as %q, %v", data, got, err)
		}
		var out bytes.Buffer
		if err := log.WriteSession(&out, nil); err != nil {
			t.Fatal(err)
		}
		again, err := capture.Read(&out)
		if err != nil || again.Err() != nil {
			t.Fatal(err, again.Err())
		}
		got, err := again.Payload(capture.Ref{Seq: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jsonrpc.ParseRaw(data); err == nil {
			if _, err := jsonrpc.ParseRaw(got); err != nil {
				t.Errorf("%q became %q: %v", data, got, err)
			}
		}
	})
}
