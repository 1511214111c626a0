package parley_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// leastBound is the smallest upper bound of elapsed real time that a test may have: a busy machine
// can take that long for anything.
const leastBound = 20 * time.Second

// TestTestsWaitForEvents checks that no test depends on how fast the machine is. Outside a synctest
// bubble, a test waits for events, in a loop or with a channel, and a pause or an upper bound below
// leastBound needs a comment on its line that says why it is right on a busy machine.
func TestTestsWaitForEvents(t *testing.T) {
	ourFiles(t, func(name string) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, fault := range hasty(t, name, nil) {
			t.Error(fault)
		}
	})
}

func TestHasty(t *testing.T) {
	const source = `package x

func TestX(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { time.Sleep(time.Second) })
	for !done() {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Second) // simulates a slow line
	time.Sleep(wait)
	if took := time.Since(start); took > 5*time.Second || took > time.Minute {
	}
	if time.Since(start) >= 100*time.Millisecond || 3*time.Second < took {
	}
}
`
	var lines []string
	for _, fault := range hasty(t, "x_test.go", []byte(source)) {
		lines = append(lines, strings.Split(fault, ":")[1])
	}
	if want := []string{"9", "10", "12", "12"}; !slices.Equal(lines, want) {
		t.Errorf("lines %v, want %v", lines, want)
	}
}

// hasty returns the places of a test file that depend on the speed of the machine. If source is
// nil, it reads the file.
func hasty(t *testing.T, name string, source []byte) (faults []string) {
	t.Helper()
	files := token.NewFileSet()
	var text any
	if source != nil {
		text = source
	}
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	explained := map[int]bool{}
	for _, group := range file.Comments {
		explained[files.Position(group.Pos()).Line] = true
	}
	report := func(at token.Pos, format string, args ...any) {
		if line := files.Position(at).Line; !explained[line] {
			faults = append(faults, fmt.Sprintf("%s:%d: ", name, line)+fmt.Sprintf(format, args...))
		}
	}
	var look func(n ast.Node, loop bool)
	look = func(n ast.Node, loop bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt, *ast.RangeStmt:
				if !loop {
					look(n, true)
					return false
				}
			case *ast.CallExpr:
				switch callee(n) {
				case "synctest.Test":
					return false
				case "time.Sleep":
					if !loop {
						report(n.Pos(), "a fixed pause: wait for an event, or use synctest")
					}
				}
			case *ast.BinaryExpr:
				left, right := n.X, n.Y
				switch n.Op {
				case token.GTR, token.GEQ:
				case token.LSS, token.LEQ:
					left, right = right, left
				default:
					return true
				}
				if bound, ok := duration(right); ok && bound > 0 && bound < leastBound && elapsed(left) {
					report(n.Pos(), "an upper bound of %v for elapsed time: wait for an event, or use synctest", bound)
				}
			}
			return true
		})
	}
	look(file, false)
	return faults
}

// callee returns the name of a called function with its package, or "".
func callee(call *ast.CallExpr) string {
	if of, ok := call.Fun.(*ast.SelectorExpr); ok {
		if from, ok := of.X.(*ast.Ident); ok {
			return from.Name + "." + of.Sel.Name
		}
	}
	return ""
}

// elapsed reports whether an expression is elapsed time: time.Since, or a variable that our tests
// use for it.
func elapsed(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		return callee(e) == "time.Since"
	case *ast.Ident:
		return slices.Contains([]string{"took", "elapsed"}, e.Name)
	}
	return false
}

// units are the constants of durations.
var units = map[string]time.Duration{
	"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
	"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

// duration returns the value of a constant such as 5*time.Second.
func duration(e ast.Expr) (time.Duration, bool) {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		unit, ok := units[e.Sel.Name]
		return unit, ok
	case *ast.BasicLit:
		n, err := strconv.Atoi(e.Value)
		return time.Duration(n), err == nil
	case *ast.BinaryExpr:
		x, xOK := duration(e.X)
		y, yOK := duration(e.Y)
		switch e.Op {
		case token.MUL:
			return x * y, xOK && yOK
		case token.QUO:
			return x / max(y, 1), xOK && yOK
		}
	}
	return 0, false
}
