package parley_test

import (
	"bytes"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unwanted lists patterns that no file of the project may contain. They are written so that they do
// not match themselves. A pattern is tried only on a text that contains one of its hints, because
// most texts contain none.
var unwanted = map[string]struct {
	hints   []string
	pattern *regexp.Regexp
}{
	"a path of one machine": {
		[]string{"/w" + "ork/", "/r" + "oot/", "/f" + "arm/", "/home/u" + "ser/", "/Users/" + "a"},
		regexp.MustCompile(`(^|[^\w.$}-])/(w[o]rk|r[o]ot|f[a]rm)/|/home/[u]ser/|/Users/[a]`),
	},
	"a host of a package registry": {
		[]string{"proxy.gol" + "ang", "sum.gol" + "ang", "registry.n" + "pm", "registry.y" + "arn", "deb.deb" + "ian", "security.deb" + "ian",
			"pypi." + "org", "python" + "hosted", "crates." + "io"},
		regexp.MustCompile(`pr[o]xy\.gol[a]ng|s[u]m\.golang|r[e]gistry\.npm|r[e]gistry\.yarn|d[e]b\.deb[i]an|s[e]curity\.debian|p[y]pi\.org|p[y]thonhosted|c[r]ates\.io`),
	},
	"a private key": {
		[]string{"PRIVATE" + " KEY"},
		regexp.MustCompile(`-----B[E]GIN [A-Z ]*PRIVATE KEY`),
	},
	"a token": {
		[]string{"gh" + "p_", "gh" + "o_", "gh" + "u_", "gh" + "s_", "gh" + "r_", "github_" + "pat_", "AK" + "IA", "xo" + "x", "s" + "k-", "np" + "m_", "gl" + "pat-", "AI" + "za"},
		regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{36}|github_p[a]t_\w{22}|A[K]IA[0-9A-Z]{16}|xox[abprs]-\w{10}|s[k]-[A-Za-z0-9_-]{32}|` +
			`np[m]_[A-Za-z0-9]{36}|gl[p]at-[\w-]{20}|AI[z]a[\w-]{35})`),
	},
	"a registry login": {
		[]string{"_auth" + "Token", "_pass" + "word"},
		regexp.MustCompile(`_auth[T]oken|_passw[o]rd\s*=`),
	},
}

// findUnwanted describes what text contains and returns its location, or "".
func findUnwanted(text []byte) (what string, at []int) {
	for what, u := range unwanted {
		if !slices.ContainsFunc(u.hints, func(hint string) bool { return bytes.Contains(text, []byte(hint)) }) {
			continue
		}
		if at := u.pattern.FindIndex(text); at != nil {
			return what, at
		}
	}
	return "", nil
}

// ourFiles calls f with every file of the checkout that belongs to the project: no hidden caches,
// and nothing that .gitignore excludes.
func ourFiles(t *testing.T, f func(name string)) {
	t.Helper()
	count := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && slices.Contains([]string{".git", ".cache", "bin", "node_modules", "__pycache__"}, d.Name()):
			return filepath.SkipDir
		case d.Name() == ".git": // of a work tree
		case d.Type().IsRegular():
			count++
			f(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 20 {
		t.Fatalf("found %d files only: is this the root of the module?", count)
	}
}

// TestTestsRunWhole checks that tests that do less under the race detector are in the Makefile, so
// that make test runs all of them without it.
func TestTestsRunWhole(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ourFiles(t, func(name string) {
		if !strings.HasSuffix(name, "_test.go") || name == "house_test.go" {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		uses := map[string]bool{} // functions of the file that read race.Enabled
		for _, test := range []bool{false, true} {
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || strings.HasPrefix(fn.Name.Name, "Test") != test || !mentions(fn, uses) {
					continue
				}
				uses[fn.Name.Name] = true
				if !test {
					continue
				}
				found++
				if !regexp.MustCompile(`\b` + fn.Name.Name + `\b`).Match(makefile) {
					t.Errorf("%s: %s does less under the race detector; add it to WHOLE in the Makefile", name, fn.Name.Name)
				}
			}
		}
	})
	if found < 10 {
		t.Errorf("found %d tests only", found)
	}
}

// mentions reports whether a function uses race.Enabled, or calls a function of names.
func mentions(fn *ast.FuncDecl, names map[string]bool) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			found = found || ok && pkg.Name == "race" && n.Sel.Name == "Enabled"
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.Ident)
			found = found || ok && names[called.Name]
		}
		return true
	})
	return found
}

func TestNothingOfThisMachineIsInTheFiles(t *testing.T) {
	ourFiles(t, func(name string) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			return
		}
		if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			return // not text
		}
		if what, at := findUnwanted(text); what != "" {
			line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
			t.Errorf("%s:%d holds %s: %q", filepath.ToSlash(name), line, what, text[at[0]:min(at[1], at[0]+60)])
		}
	})
}

func TestUnwanted(t *testing.T) {
	// The parts are joined here, so that this file does not match.
	for _, bad := range []string{
		"see /" + "work/main/x", "cd /" + "root/go", "https://" + "registry." + "npmjs.org/x", "GOPROXY=https://proxy." + "golang.org",
		"-----BEGIN RSA " + "PRIVATE KEY-----", "ghp_" + strings.Repeat("a", 36), "//host/:_auth" + "Token=x",
		"AKIA" + strings.Repeat("A", 16), "xoxb-" + strings.Repeat("1", 10), "sk-" + strings.Repeat("a", 32), "npm_" + strings.Repeat("a", 36),
	} {
		if what, _ := findUnwanted([]byte(bad)); what == "" {
			t.Errorf("%q is not found", bad)
		}
	}
	for _, good := range []string{"https://example.com/" + "work/x", "../" + "work/", "golang.org/x/sync", "homework/"} {
		if what, _ := findUnwanted([]byte(good)); what != "" {
			t.Errorf("%q is taken for %s", good, what)
		}
	}
}

// TestEveryDependencyIsExplained checks that docs/dependencies.md explains each dependency.
func TestEveryDependencyIsExplained(t *testing.T) {
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	// lines with "// indirect" do not match
	found := regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+/\S+) v\S+$`).FindAllSubmatch(mod, -1)
	if len(found) < 3 {
		t.Fatalf("found %d dependencies in go.mod", len(found))
	}
	for _, m := range found {
		if !bytes.Contains(page, []byte("`"+string(m[1])+"`")) {
			t.Errorf("%s stands in go.mod and not in docs/dependencies.md: what does it save, what does it cost, who keeps it?", m[1])
		}
	}
}

// TestDependenciesAreUsedWhereThePageSays compares the packages that docs/dependencies.md lists for
// each module of go.mod with those that import it.
func TestDependenciesAreUsedWhereThePageSays(t *testing.T) {
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	code, tests := importers(t)
	quoted := regexp.MustCompile("`([^`]+)`")
	rows := 0
	// of the table that the row is in; nil for a table without the column
	var used map[string][]string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		switch {
		case strings.HasPrefix(line, "| module | used by |"):
			used = code
		case strings.HasPrefix(line, "| module | tests of |"):
			used = tests
		case len(cells) < 4 || !strings.HasPrefix(line, "| `"):
			if !strings.HasPrefix(line, "|") {
				used = nil
			}
		case used != nil:
			listed := []string{}
			for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
				listed = append(listed, m[1])
			}
			for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
				rows++
				if !slices.Equal(listed, used[m[1]]) {
					t.Errorf("docs/dependencies.md: %s\n listed: %q\nimports: %q", m[1], listed, used[m[1]])
				}
				delete(used, m[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("the tables have %d modules", rows)
	}
	for _, m := range slices.Sorted(maps.Keys(code)) {
		t.Errorf("docs/dependencies.md has no row for %s, which is used by %q", m, code[m])
	}
}

// importers returns the folders whose code, and those whose tests, import each module of go.mod.
func importers(t *testing.T) (code, tests map[string][]string) {
	t.Helper()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+/\S+) v\S+`).FindAllSubmatch(mod, -1) {
		modules = append(modules, string(m[1]))
	}
	code, tests = make(map[string][]string), make(map[string][]string)
	all := goFiles(t)
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		for _, name := range all[folder] {
			users := code
			if strings.HasSuffix(name, "_test.go") {
				users = tests
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range file.Imports {
				m := moduleOf(strings.Trim(spec.Path.Value, `"`), modules)
				if m != "" && !slices.Contains(users[m], folder) {
					users[m] = append(users[m], folder)
				}
			}
		}
	}
	return code, tests
}

// moduleOf returns the longest of modules that contains a package, or "".
func moduleOf(imported string, modules []string) string {
	longest := ""
	for _, m := range modules {
		if strings.HasPrefix(imported+"/", m+"/") && len(m) > len(longest) {
			longest = m
		}
	}
	return longest
}

// TestEveryPackageExplainsItself checks that the first sentence of every package describes the
// package, and that a runnable example shows its use.
func TestEveryPackageExplainsItself(t *testing.T) {
	all := goFiles(t)
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		fset := token.NewFileSet()
		var name, comment string
		var tests []*ast.File
		for _, file := range all[folder] {
			parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
			if err != nil {
				t.Error(err)
				continue
			}
			if strings.HasSuffix(file, "_test.go") {
				tests = append(tests, parsed)
				continue
			}
			name = parsed.Name.Name
			if parsed.Doc != nil {
				if comment != "" {
					t.Errorf("%s: a second package comment", file)
				}
				comment = parsed.Doc.Text()
			}
		}
		switch {
		case name == "":
			t.Errorf("%s has tests and no package", folder)
		case name == "main":
			if comment == "" {
				t.Errorf("%s: the program has no doc comment", folder)
			}
		case !strings.HasPrefix(comment, "Package "+name+" "):
			t.Errorf("%s: the doc comment does not begin with %q", folder, "Package "+name+" ")
		case strings.HasPrefix(folder, "internal/x/"):
			// Its documentation is for this project only; its tests are enough.
		case strings.HasSuffix(name, "test"):
			// A contract test takes a *testing.T, which no example has: the tests that run it are
			// the example.
		case !slices.ContainsFunc(doc.Examples(tests...), func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput }):
			t.Errorf("%s has no example with an output", folder)
		}
	}
}

// TestOnlyJSONRPCWalksJSON checks that no other package declares what package jsonrpc exports for
// all: Raw.Members, Raw.Elements and AppendString. A copy has its own rules for white space,
// escapes and invalid text. A package that looks up one member names its rule for duplicates:
// lastMember.
func TestOnlyJSONRPCWalksJSON(t *testing.T) {
	all := goFiles(t)
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		if folder == "jsonrpc" {
			continue
		}
		for _, name := range all[folder] {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Error(err)
				continue
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && copiesWalker(f) {
					t.Errorf("%s: %s is a mechanism of package jsonrpc: use Raw.Members, Raw.Elements or AppendString", fset.Position(f.Pos()), f.Name.Name)
				}
			}
		}
	}
}

// copiesWalker reports whether f has the name and the parameters of a function that package jsonrpc
// exports: it takes JSON text, or appends to it.
func copiesWalker(f *ast.FuncDecl) bool {
	switch strings.ToLower(f.Name.Name) {
	case "members", "elements", "eachmember", "eachelement", "appendstring", "skipvalue", "skipstring":
	default:
		return false
	}
	for _, p := range f.Type.Params.List {
		switch typ := p.Type.(type) {
		case *ast.ArrayType: // []byte
			if elem, ok := typ.Elt.(*ast.Ident); ok && elem.Name == "byte" {
				return true
			}
		case *ast.SelectorExpr: // jsonrpc.Raw, jsontext.Value, json.RawMessage
			if slices.Contains([]string{"Raw", "Value", "RawMessage"}, typ.Sel.Name) {
				return true
			}
		}
	}
	return false
}

// TestCopiesWalker checks copiesWalker, which the test above depends on.
func TestCopiesWalker(t *testing.T) {
	for declaration, want := range map[string]bool{
		"func members(text jsonrpc.Raw, f func(name []byte, value jsonrpc.Raw)) {}": true,
		"func elements(array jsonrpc.Raw) []jsonrpc.Raw { return nil }":             true,
		"func members(object jsontext.Value) {}":                                    true,
		"func (l *lens) eachMember(object []byte) {}":                               true,
		"func appendString(dst []byte, s string) []byte { return dst }":             true,
		// the fields of a Go type
		"func members(t reflect.Type) {}":                                           false,
		"func lastMember(text jsonrpc.Raw, name string) jsonrpc.Raw { return nil }": false,
		"func appendHarmlessString(dst []byte, text string) []byte { return dst }":  false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+declaration, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := copiesWalker(file.Decls[0].(*ast.FuncDecl)); got != want {
			t.Errorf("%s: %t", declaration, got)
		}
	}
}
