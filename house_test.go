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

// unwanted is what no file of ours may hold. The patterns are written so that they do not match themselves. A pattern is
// tried only on a text that has one of its hints, since most have none.
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

// findUnwanted says what text holds and where, or "".
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

// ourFiles yields every file of the checkout that is ours: no hidden cache, nothing that .gitignore leaves out.
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
	// The parts are joined here, so that this file is clean.
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

// A dependency that nobody has written a sentence about is not reviewed.
func TestEveryDependencyIsExplained(t *testing.T) {
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+/\S+) v\S+$`).FindAllSubmatch(mod, -1) // what is "// indirect" ends otherwise
	if len(found) < 3 {
		t.Fatalf("found %d dependencies in go.mod", len(found))
	}
	for _, m := range found {
		if !bytes.Contains(page, []byte("`"+string(m[1])+"`")) {
			t.Errorf("%s stands in go.mod and not in docs/dependencies.md: what does it save, what does it cost, who keeps it?", m[1])
		}
	}
}

// Every package says in its first sentence what it is, and shows it in an example that runs.
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
			// Nobody but us reads its documentation; its tests are enough.
		case strings.HasSuffix(name, "test"):
			// A contract takes a *testing.T, which no example has: the tests that run it are the example.
		case !slices.ContainsFunc(doc.Examples(tests...), func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput }):
			t.Errorf("%s has no example with an output", folder)
		}
	}
}
