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

// mayImport is the architecture: it lists what the packages of each folder may import besides
// themselves. "x/..." is the folder x and everything below it, "." is the module's root. The entry
// of the folder itself applies, or else the longest that fits; a folder that no entry fits is an
// error. Tests may import anything.
var mayImport = map[string][]string{
	// Helpers without a compatibility promise.
	"internal/x/...": {},
	// its pool of bodies is one of the process's budgets
	"internal/x/guard": {"internal/x/budget", "internal/x/httptoken", "internal/x/progress"},
	// texts of peers are escaped before they are logged
	"internal/x/junit":  {"internal/x/harmless"},
	"internal/x/report": {"internal/x/harmless"},
	// names are compared without invisible characters
	"internal/x/secret": {"internal/x/harmless"},
	// values are JSON texts
	"internal/x/expr": {"internal/x/glob", "jsonrpc"},
	// panics are reported
	"internal/x/rescue": {"internal/x/report"},

	// Messages, handlers and connections, and the packages that depend on nothing else.
	"jsonrpc":            {"internal/x/..."},
	"jsonrpc/schema":     {"internal/x/...", "jsonrpc"},
	"jsonrpc/openrpc":    {"internal/x/...", "jsonrpc", "jsonrpc/schema"},
	"jsonrpc/middleware": {"internal/x/...", "jsonrpc"},
	"jsonrpc/otelrpc":    {"internal/x/...", "jsonrpc"},

	// Storage, and recorded traffic.
	"store":           {"internal/x/..."},
	"store/storetest": {"internal/x/...", "store"},
	"store/sqlite":    {"internal/x/...", "store"},
	"capture":         {"internal/x/...", "jsonrpc", "store"},

	// Transports. All may be built on the byte stream and the format of event streams, which depend
	// on no transport.
	"internal/eventstream": {"internal/x/...", "jsonrpc"},
	"transport/...":        {"internal/eventstream", "internal/x/...", "jsonrpc", "transport/stream"},
	"transport/stream":     {"internal/x/...", "jsonrpc"},
	// The one response to a POST, and two transports that are built on it.
	"transport/streamable": {"internal/eventstream", "internal/x/...", "jsonrpc", "transport/httprpc"},
	"transport/sse":        {"internal/eventstream", "internal/x/...", "jsonrpc", "transport/httprpc"},

	// Protocols: types, client, server. They do not depend on a transport.
	"mcp":    {"internal/x/...", "jsonrpc", "jsonrpc/middleware", "jsonrpc/schema", "store"},
	"acp":    {"internal/x/...", "jsonrpc", "jsonrpc/middleware", "store"},
	"a2a":    {"internal/x/...", "jsonrpc", "jsonrpc/middleware", "store"},
	"editor": {"internal/x/...", "jsonrpc", "jsonrpc/middleware", "store"},

	// The mapping of addresses to transports.
	".": {"internal/x/...", "jsonrpc", "jsonrpc/middleware", "transport/..."},

	// A protocol and its HTTP binding.
	"mcp/mcphttp": {"internal/eventstream", "internal/x/...", "jsonrpc", "mcp", "store", "transport/..."},
	"mcp/oauth":   {"internal/x/...", "jsonrpc", "mcp", "store"},
	"acp/acphttp": {"internal/eventstream", "internal/x/...", "jsonrpc", "acp", "store", "transport/..."},
	"a2a/a2ahttp": {"internal/eventstream", "internal/x/...", "jsonrpc", "a2a", "store", "transport/..."},

	// Packages on top of all protocols.
	"config":           underAgents(),
	"agent":            {"internal/x/...", "jsonrpc"},              // only the interface
	"agent/...":        underAgents("agent", "agent/internal/..."), // one adapter for each protocol
	"capture/lens":     underAgents(),
	"capture/tap":      {"internal/x/...", "jsonrpc", "capture"},
	"capture/replay":   {"internal/x/...", "jsonrpc", "capture"},
	"capture/imports":  {"internal/x/...", "jsonrpc", "capture"},
	"capture/sessions": {"internal/x/..."},

	// Programs as packages.
	"gateway":      underAgents("agent/...", "capture/...", "config"),
	"gateway/...":  {"jsonrpc"}, // tests
	"orchestrator": underAgents("agent/...", "capture/...", "config"),
	"playground":   underAgents("agent/...", "capture/...", "config", "playground/internal/...", "playground/suite"),
	"check":        underAgents("agent/...", "capture/...", "config"),

	// Saved calls: the format and how they run, for the page and the command.
	"playground/suite": {"internal/x/...", "jsonrpc", "config", "playground/internal/schemaview"},

	// The parts of the page that have no state.
	"playground/internal/cursor":     {},
	"playground/internal/shelltest":  {},
	"playground/internal/schemaview": {"jsonrpc"},
	"playground/internal/outline":    {"jsonrpc", "mcp", "acp", "a2a", "editor"},
	"playground/internal/copyas":     {".", "internal/x/...", "jsonrpc", "playground/internal/schemaview", "transport/stream"},
	"playground/internal/lint":       {"jsonrpc", "jsonrpc/schema", "a2a", "mcp", "playground/internal/cursor", "playground/internal/outline", "playground/internal/schemaview"},
	"playground/internal/complete":   {"internal/x/...", "jsonrpc", "acp", "a2a", "editor", "mcp", "playground/internal/cursor", "playground/internal/outline", "playground/internal/schemaview"},

	// Bundled services, and the wiring that connects everything.
	"internal/demo":    underAgents("agent/...", "capture/...", "config", "gateway", "orchestrator", "playground", "check"),
	"internal/bridge":  underAgents(),
	"internal/load":    {"internal/eventstream", "internal/x/...", "jsonrpc"},
	"internal/lessons": underAgents("agent/...", "capture/...", "config", "gateway", "orchestrator", "playground", "check"),
	"cmd/...":          underAgents("agent/...", "capture/...", "config", "gateway", "orchestrator", "playground", "playground/suite", "check", "internal/..."),
	"examples/...":     underAgents("agent/...", "capture/...", "config", "gateway", "orchestrator", "playground", "check", "internal/..."),
}

// underAgents returns the import list of packages that are built on all protocols, followed by
// more.
func underAgents(more ...string) []string {
	return append(more, ".", "internal/eventstream", "internal/x/...", "jsonrpc/...", "store/...", "transport/...", "capture",
		"mcp/...", "acp/...", "a2a/...", "editor")
}

// onlyIn lists third-party packages that may be imported only by the listed folders.
var onlyIn = map[string][]string{
	"go.opentelemetry.io": {"jsonrpc/otelrpc", "gateway", "cmd/...", "examples/..."},
}

// never lists packages that a folder must not import, because they are outside its purpose.
var never = map[string][]string{
	"jsonrpc":          {"net", "net/http", "os/exec"},
	"transport/stream": {"net/http"},
	"transport/stdio":  {"net/http"},
	"transport/socket": {"net/http"},
	"transport/inproc": {"net/http"},
}

// matches reports whether pattern covers folder.
func matches(pattern, folder string) bool {
	tree, ok := strings.CutSuffix(pattern, "...")
	if !ok {
		return pattern == folder
	}
	return strings.HasPrefix(folder+"/", tree)
}

// entry returns the key of table for folder: its own, or else the longest that fits.
func entry(table map[string][]string, folder string) (key string, found bool) {
	if _, own := table[folder]; own {
		return folder, true
	}
	for k := range table {
		if matches(k, folder) && (!found || len(k) > len(key)) {
			key, found = k, true
		}
	}
	return key, found
}

// violation describes what is wrong with an import, or returns "".
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
		return "" // only external tests import it
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

// goFiles lists the Go files of the main module by folder; nested modules, hidden folders and test
// data are left out.
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

// TestViolation checks violation, which the test above depends on.
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
		{"jsonrpc", "net/http/httptest", true}, // net/http itself is checked by the linter
		{"jsonrpc/openrpc", module + "/jsonrpc", true},
		{"jsonrpc/openrpc", module + "/jsonrpc/middleware", false},
		{"jsonrpc/middleware", "go.opentelemetry.io/otel/trace", false},
		{"jsonrpc/otelrpc", "go.opentelemetry.io/otel/trace", true},
		{"jsonrpc/otelrpc", "go.opentelemetry.iox/otel", true},
		{"internal/x/pool", module + "/jsonrpc", false},
		{"transport/socket", module + "/transport/stream", true},
		{"transport/socket", module + "/transport/websocket", false},
		{"transport/stream", module + "/transport/sse", false},
		{"transport/httprpc", module + "/internal/eventstream", true},
		{"transport/httprpc", module + "/transport/sse", false},
		{"internal/eventstream", module + "/transport/httprpc", false},
		{"mcp", module + "/internal/eventstream", false},
		{"transport/stream", module + "/jsonrpc/openrpc", false},
		{"transport/new", module + "/jsonrpc", true},
		{"mcp", module + "/transport/stream", false},
		{"mcp/mcphttp", module + "/transport/httprpc", true},
		{"mcp/mcphttp", module + "/acp", false},
		{".", module + "/transport/websocket", true},
		{".", module + "/internal/demo", false},
		{"gateway", module + "/agent", true},
		{"playground/internal/lint", module + "/playground/internal/outline", true},
		{"playground/internal/lint", module + "/playground/internal/complete", false},
		{"playground/internal/lint", module + "/playground", false},
		{"cmd/parley", module + "/playground/internal/lint", false},
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
