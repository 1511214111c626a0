package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// FuzzParams checks that words become a valid JSON object or list, or a usage error.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{"42 23", "a=b c:=1", "hello \"x\"", "a:=", "a=@", "=", ":=", "{\"a\":1} x", "1 a=1", "\xff", "a=\xff"} {
		f.Add(seed)
	}
	dir := f.TempDir() // so that name=@file finds none of our files
	f.Fuzz(func(t *testing.T, line string) {
		a := &app{stdin: strings.NewReader("")}
		words := strings.Split(strings.ReplaceAll(line, "@", "@"+filepath.Join(dir, "x")), " ")
		params, err := a.parseParams(words)
		if err != nil {
			if exitCode(err) != exitUsage {
				t.Errorf("parseParams(%q) = %v, exit code %d, want %d", words, err, exitCode(err), exitUsage)
			}
			return
		}
		if _, err := jsonrpc.ParseRaw(params); err != nil || kind(params) != '[' && kind(params) != '{' {
			t.Errorf("parseParams(%q) = %s, which is no params: %v", words, params, err)
		}
	})
}

// FuzzPretty checks that the output has the same value, digit for digit, and contains nothing that
// moves a cursor.
func FuzzPretty(f *testing.F) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		f.Fatalf("there are no seeds: %v", err)
	}
	object := regexp.MustCompile(`(?m)^[\[{].*$`)
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, seed := range object.FindAll(text, -1) {
			f.Add(seed)
		}
	}
	f.Add([]byte(`{"a":[1.0,-0,1e400,"\ud800","\u0000` + "\u009b\u202e\x7f" + `",{}],"":[[]]}`))
	f.Add([]byte(strings.Repeat("[", 900) + strings.Repeat("]", 900)))
	f.Fuzz(func(t *testing.T, text []byte) {
		value, err := jsonrpc.ParseRaw(text)
		if err != nil {
			return
		}
		for _, print := range []func([]byte, jsonrpc.Raw, palette) []byte{appendPretty, appendCompact} {
			out := print(nil, value, palette{})
			if _, err := jsonrpc.ParseRaw(out); err != nil {
				t.Fatalf("%s is printed as %s, which is not JSON: %v", value, out, err)
			}
			if got, want := tokens(t, out), tokens(t, value); !cmp.Equal(got, want) {
				t.Errorf("%s is printed as %s, which means something else", value, out)
			}
			if harmless.Has(strings.ReplaceAll(string(out), "\n", "")) {
				t.Errorf("%s is printed as %q, which holds hidden letters", value, out)
			}
		}
	})
}

// tokens returns the tokens of a JSON text: delimiters, numbers as written, and decoded strings.
func tokens(t *testing.T, text []byte) (list []any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for depth := 0; len(list) == 0 || depth > 0; {
		token, err := d.Token()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		list = append(list, token)
	}
	return list
}

// FuzzBatch checks that a file becomes messages or a usage error.
func FuzzBatch(f *testing.F) {
	for _, seed := range []string{`{"method":"a"}`, "{\"method\":\"a\"}\n\n{\"method\":\"b\",\"notify\":true}", `[{"jsonrpc":"2.0","method":"a","id":1}]`, `[1]`, `{"method":"a","id":2}` + "\n" + `{"method":"b"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		items, results, err := parseBatch(text)
		if err != nil {
			if exitCode(err) != exitUsage {
				t.Errorf("parseBatch(%q) = %v, want a usage error", text, err)
			}
			return
		}
		if len(items) == 0 || len(items) != len(results) {
			t.Errorf("parseBatch(%q) makes %d messages and %d results", text, len(items), len(results))
		}
		for i, item := range items {
			if item.Method == "" || item.Notify != item.ID.IsZero() {
				t.Errorf("parseBatch(%q): message %d is %+v", text, i+1, item)
			}
		}
	})
}

// FuzzTrace checks that, for any traffic, a trace file is a session that contains it, and that a
// line for people is one line.
func FuzzTrace(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1,"method":"a"}`, "{\"jsonrpc\":\n\"2.0\",\"id\":1,\"result\":\"\u009b\"}", "\xff\n", `[{"id":1,"error":{"code":1e99}},1]`, ""} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, payload []byte, out bool) {
		var people, file bytes.Buffer
		frame := parley.Frame{Time: time.Unix(0, 0), Out: out, Payload: payload}
		(&tracer{w: &people, asLines: true, waiting: make(map[waitKey]sent)}).see(frame)
		name := filepath.Join(t.TempDir(), "t.jsonl")
		rec, err := capture.New(&capture.Options{File: name, Redact: capture.Redaction{Off: true}})
		if err != nil {
			t.Fatal(err)
		}
		(&tracer{file: rec}).see(frame)
		text, err := []byte(nil), rec.Close()
		if err == nil {
			text, err = os.ReadFile(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		file.Write(text)
		if bytes.Count(file.Bytes(), []byte("\n")) != 2 || !utf8.Valid(file.Bytes()) {
			t.Errorf("%q is recorded as %q", payload, file.Bytes())
		}
		log, err := capture.Read(&file)
		if err != nil || log.Err() != nil {
			t.Fatalf("%q: %v, %v", payload, err, log.Err())
		}
		if got, err := log.Payload(capture.Ref{Seq: 1}); err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%q is recorded as %q, %v", payload, got, err)
		}
		for line := range strings.Lines(people.String()) {
			if harmless.Has(strings.TrimSuffix(line, "\n")) || !strings.HasPrefix(line, "→ ") && !strings.HasPrefix(line, "← ") {
				t.Errorf("%q is told as %q", payload, line)
			}
		}
	})
}
