package editor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// canonical returns the text in RFC 8785 form, in which equal values have equal texts.
func canonical(t testing.TB, text string) string {
	t.Helper()
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(v)
}

// FuzzUpdate checks that an update from a peer is decoded or rejected, and that a decoded one is
// equal after encoding and decoding it again.
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

// FuzzAgent checks that an agent responds to anything that a client sends, and continues. The seeds
// are messages of real clients.
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
