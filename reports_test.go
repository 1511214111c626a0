package parley_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/report"
)

var updateReports = flag.Bool("update", false, "rewrite the table of docs/reports.md")

// A reportConstant is an exported constant whose name begins with Report: the first argument of
// Report functions.
type reportConstant struct {
	folder, name, value, about, cause string
}

var reportComment = regexp.MustCompile(`(?s)^(Report\w+) means(?: that|,) (.*) Cause: (peer|own code|environment)\.$`)

// reportConstants returns the declared constants, and checks that their comments have the form
// "X means that …. Cause: peer."
func reportConstants(t *testing.T, folder string, file *ast.File) (found []reportConstant) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			spec := spec.(*ast.ValueSpec)
			name := spec.Names[0].Name
			if !isReportName(name) || len(spec.Values) != 1 {
				continue
			}
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s.%s is not a string literal", folder, name)
				continue
			}
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			r := reportConstant{folder: folder, name: name, value: value}
			if ast.IsExported(name) {
				m := reportComment.FindStringSubmatch(strings.Join(strings.Fields(spec.Doc.Text()), " "))
				if m == nil || m[1] != name {
					t.Errorf("%s.%s: the comment is not of the form %q", folder, name, name+" means that …. Cause: peer.")
					continue
				}
				r.about, r.cause = m[2], m[3]
			}
			found = append(found, r)
		}
	}
	return found
}

func isReportName(name string) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(name, "Report"), "report")
	return rest != name && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z'
}

// reportCalls returns the positions of calls of Report functions whose first argument is neither
// such a constant nor a parameter named what, or whose error is the literal nil.
func reportCalls(file *ast.File) (wrong []token.Pos, calls int) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		f := lastName(call.Fun)
		if f != "Report" && f != "report" {
			return true
		}
		first := lastName(call.Args[0])
		if first == "r" || first == "ctx" {
			return true // middleware.Recover and oauth.Guard report a request, not a reason
		}
		calls++
		if first != "what" && !isReportName(first) || lastName(call.Args[1]) == "nil" {
			wrong = append(wrong, call.Pos())
		}
		return true
	})
	return wrong, calls
}

// lastName returns the name of an identifier or of a selector's last part, or "".
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// TestReports checks that every call of a Report function passes a named constant and an error,
// that the comments of the constants match the levels in package internal/x/report, and that
// docs/reports.md lists the constants. With -update it rewrites the table.
func TestReports(t *testing.T) {
	var found []reportConstant
	calls := 0
	for folder, files := range goFiles(t) {
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, reportConstants(t, folder, file)...)
			wrong, n := reportCalls(file)
			calls += n
			for _, pos := range wrong {
				t.Errorf("%s: a Report function is called without a constant Report…, or without an error", fset.Position(pos))
			}
		}
	}
	if len(found) < 40 || calls < 80 {
		t.Fatalf("found %d constants and %d calls", len(found), calls)
	}

	cause := map[string]string{}
	for _, r := range found {
		if r.cause == "" {
			continue
		}
		if was := cause[r.value]; was != "" && was != r.cause {
			t.Errorf("%q has two causes, %s and %s", r.value, was, r.cause)
		}
		cause[r.value] = r.cause
		if level := report.Level(r.value, errors.New("x")); (level == slog.LevelDebug) != (r.cause == "peer") {
			t.Errorf("%s.%s is caused by %s and logged at %s", r.folder, r.name, r.cause, level)
		}
	}
	for _, r := range found {
		if r.cause == "" && cause[r.value] == "" && !strings.HasPrefix(r.folder, "cmd/") && r.folder != "internal/demo" {
			t.Errorf("%s.%s = %q is not exported by any package", r.folder, r.name, r.value)
		}
	}
	compareReportTable(t, found)
}

// compareReportTable compares docs/reports.md with the constants.
func compareReportTable(t *testing.T, found []reportConstant) {
	var table strings.Builder
	table.WriteString("| text | constant | meaning | cause | level |\n|---|---|---|---|---|\n")
	slices.SortFunc(found, func(a, b reportConstant) int {
		return strings.Compare(a.value+" "+a.folder, b.value+" "+b.folder)
	})
	for _, r := range found {
		if r.cause == "" {
			continue
		}
		pkg := path.Base(r.folder)
		if r.folder == "." {
			pkg = "parley"
		}
		about := strings.NewReplacer("*[", "`*", "[", "`", "]", "`").Replace(r.about)
		fmt.Fprintf(&table, "| %s | `%s.%s` | %s | %s | %s |\n", r.value, pkg, r.name, about, r.cause,
			map[slog.Level]string{slog.LevelDebug: "Debug", slog.LevelError: "Error"}[report.Level(r.value, errors.New("x"))])
	}
	const page, begin, end = "docs/reports.md", "<!-- table -->\n", "<!-- end of table -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(text, []byte(begin))
	got, after, ok2 := bytes.Cut(rest, []byte(end))
	switch {
	case !ok || !ok2:
		t.Errorf("%s has no table", page)
	case string(got) == table.String():
	case *updateReports:
		if err := os.WriteFile(page, slices.Concat(before, []byte(begin), []byte(table.String()), []byte(end), after), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the constants; run go test . -run TestReports -update", page)
	}
}

// TestReportCallsAreFound checks the rules that TestReports applies.
func TestReportCallsAreFound(t *testing.T) {
	for code, want := range map[string]int{
		`c.report("x", err)`:                     1,
		`c.o.Report("x"+name, err)`:              1,
		`report(fmt.Sprint(1), err)`:             1,
		`c.report(jsonrpc.ReportX, nil)`:         1,
		`c.report(text, err)`:                    1,
		`c.report(jsonrpc.ReportX, err)`:         0,
		`report(reportX, fmt.Errorf("%d", 1))`:   0,
		`c.opts.Report(what, err)`:               0,
		`g.opts.Report(r, err); report(ctx, &e)`: 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+code+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if wrong, _ := reportCalls(file); len(wrong) != want {
			t.Errorf("%s: %d findings", code, len(wrong))
		}
	}
}
