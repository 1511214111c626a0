// Words checks that the English of the repository stays plain. It reports giveaway phrases in Go
// comments, in string literals, in the texts of documents, scripts and the page, comments of the form
// "Nil: …", and Go comments that are wider than 100 columns.
//
// Usage: go run -C tools ./words [ROOT]
//
// allow.txt lists exceptions, each with a reason, and how many findings of each class are accepted.
package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// width is the maximum width of a line of a Go comment, in columns. A tab is one column. Code in
// comments, directives and lines with a URL may be wider.
const width = 100

// giveaways are phrases of an English that this project does not write. CONTRIBUTING.md has the
// rules.
var giveaways = regexp.MustCompile(`(?i)\b(whoever|whomever|nobody|for want of|(is|are|was) told|tells|told of|hears|said|for ever|no more than|` +
	`no longer of|of its own accord|what came of|a right server|stands? (behind|in|for ever|before|as)|goes out as|as it stands|takes? no word|` +
	`the seam|the door|knows no|(is|are) none|what one does|found out|last word|farewell|hush|spoilt|rubbish|carriers?|a no of|that of somebody|` +
	`wants to know who|comes? twice|one word too many|of the kind that)\b`)

// verbless matches comments such as "Nil: no limit".
var verbless = regexp.MustCompile(`\b(Nil|Zero|None|Empty): [a-z]`)

// skipped are files that are not written by hand or that must not change.
var skipped = regexp.MustCompile(`(^|/)(testdata|dist|node_modules)/|_gen\.go$|^docs/decisions/|^CHANGELOG\.md$|package-lock\.json$`)

//go:embed allow.txt
var allowText string

// A Finding is one place that breaks a rule.
type Finding struct {
	Class string // comments, strings, texts, verbless or width
	File  string // path from the root, with slashes
	Line  int
	Text  string // the line
}

// An Allowance is an exception: findings in a file whose line contains a text.
type Allowance struct{ File, Text, Reason string }

// Rules are the exceptions and the accepted number of findings per class.
type Rules struct {
	Allow  []Allowance
	Limits map[string]int
}

func main() {
	root := ".."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	rules, err := parseRules(allowText)
	if err == nil {
		var files []string
		if files, err = tracked(root); err == nil {
			var found []Finding
			if found, err = check(root, files, rules); err == nil {
				os.Exit(report(os.Stdout, found, rules))
			}
		}
	}
	fmt.Fprintln(os.Stderr, "words:", err)
	os.Exit(2)
}

// parseRules parses allow.txt: "limit CLASS N" and "FILE | TEXT | REASON". Lines that start with #
// are comments.
func parseRules(text string) (*Rules, error) {
	r := &Rules{Limits: map[string]int{}}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if words := strings.Fields(line); len(words) == 3 && words[0] == "limit" {
			n, err := strconv.Atoi(words[2])
			if err != nil {
				return nil, fmt.Errorf("allow.txt:%d: %w", i+1, err)
			}
			r.Limits[words[1]] = n
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 3 || strings.TrimSpace(parts[2]) == "" {
			return nil, fmt.Errorf("allow.txt:%d: want FILE | TEXT | REASON", i+1)
		}
		r.Allow = append(r.Allow, Allowance{parts[0], parts[1], parts[2]})
	}
	return r, nil
}

// tracked returns the files of the repository.
func tracked(root string) ([]string, error) {
	cmd := exec.CommandContext(context.Background(), "git", "ls-files", "-z")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}

// check returns the findings in files, without those that the rules allow.
func check(root string, files []string, rules *Rules) ([]Finding, error) {
	var found []Finding
	add := func(f Finding) {
		if !slices.ContainsFunc(rules.Allow, func(a Allowance) bool { return a.File == f.File && strings.Contains(f.Text, a.Text) }) {
			found = append(found, f)
		}
	}
	for _, file := range files {
		if skipped.MatchString(file) || strings.HasPrefix(file, "tools/words/") {
			continue
		}
		switch filepath.Ext(file) {
		case ".go":
			if err := checkGo(root, file, add); err != nil {
				return nil, err
			}
		case ".md", ".svelte", ".yaml", ".yml", ".js", ".ts", "":
			text, err := os.ReadFile(filepath.Join(root, file))
			if os.IsNotExist(err) {
				continue // deleted, not yet committed
			}
			if err != nil {
				return nil, err
			}
			lines := bufio.NewScanner(strings.NewReader(string(text)))
			lines.Buffer(nil, 1<<20)
			for n := 1; lines.Scan(); n++ {
				if giveaways.MatchString(lines.Text()) {
					add(Finding{"texts", file, n, lines.Text()})
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(a.Class, b.Class) })
	return found, nil
}

// checkGo checks the comments and string literals of a Go file. String literals of tests are not
// checked.
func checkGo(root, file string, add func(Finding)) error {
	src, err := os.ReadFile(filepath.Join(root, file))
	if os.IsNotExist(err) {
		return nil // deleted, not yet committed
	}
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	f := set.AddFile(file, -1, len(src))
	var s scanner.Scanner
	s.Init(f, src, nil, scanner.ScanComments)
	lines := strings.Split(string(src), "\n")
	wide := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		switch tok {
		case token.EOF:
			return nil
		case token.COMMENT:
			first := f.Line(pos)
			for i, line := range strings.Split(text, "\n") {
				if giveaways.MatchString(line) {
					add(Finding{"comments", file, first + i, line})
				}
				if verbless.MatchString(line) {
					add(Finding{"verbless", file, first + i, line})
				}
				whole := lines[first+i-1]
				alone := strings.HasPrefix(strings.TrimSpace(whole), "//")
				if alone && !wide[first+i] && utf8.RuneCountInString(whole) > width && !strings.Contains(line, "://") && !strings.HasPrefix(line, "//\t") && !strings.HasPrefix(line, "//go:") && !strings.HasPrefix(line, "//nolint") {
					wide[first+i] = true
					add(Finding{"width", file, first + i, line})
				}
			}
		case token.STRING:
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			first := f.Line(pos)
			for i, line := range strings.Split(text, "\n") {
				if giveaways.MatchString(line) {
					add(Finding{"strings", file, first + i, line})
				}
			}
		}
	}
}

// report prints the findings of each class over its limit, and returns the exit code.
func report(w io.Writer, found []Finding, rules *Rules) (code int) {
	for _, class := range []string{"comments", "strings", "texts", "verbless", "width"} {
		var of []Finding
		for _, f := range found {
			if f.Class == class {
				of = append(of, f)
			}
		}
		switch limit := rules.Limits[class]; {
		case len(of) > limit:
			code = 1
			fmt.Fprintf(w, "words: %s: %d places, accepted are %d. Use plain English (CONTRIBUTING.md), or add the place to tools/words/allow.txt:\n", class, len(of), limit)
			for _, f := range of {
				fmt.Fprintf(w, "%s:%d: %.160s\n", f.File, f.Line, strings.TrimSpace(f.Text))
			}
		case len(of) < limit:
			fmt.Fprintf(w, "words: %s: %d places; lower the limit of %d in tools/words/allow.txt\n", class, len(of), limit)
		}
	}
	return code
}
