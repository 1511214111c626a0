package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayWrite lists the packages that create files and folders without internal/x/private, with the
// reason. All other packages use internal/x/private, which follows no links, checks the owner, and
// creates nothing that other users may read.
var mayWrite = map[string]string{
	"internal/x/private/...":       "it is the one place",
	"internal/x/proc/book_unix.go": "the list of children, in a folder that was checked",
	"store/sqlite/head.go":         "was settled by private.Settle before it is opened",
	"store/sqlite/sqlite.go":       "the folder of a store, which may be there already; its files are settled",
	"transport/socket/unix.go":     "the folder of a socket, checked by private.Place",
	"cmd/parley/tap.go":            "a folder of its own beside the socket, in one that private.Place has checked",
	"cmd/parley/edit.go":           "the user's own files, which an agent may write, below one folder",
	"cmd/parley/man.go":            "manual pages, for all users, in a folder that the user named",
	"playground/saved.go":          "the folder of saved calls, in the user's configuration; its files are written by private.Write",
	"mcp/oauth/store.go":           "the folder of tokens, whose mode is checked; its files are written by private.Write",
	"examples/...":                 "programs for reading",

	"playground/internal/shelltest/...": "programs that tests start, in their own folders",
}

// writers are the functions that create or change files by name.
var writers = []string{"OpenFile", "Create", "CreateTemp", "WriteFile", "Mkdir", "MkdirAll", "MkdirTemp", "Symlink", "Link", "Truncate"}

// TestFilesAreMadeInOnePlace finds files that are opened for writing outside internal/x/private.
func TestFilesAreMadeInOnePlace(t *testing.T) {
	all := goFiles(t)
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		for _, name := range all[folder] {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Error(err)
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || !slices.Contains(writers, sel.Sel.Name) {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "os" {
					return true
				}
				slash := filepath.ToSlash(name)
				for pattern := range mayWrite {
					if matches(pattern, slash) || pattern == slash {
						return true
					}
				}
				t.Errorf("%s: os.%s makes a file or folder; use internal/x/private, or give the reason in mayWrite", fset.Position(sel.Pos()), sel.Sel.Name)
				return true
			})
		}
	}
}
