package editor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// canonical is the text of RFC 8785, in which equal values are equal.
func canonical(t testing.TB, text string) string {
	t.Helper()
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(v)
}

// What a peer sends as an update is read or refused; what was read is written so that it reads the same again.
func FuzzUpdate(f *testing.F) {
	for _, text := range append(updates, foreign...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		in, err := jsonrpc.ParseRaw(text)
		if err != nil {
			return
		}
		u := new(editor.Update)
		if in.Decode(u) != nil {
			return
		}
		out, err := u.AppendJSON(nil)
		if err != nil {
			t.Fatalf("%s cannot be written: %v", text, err)
		}
		next := new(editor.Update)
		if err := jsonrpc.Raw(out).Decode(next); err != nil {
			t.Fatalf("%s is written as %s, which cannot be read: %v", text, out, err)
		}
		last, err := next.AppendJSON(nil)
		if err != nil || canonical(t, string(last)) != canonical(t, string(out)) {
			t.Fatalf("%s, then %s, %v", out, last, err)
		}
	})
}

// Whatever a client sends, an agent answers and stays; the seeds are what clients send.
func FuzzAgent(f *testing.F) {
	seeds, err := filepath.Glob("testdata/seeds/*.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range seeds {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		w := newScript(t)
		defer w.end()
		w.feed(`{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":1}}`)
		if _, err := jsonrpc.ParseRaw(text); err == nil {
			w.feed(string(text))
		}
		w.feed(`{"jsonrpc":"2.0","id":"last","method":"session/new","params":{"cwd":"/","mcpServers":[]}}`)
		w.await(`"last"`)
	})
}
