package parley_test

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/da1ed7bb/parley"

// mayImport is the architecture: what the packages of each folder see besides themselves. "x/..." is the folder x and
// all below it, "." is the module's root. The longest entry that fits a folder wins; a folder that none fits is an error.
// Tests may import anything.
var mayImport = map[string][]string{
	// Helpers without a promise.
	"internal/x/...": {},

	// Messages, handlers, conversations, and the neighbours that know nothing but them.
	"jsonrpc":            {"internal/x/..."},
	"jsonrpc/openrpc":    {"internal/x/...", "jsonrpc"},
	"jsonrpc/middleware": {"internal/x/...", "jsonrpc"},
	"jsonrpc/otelrpc":    {"internal/x/...", "jsonrpc"},

	// State, and what went over a wire.
	"store":           {"internal/x/..."},
	"store/storetest": {"internal/x/...", "store"},
	"store/sqlite":    {"internal/x/...", "store"},
	"capture":         {"internal/x/...", "jsonrpc", "store"},

	// Carriers. All may stand on the byte stream and the event stream, which stand on nothing.
	"transport/...":    {"internal/x/...", "jsonrpc", "transport/sse", "transport/stream"},
	"transport/sse":    {"internal/x/...", "jsonrpc"},
	"transport/stream": {"internal/x/...", "jsonrpc"},

	// Protocols: types, client, server. They know no carrier.
	"mcp":    {"internal/x/...", "jsonrpc", "jsonrpc/middleware", "store"},
	"acp":    {"internal/x/...", "jsonrpc", "jsonrpc/middleware", "store"},
	"a2a":    {"internal/x/...", "jsonrpc", "jsonrpc/middleware", "store"},
	"editor": {"internal/x/...", "jsonrpc", "jsonrpc/middleware", "store"},

	// Addresses to carriers.
	".": {"internal/x/...", "jsonrpc", "jsonrpc/middleware", "transport/..."},

	// A protocol and its HTTP binding.
	"mcp/mcphttp": {"internal/x/...", "jsonrpc", "mcp", "store", "transport/..."},
	"mcp/oauth":   {"internal/x/...", "jsonrpc", "mcp", "store"},
	"acp/acphttp": {"internal/x/...", "jsonrpc", "acp", "store", "transport/..."},
	"a2a/a2ahttp": {"internal/x/...", "jsonrpc", "a2a", "store", "transport/..."},

	// Over all protocols.
	"config":         underAgents(),
	"agent":          {"internal/x/...", "jsonrpc"},              // the seam alone
	"agent/...":      underAgents("agent", "agent/internal/..."), // one protocol to it, each
	"capture/lens":   underAgents(),
	"capture/tap":    {"internal/x/...", "jsonrpc", "capture"},
	"capture/replay": {"internal/x/...", "jsonrpc", "capture"},

	// Programs as packages.
	"gateway":      underAgents("agent/...", "capture/...", "config"),
	"orchestrator": underAgents("agent/...", "capture/...", "config"),
	"playground":   underAgents("agent/...", "capture/...", "config"),
	"check":        underAgents("agent/...", "capture/...", "config"),

	// Bundled services, and the wiring where everything meets.
	"internal/demo":    underAgents("agent/...", "capture/...", "config", "gateway", "orchestrator", "playground", "check"),
	"internal/lessons": underAgents("agent/...", "capture/...", "config", "gateway", "orchestrator", "playground", "check"),
	"cmd/...":          underAgents("agent/...", "capture/...", "config", "gateway", "orchestrator", "playground", "check", "internal/..."),
	"examples/...":     underAgents("agent/...", "capture/...", "config", "gateway", "orchestrator", "playground", "check", "internal/..."),
}

// underAgents is every line below the packages that stand over all protocols, and more.
func underAgents(more ...string) []string {
	return append(more, ".", "internal/x/...", "jsonrpc/...", "store/...", "transport/...", "capture",
		"mcp/...", "acp/...", "a2a/...", "editor")
}

// onlyIn lists packages of others that must stay where they are, with the folders that may import them.
var onlyIn = map[string][]string{
	"go.opentelemetry.io": {"jsonrpc/otelrpc", "gateway", "cmd/...", "examples/..."},
}

// never lists what a folder must not see, because its idea ends before that.
var never = map[string][]string{
	"jsonrpc":          {"net", "net/http", "os/exec"},
	"transport/stream": {"net/http"},
	"transport/stdio":  {"net/http"},
	"transport/socket": {"net/http"},
	"transport/inproc": {"net/http"},
}

// matches reports whether folder lies in pattern.
func matches(pattern, folder string) bool {
	tree, ok := strings.CutSuffix(pattern, "...")
	if !ok {
		return pattern == folder
	}
	return strings.HasPrefix(folder+"/", tree)
}

// entry returns the longest key of table that fits folder.
func entry(table map[string][]string, folder string) (key string, found bool) {
	for k := range table {
		if matches(k, folder) && (!found || len(k) > len(key)) {
			key, found = k, true
		}
	}
	return key, found
}

// violation says what is wrong with an import, or "".
func violation(folder, imported string) string {
	for _, p := range never[folder] {
		if imported == p {
			return fmt.Sprintf("%s must not import %s", folder, imported)
		}
	}
	for p, folders := range onlyIn {
		if strings.HasPrefix(imported+"/", p+"/") && !slices.ContainsFunc(folders, func(f string) bool { return matches(f, folder) }) {
			return fmt.Sprintf("%s imports %s, which belongs to %s", folder, imported, strings.Join(folders, ", "))
		}
	}
	rest, ours := strings.CutPrefix(imported+"/", module+"/")
	if !ours {
		return ""
	}
	target := path.Clean("./" + rest)
	if target == folder {
		return "" // only an external test does this
	}
	key, found := entry(mayImport, folder)
	if !found {
		return fmt.Sprintf("%s has no entry in mayImport: where does it stand?", folder)
	}
	if !slices.ContainsFunc(mayImport[key], func(pattern string) bool { return matches(pattern, target) }) {
		return fmt.Sprintf("%s imports %s, which is not below it", folder, target)
	}
	return ""
}

// goFiles lists the Go files of the main module by folder; nested modules, hidden folders and test data are left out.
func goFiles(t *testing.T) map[string][]string {
	t.Helper()
	files := make(map[string][]string)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == "." {
				return nil
			}
			if strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata" || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); !errors.Is(err, fs.ErrNotExist) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			folder := filepath.ToSlash(filepath.Dir(name))
			files[folder] = append(files[folder], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 2 {
		t.Fatalf("found Go files in %d folders only: is this the root of the module?", len(files))
	}
	return files
}

func TestImportsPointInward(t *testing.T) {
	all := goFiles(t)
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		if _, found := entry(mayImport, folder); !found {
			t.Errorf("%s has no entry in mayImport: where does it stand?", folder)
		}
		for _, name := range all[folder] {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, parser.ImportsOnly)
			if err != nil {
				t.Error(err)
				continue
			}
			for _, spec := range file.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Errorf("%s: %v", fset.Position(spec.Pos()), err)
					continue
				}
				if what := violation(folder, imported); what != "" {
					t.Errorf("%s: %s", fset.Position(spec.Pos()), what)
				}
			}
		}
	}
}

// The test above is only as good as violation: these hold it.
func TestViolation(t *testing.T) {
	for _, c := range []struct {
		folder, imported string
		ok               bool
	}{
		{"jsonrpc", "context", true},
		{"jsonrpc", "github.com/go-json-experiment/json", true},
		{"jsonrpc", module + "/internal/x/pool", true},
		{"jsonrpc", module + "/internal/demo", false},
		{"jsonrpc", module + "/jsonrpc/openrpc", false},
		{"jsonrpc", module + "/transport/stream", false},
		{"jsonrpc", module, false},
		{"jsonrpc", "net/http", false},
		{"jsonrpc", "net/http/httptest", true}, // not net/http itself; the linter holds the rest
		{"jsonrpc/openrpc", module + "/jsonrpc", true},
		{"jsonrpc/openrpc", module + "/jsonrpc/middleware", false},
		{"jsonrpc/middleware", "go.opentelemetry.io/otel/trace", false},
		{"jsonrpc/otelrpc", "go.opentelemetry.io/otel/trace", true},
		{"jsonrpc/otelrpc", "go.opentelemetry.iox/otel", true},
		{"internal/x/pool", module + "/jsonrpc", false},
		{"transport/socket", module + "/transport/stream", true},
		{"transport/socket", module + "/transport/websocket", false},
		{"transport/stream", module + "/transport/sse", false},
		{"transport/stream", module + "/jsonrpc/openrpc", false},
		{"transport/new", module + "/jsonrpc", true},
		{"mcp", module + "/transport/stream", false},
		{"mcp/mcphttp", module + "/transport/httprpc", true},
		{"mcp/mcphttp", module + "/acp", false},
		{".", module + "/transport/websocket", true},
		{".", module + "/internal/demo", false},
		{"gateway", module + "/agent", true},
		{"gateway", module + "/check", false},
		{"gateway", module, true},
		{"agent", module + "/config", false},
		{"internal/demo", module + "/jsonrpc/openrpc", true},
		{"internal/demo", module + "/cmd/parley", false},
		{"cmd/parley", module + "/internal/demo", true},
		{"unheard/of", module + "/jsonrpc", false},
	} {
		if got := violation(c.folder, c.imported); (got == "") != c.ok {
			t.Errorf("%s imports %s: %q, want allowed: %t", c.folder, c.imported, got, c.ok)
		}
	}
}
