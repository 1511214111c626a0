// Cross type-checks the packages of the module in the working directory and their tests for systems
// that this machine does not run. It applies the analyzers of go vet to packages with files that
// are not built here, and to all of them if an int has another size there than here. Bodies of
// functions of dependencies are not checked.
//
// Usage: cross GOOS/GOARCH[=PATTERN,…] …
//
// It reads the source of all dependencies instead of compiling them, because the Go tool needs more
// than a minute per system for that if its cache is empty. The default PATTERN is ./... . Findings
// are lines of the form "file:line:column: GOOS/GOARCH: message". The exit code is 1 if there are
// any, and 2 if the packages cannot be listed.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

func main() {
	dir, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cross:", err)
		os.Exit(2)
	}
	debug.SetGCPercent(400)
	systems := os.Args[1:]
	if len(systems) == 0 {
		fmt.Fprintln(os.Stderr, "usage: cross GOOS/GOARCH[=PATTERN,…] …")
		os.Exit(2)
	}
	results := make([][]string, len(systems))
	errs := make([]error, len(systems))
	var all sync.WaitGroup
	slots := make(chan bool, runtime.GOMAXPROCS(0)) // a system keeps its types in memory, up to 400 MB
	for i, arg := range systems {
		all.Go(func() {
			slots <- true
			defer func() { <-slots }()
			system, patterns, _ := strings.Cut(arg, "=")
			results[i], errs[i] = Check(dir, system, strings.Split(cmp.Or(patterns, "./..."), ","))
		})
	}
	all.Wait()
	code := 0
	for i := range systems {
		for _, line := range results[i] {
			fmt.Println(line)
			code = max(code, 1)
		}
		if errs[i] != nil {
			fmt.Fprintln(os.Stderr, "cross:", errs[i])
			code = 2
		}
	}
	os.Exit(code)
}

// A listed package is what go list -json prints of it (go help list).
type listed struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string
	DepOnly    bool
	Module     *struct{ GoVersion string }
	Error      *struct{ Pos, Err string }
}

// isForeign reports whether the package has a file that is not built on this machine.
func (p *listed) isForeign() bool {
	return slices.ContainsFunc(p.GoFiles, func(name string) bool {
		ok, err := build.Default.MatchFile(p.Dir, name)
		return !ok || err != nil
	})
}

// Check lists, type-checks and vets the packages in dir that match the patterns, and their tests,
// for a system such as windows/amd64. It returns the findings.
func Check(dir, system string, patterns []string) ([]string, error) {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return nil, fmt.Errorf("%s is not GOOS/GOARCH", system)
	}
	sizes := types.SizesFor("gc", goarch)
	if sizes == nil {
		return nil, fmt.Errorf("%s is no architecture of Go", goarch)
	}
	list := exec.CommandContext(context.Background(), "go", append([]string{"list", "-e", "-deps", "-test", "-json=ImportPath,Name,Dir,GoFiles,ImportMap,DepOnly,Module,Error"}, patterns...)...)
	list.Dir = dir
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	var warnings bytes.Buffer
	list.Stderr = io.MultiWriter(os.Stderr, &warnings)
	out, err := list.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := list.Start(); err != nil {
		return nil, err
	}
	c := &check{dir: dir, system: system, sizes: sizes, fset: token.NewFileSet(), checked: map[string]*packages.Package{
		"unsafe": {PkgPath: "unsafe", Types: types.Unsafe},
	}}
	var all []*listed // dependencies come first
	withTests := map[string]bool{}
	for in := json.NewDecoder(out); ; {
		p := new(listed)
		if err := in.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, errors.Join(err, list.Wait())
		}
		all = append(all, p)
		if path, test, ok := strings.Cut(p.ImportPath, " "); ok && test == "["+path+".test]" {
			withTests[path] = true
		}
	}
	if err := list.Wait(); err != nil {
		return nil, fmt.Errorf("go list for %s: %w", system, err)
	}
	if strings.Contains(warnings.String(), "matched no packages") {
		return nil, fmt.Errorf("a pattern of %s matches no package", strings.Join(patterns, " "))
	}
	for _, p := range all {
		// A package with its tests has all files of the package. Its functions are checked there. The
		// compiler of this machine has seen whether it needs the files of its tests.
		p.DepOnly = p.DepOnly || withTests[p.ImportPath] && !p.isForeign()
		c.add(p)
	}
	if c.ours == 0 && len(c.found) == 0 {
		return nil, fmt.Errorf("no package matches %s", strings.Join(patterns, " "))
	}
	if len(c.found) == 0 { // analyzers need types without errors
		if err := c.vet(); err != nil {
			return nil, err
		}
	}
	slices.Sort(c.found)
	return slices.Compact(c.found), nil // a file is part of a package, and of the package with its tests
}

// A check holds the packages and findings of one system.
type check struct {
	dir, system string
	sizes       types.Sizes
	fset        *token.FileSet
	checked     map[string]*packages.Package // by the import path of go list
	roots       []*packages.Package          // to which the analyzers are applied
	ours        int                          // packages that were checked whole
	found       []string
}

// add type-checks a package whose dependencies have been added.
func (c *check) add(p *listed) {
	if p.Error != nil {
		c.report(p.Error.Pos, p.Error.Err)
		return
	}
	if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // its file is generated
		return
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // PATH [TEST.test]
	pkg := &packages.Package{ID: p.ImportPath, Name: p.Name, PkgPath: path, Fset: c.fset, TypesSizes: c.sizes, Imports: map[string]*packages.Package{}, Module: new(packages.Module)}
	config := types.Config{
		Importer:         importer(func(path string) (*types.Package, error) { return c.find(pkg, p, path) }),
		Sizes:            c.sizes,
		IgnoreFuncBodies: p.DepOnly,
		Error: func(err error) {
			var e types.Error
			if errors.As(err, &e) && (!p.DepOnly || p.Module != nil) {
				c.report(c.fset.Position(e.Pos).String(), e.Msg)
			}
		},
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		pkg.Module.GoVersion = p.Module.GoVersion
		config.GoVersion = "go" + p.Module.GoVersion
	}
	mode := parser.SkipObjectResolution
	if !p.DepOnly {
		mode |= parser.ParseComments // for directives
		pkg.TypesInfo = &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			Implicits: map[ast.Node]types.Object{}, Instances: map[*ast.Ident]types.Instance{}, Scopes: map[ast.Node]*types.Scope{},
			Selections: map[*ast.SelectorExpr]*types.Selection{}, FileVersions: map[*ast.File]string{},
		}
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, mode)
		if err != nil {
			c.report("", err.Error())
			continue
		}
		files = append(files, file)
	}
	pkg.Types, _ = config.Check(path, c.fset, files, pkg.TypesInfo) // its errors were reported
	c.checked[p.ImportPath] = pkg
	if !p.DepOnly {
		c.ours++
		pkg.Syntax = files
		// The linters of this machine read the files that it builds.
		if p.isForeign() || c.sizes.Sizeof(types.Typ[types.Int]) != bits.UintSize/8 {
			c.roots = append(c.roots, pkg)
		}
	}
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }

// find returns the package that p imports as path.
func (c *check) find(pkg *packages.Package, p *listed, path string) (*types.Package, error) {
	real := cmp.Or(p.ImportMap[path], path)
	found := c.checked[real]
	if found == nil {
		return nil, fmt.Errorf("package %s is missing", real)
	}
	if found.Syntax != nil { // facts are exchanged only between packages that were checked whole
		pkg.Imports[path] = found
	}
	return found.Types, nil
}

// vet applies the analyzers.
func (c *check) vet() error {
	graph, err := checker.Analyze(analyzers, c.roots, nil)
	if err != nil {
		return err
	}
	for _, action := range graph.Roots {
		if action.Err != nil {
			return fmt.Errorf("%s of %s: %w", action.Analyzer.Name, action.Package.ID, action.Err)
		}
		for _, d := range action.Diagnostics {
			c.report(c.fset.Position(d.Pos).String(), d.Message)
		}
	}
	return nil
}

// report adds a finding. pos is file:line:column, or empty if message begins with it.
func (c *check) report(pos, message string) {
	if pos == "" {
		if end := strings.Index(message, ": "); end > 0 {
			pos, message = message[:end], message[end+2:]
		}
	}
	if rest, ok := strings.CutPrefix(pos, c.dir+string(filepath.Separator)); ok {
		pos = rest
	}
	c.found = append(c.found, fmt.Sprintf("%s: %s: %s", pos, c.system, strings.ReplaceAll(strings.TrimSpace(message), "\n", " ")))
}
