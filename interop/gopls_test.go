package interop

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// The parts of the Language Server Protocol 3.17 that this test uses.
type (
	position struct {
		Line      int `json:"line"`
		Character int `json:"character"` // in UTF-16 units
	}
	span struct {
		Start position `json:"start"`
		End   position `json:"end"`
	}
	location struct {
		URI   string `json:"uri"`
		Range span   `json:"range"`
	}
	document struct {
		URI        string `json:"uri"`
		LanguageID string `json:"languageId,omitzero"`
		Version    int    `json:"version,omitzero"`
		Text       string `json:"text,omitzero"`
	}
	diagnostics struct {
		URI         string `json:"uri"`
		Diagnostics []struct {
			Message string `json:"message"`
			Range   span   `json:"range"`
		} `json:"diagnostics"`
	}
)

const goplsSource = `package main

func greet(name string) string { return "hello " + name }

func main() {
	println( /* 世界 🌍 */ greet("you"))
	var unused int
}
`

// place returns the position of a text in source, in the units of the protocol.
func place(source, what string) position {
	before, _, _ := strings.Cut(source, what)
	lines := strings.Split(before, "\n")
	return position{Line: len(lines) - 1, Character: len(utf16.Encode([]rune(lines[len(lines)-1])))}
}

// TestGopls uses a real language server as an editor does: both sides send requests at once, and
// the server sends notifications on its own initiative.
func TestGopls(t *testing.T) {
	t.Parallel()
	program := harness.Need(t, "gopls", "../.cache/bin/gopls")
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.test/hello\n\ngo 1.26\n", "main.go": goplsSource} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	uri := "file://" + filepath.ToSlash(dir)
	file := uri + "/main.go"

	configured := make(chan int, 100)
	published := make(chan diagnostics, 100)
	b := newBack()
	b.Add("workspace/configuration", jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		var in struct {
			Items []jsonrpc.Raw `json:"items"`
		}
		if err := req.Params.Decode(&in); err != nil {
			return nil, err
		}
		select {
		case configured <- len(in.Items):
		default:
		}
		return make([]map[string]any, len(in.Items)), nil // null for each: the default settings
	}))
	for _, method := range []string{"client/registerCapability", "window/workDoneProgress/create", "window/showMessageRequest"} {
		b.Add(method, jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { return nil, nil }))
	}
	b.Add("textDocument/publishDiagnostics", jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		var in struct {
			URI         string        `json:"uri"`
			Version     int           `json:"version"`
			Diagnostics []jsonrpc.Raw `json:"diagnostics"`
		}
		if err := req.Params.Decode(&in); err != nil {
			t.Errorf("publishDiagnostics %s: %v", req.Params, err)
			return nil, err
		}
		out := diagnostics{URI: in.URI}
		for _, raw := range in.Diagnostics {
			out.Diagnostics = append(out.Diagnostics, decodeDiagnostic(t, raw))
		}
		select {
		case published <- out:
		default:
		}
		return nil, nil
	}))

	client := dial(t, child(t, []string{program, "serve"}), b)
	closed := false
	defer func() {
		if !closed {
			_ = client.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	initialized, err := jsonrpc.Call[struct {
		Capabilities jsonrpc.Raw `json:"capabilities"`
		ServerInfo   struct {
			Name string `json:"name"`
		} `json:"serverInfo"`
	}](ctx, client, "initialize", map[string]any{
		"processId":        os.Getpid(),
		"rootUri":          uri,
		"workspaceFolders": []map[string]string{{"uri": uri, "name": "hello"}},
		"capabilities": map[string]any{
			"workspace": map[string]any{"configuration": true, "workspaceFolders": true},
			"window":    map[string]any{"workDoneProgress": true},
		},
	})
	if err != nil || initialized.ServerInfo.Name != "gopls" {
		t.Fatalf("initialize = %+v, %v", initialized, err)
	}
	if err := client.Notify(ctx, "initialized", struct{}{}); err != nil {
		t.Fatal(err)
	}
	if items := await(ctx, t, configured, "workspace/configuration"); items < 1 {
		t.Errorf("gopls asked for %d settings", items)
	}
	if err := client.Notify(ctx, "textDocument/didOpen", map[string]any{
		"textDocument": document{URI: file, LanguageID: "go", Version: 1, Text: goplsSource},
	}); err != nil {
		t.Fatal(err)
	}

	found, err := jsonrpc.Call[[]location](ctx, client, "textDocument/definition", map[string]any{
		"textDocument": document{URI: file},
		"position":     place(goplsSource, `greet("you")`),
	})
	start := place(goplsSource, "greet(name")
	want := location{URI: file, Range: span{start, position{start.Line, start.Character + len("greet")}}}
	if err != nil || len(found) != 1 || found[0] != want {
		t.Errorf("definition = %+v, %v, want %+v", found, err, want)
	}
	for {
		got := await(ctx, t, published, "textDocument/publishDiagnostics")
		if got.URI == file && len(got.Diagnostics) > 0 {
			if d := got.Diagnostics[0]; !strings.Contains(d.Message, "unused") || d.Range.Start != place(goplsSource, "unused int") {
				t.Errorf("diagnostic = %+v", d)
			}
			break
		}
	}

	// An error from the server, and a call that is abandoned among others that are not.
	if err := client.Call(ctx, "textDocument/definition", map[string]any{"textDocument": document{URI: file}, "position": position{Line: 1000}}, nil); err == nil {
		t.Error("a definition behind the end of the file was found")
	} else if e, ok := err.(*jsonrpc.Error); !ok || e.Message == "" {
		t.Errorf("a definition behind the end of the file: %v", err)
	}
	gone, give := context.WithCancel(ctx)
	give()
	if err := client.Call(gone, "workspace/symbol", map[string]string{"query": "greet"}, nil); err == nil {
		t.Error("an abandoned call succeeded")
	}
	if err := client.Call(ctx, "workspace/symbol", map[string]string{"query": "greet"}, nil); err != nil {
		t.Errorf("the call after an abandoned one: %v", err)
	}

	if err := client.Call(ctx, "shutdown", nil, nil); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := client.Notify(ctx, "exit", nil); err != nil {
		t.Errorf("exit: %v", err)
	}
	closed = true
	if err := client.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func decodeDiagnostic(t *testing.T, raw jsonrpc.Raw) (out struct {
	Message string `json:"message"`
	Range   span   `json:"range"`
}) {
	t.Helper()
	var in map[string]jsonrpc.Raw
	if err := raw.Decode(&in); err != nil {
		t.Errorf("diagnostic %s: %v", raw, err)
		return out
	}
	for name, into := range map[string]any{"message": &out.Message, "range": &out.Range} {
		if err := in[name].Decode(into); err != nil {
			t.Errorf("diagnostic %s: %v", raw, err)
		}
	}
	return out
}

// await returns the next value that the server sends.
func await[T any](ctx context.Context, t *testing.T, from <-chan T, what string) T {
	t.Helper()
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
	case <-timeout.C:
	}
	t.Fatalf("no %s", what)
	panic("not reached")
}
