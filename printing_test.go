package parley_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayPrint lists the only places that may name this process's own stdout or stderr: the command,
// which creates terminals of them that escape what a peer sends, also for the default loggers; the
// transport over them, which writes messages; and the default of all servers' Report fields, which
// logs escaped lines with slog so that the errors of handlers are not lost. Examples and tools are
// programs for people to read and to build with.
var mayPrint = map[string][]string{
	"cmd/parley/main.go":          {"os.Stdout", "os.Stderr", "slog.SetDefault"},
	"internal/x/report/report.go": {"slog.Default"},
	"transport/stdio/stdio.go":    {"os.Stdout"},
}

// ownPrograms lists the folders whose programs are not part of what users run.
var ownPrograms = []string{"examples/...", "interop/...", "tools/...", "bench/...", "scripts/..."}

// printers are functions that write to stdout or stderr implicitly.
var printers = map[string][]string{
	"fmt":      {"Print", "Printf", "Println"},
	"log":      {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "Default", "Writer", "SetOutput"},
	"log/slog": {"Debug", "Info", "Warn", "Error", "Log", "LogAttrs", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "Default", "SetDefault"},
	"os":       {"Stdout", "Stderr"},
}

// printing lists the uses in a file that write to stdout or stderr implicitly.
func printing(file *ast.File) (found []string) {
	names := map[string]string{} // of the packages that the file imports
	for _, imported := range file.Imports {
		name, err := strconv.Unquote(imported.Path.Value)
		if err != nil {
			continue
		}
		local := path.Base(name)
		if imported.Name != nil {
			local = imported.Name.Name
		}
		names[local] = name
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if left, ok := n.X.(*ast.Ident); ok && left.Obj == nil && slices.Contains(printers[names[left.Name]], n.Sel.Name) {
				found = append(found, left.Name+"."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && name.Obj == nil && (name.Name == "print" || name.Name == "println") {
				found = append(found, name.Name)
			}
		}
		return true
	})
	return found
}

// TestNothingPrintsByItself checks that text of a peer reaches a terminal only through the
// command's own streams, which escape it. A package that prints by itself would bypass them.
func TestNothingPrintsByItself(t *testing.T) {
	used := map[string]bool{}
	for folder, files := range goFiles(t) {
		if slices.ContainsFunc(ownPrograms, func(p string) bool { return matches(p, folder) }) {
			continue
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Error(err)
				continue
			}
			for _, what := range printing(file) {
				if used[name+" "+what] = true; !slices.Contains(mayPrint[name], what) {
					t.Errorf("%s uses %s: write to a stream that the caller gives, in the command to app.stdout or app.stderr", name, what)
				}
			}
		}
	}
	for name, all := range mayPrint {
		for _, what := range all {
			if !used[name+" "+what] {
				t.Errorf("%s may use %s and does not: take it off the list", name, what)
			}
		}
	}
}

// TestPrintingIsFound checks that the rule detects violations.
func TestPrintingIsFound(t *testing.T) {
	const program = `package x
import ("fmt"; l "log"; "log/slog"; "os")
func f(out *os.File) {
	fmt.Println(1); fmt.Fprintln(out, 2); l.Printf("3"); slog.Info("4"); slog.New(nil).Info("5"); println(6)
	w := os.Stderr
	_ = w
}`
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", program, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(printing(file)), "[fmt.Println l.Printf slog.Info println os.Stderr]"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// TestTextOfPeersIsEscapedWhereItIsPrinted checks calls in the command of fmt.Fprint* and of a line
// on the screen: their arguments are constants, numbers, and results of the functions that escape.
// An unescaped error or field of a message is not allowed: newlines in it would start new lines.
func TestTextOfPeersIsEscapedWhereItIsPrinted(t *testing.T) {
	for _, name := range goFiles(t)["cmd/parley"] {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range unescaped(file) {
			t.Errorf("%s: an error is printed as it is: use visible, or harmless.Block for several lines", set.Position(bad))
		}
	}
}

// unescaped finds errors that are printed without an escape: err, x.Error() and names that end in
// Err, as an argument of fmt.Fprint*, or inside a text that is passed to a line of a screen.
func unescaped(file *ast.File) (found []token.Pos) {
	var look func(e ast.Expr)
	look = func(e ast.Expr) {
		switch e := e.(type) {
		case *ast.Ident:
			if e.Name == "err" || strings.HasSuffix(e.Name, "Err") {
				found = append(found, e.Pos())
			}
		case *ast.CallExpr:
			if s, ok := e.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Error" && len(e.Args) == 0 {
				found = append(found, e.Pos())
			}
			if s, ok := e.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sprintf" {
				for _, arg := range e.Args {
					look(arg)
				}
			}
		case *ast.BinaryExpr:
			look(e.X)
			look(e.Y)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		to, _ := s.X.(*ast.Ident)
		switch {
		case to != nil && to.Name == "fmt" && strings.HasPrefix(s.Sel.Name, "Fprint") && len(call.Args) > 0:
			for _, arg := range call.Args[1:] {
				look(arg)
			}
		case s.Sel.Name == "line":
			for _, arg := range call.Args {
				look(arg)
			}
		}
		return true
	})
	return found
}
