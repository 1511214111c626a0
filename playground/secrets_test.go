package playground_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
)

// TestSecretsOfTargetsAreNotRecorded checks that secrets from a reloaded or pasted configuration,
// or from a person, are hidden from the recording before the first byte is sent, also where the
// server repeats them.
func TestSecretsOfTargetsAreNotRecorded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"you sent `+strings.Join(r.Header["X-Plain"], "")+r.Header.Get("X-Api-Key")+r.Header.Get("Authorization")+`"}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "s.jsonl")
	b := open(t, &playground.Options{Recording: capture.Options{File: file}, Targets: []playground.Target{{Name: "@a", Address: server.URL}}})
	pasted := playground.Target{Name: "c", Address: server.URL, Header: http.Header{"X-Plain": {"CANARY-pasted"}}, Secrets: []string{"CANARY-pasted"}}
	again := playground.Target{Name: "@a", Address: server.URL, Header: http.Header{"X-Plain": {"CANARY-again"}}, Secrets: []string{"CANARY-again"}}
	pasted.Name = "@c"
	b.page.SetTargets([]playground.Target{again, {Name: "@b", Address: server.URL}, pasted})
	b.call("targets/set", obj{"target": "@b", "token": "CANARY-typed", "headers": []obj{{"name": "X-Api-Key", "value": "CANARY-key"}}}, nil)
	for _, name := range []string{"@a", "@b", "@c"} {
		b.call("send", obj{"target": name, "text": `{"jsonrpc":"2.0","id":1,"method":"echo"}`}, nil)
	}
	rec := b.page.Recorder()
	for answers := 0; answers < 3; {
		rev := rec.Rev()
		answers = 0
		for _, r := range rec.Rows(capture.Ref{}, 0) {
			if r.Kind == capture.RowResult {
				answers++
			}
		}
		if answers < 3 {
			if err := rec.Wait(t.Context(), rev); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Contains(text, []byte("CANARY")) || bytes.Count(text, []byte("you sent")) != 3 {
		t.Errorf("%v, and the file is\n%s", err, text)
	}
}

// TestSaveOnAFullDisk checks that a failed write is reported as a storage error, not as the page's,
// and contains no path.
func TestSaveOnAFullDisk(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "calls")
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // a file at the path of the folder
		t.Fatal(err)
	}
	b := open(t, &playground.Options{Folder: filepath.Join(folder, "sub")})
	e := b.try("saved/save", obj{"name": "a", "target": "http://127.0.0.1:1/", "text": "{}"}, nil)
	if e == nil || e.Code != jsonrpc.CodeStorage || strings.Contains(e.Error(), folder) || !strings.Contains(string(e.Data), `"storage_failed"`) {
		t.Errorf("%v", e)
	}
}
