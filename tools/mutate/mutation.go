package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A mutation is one changed line.
type mutation struct {
	file   string // below the root, with slashes
	line   int
	before string // the line, without the white space around it
	after  string
	text   []byte // the whole file, changed
	tests  []string
}

func (m mutation) key() string { return m.file + "\t" + m.before + "\t" + m.after }

func (m mutation) String() string {
	after := m.after
	if after == "" {
		after = "(nothing)"
	}
	return fmt.Sprintf("%s:%d: %s  →  %s", m.file, m.line, m.before, after)
}

// mutations lists all changes of all targets that are built on this system.
func mutations(root, only string) ([]mutation, error) {
	var all []mutation
	seen := map[string]bool{}
	for _, t := range targets {
		names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(t.pattern)))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			file, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			file = filepath.ToSlash(file)
			built, err := build.Default.MatchFile(filepath.Dir(name), filepath.Base(name))
			if err != nil {
				return nil, err
			}
			if !built || seen[file] || strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_gen.go") || !strings.Contains(file, only) {
				continue
			}
			seen[file] = true
			text, err := os.ReadFile(name) //nolint:gosec // a file of this checkout
			if err != nil {
				return nil, err
			}
			changes, err := changesOf(text)
			if err != nil {
				return nil, err
			}
			for _, c := range changes {
				all = append(all, c.apply(file, text, t.tests))
			}
		}
	}
	return all, nil
}

// A change replaces some bytes of one line.
type change struct {
	start, end int
	with       string
}

func (c change) apply(file string, text []byte, tests []string) mutation {
	changed := append(append(append([]byte{}, text[:c.start]...), c.with...), text[c.end:]...)
	first := bytes.LastIndexByte(text[:c.start], '\n') + 1
	lineOf := func(text []byte) string {
		line, _, _ := bytes.Cut(text[first:], []byte{'\n'})
		line, _, _ = bytes.Cut(line, []byte(" // "))
		return strings.ReplaceAll(string(bytes.TrimSpace(line)), "\t", " ")
	}
	return mutation{file: file, line: 1 + bytes.Count(text[:c.start], []byte{'\n'}), before: lineOf(text), after: lineOf(changed), text: changed, tests: tests}
}

// opposites maps operators to their replacements.
var opposites = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.AND: token.OR, token.OR: token.AND, token.SHL: token.SHR, token.SHR: token.SHL,
	token.INC: token.DEC, token.DEC: token.INC,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.BREAK: token.CONTINUE, token.CONTINUE: token.BREAK,
}

// changesOf finds what can be changed in the functions of a file.
func changesOf(text []byte) ([]change, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []change
	at := func(p token.Pos) int { return files.Position(p).Offset }
	add := func(from, to token.Pos, with string) {
		c := change{at(from), at(to), with}
		if !bytes.ContainsRune(text[c.start:c.end], '\n') {
			all = append(all, c)
		}
	}
	swap := func(p token.Pos, op token.Token) {
		if other, ok := opposites[op]; ok {
			add(p, p+token.Pos(len(op.String())), other.String())
		}
	}
	negate := func(e ast.Expr) {
		if e != nil {
			add(e.Pos(), e.End(), "!("+string(text[at(e.Pos()):at(e.End())])+")")
		}
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "String" || f.Name.Name == "Error" {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				swap(n.OpPos, n.Op)
			case *ast.IncDecStmt:
				swap(n.TokPos, n.Tok)
			case *ast.AssignStmt:
				swap(n.TokPos, n.Tok)
				if n.Tok != token.DEFINE && !isBlank(n.Lhs) {
					add(n.Pos(), n.End(), "")
				}
			case *ast.BranchStmt:
				swap(n.TokPos, n.Tok)
			case *ast.IfStmt:
				negate(n.Cond)
			case *ast.ForStmt:
				if n.Cond != nil {
					add(n.Cond.Pos(), n.Cond.End(), "false")
				}
			case *ast.ExprStmt:
				add(n.Pos(), n.End(), "")
			case *ast.DeferStmt:
				add(n.Pos(), n.End(), "")
			case *ast.BasicLit:
				if value, err := strconv.ParseInt(n.Value, 0, 64); err == nil && n.Kind == token.INT {
					add(n.Pos(), n.End(), strconv.FormatInt(value+1, 10))
				}
			case *ast.Ident:
				switch n.Name {
				case "true":
					add(n.Pos(), n.End(), "false")
				case "false":
					add(n.Pos(), n.End(), "true")
				}
			case *ast.ReturnStmt:
				for _, result := range n.Results {
					if id, ok := result.(*ast.Ident); ok && id.Name == "err" {
						add(id.Pos(), id.End(), "nil")
					}
				}
			}
			return true
		})
	}
	return all, nil
}

// isBlank reports whether nothing is assigned but to the blank identifier.
func isBlank(names []ast.Expr) bool {
	for _, e := range names {
		if id, ok := e.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	return true
}
