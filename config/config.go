package config

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
)

// Schema is the JSON Schema of parley.yaml. Editors use it with this comment in the file: `#
// yaml-language-server: $schema=parley.schema.json`.
//
//go:embed parley.schema.json
var Schema []byte

// Bounds of a file.
const (
	maxFile    = 1 << 20
	maxEntries = 500
)

// Protocols of an [Entry].
const (
	JSONRPC = "jsonrpc"
	MCP     = "mcp"
	ACP     = "acp"
	A2A     = "a2a"
	Editor  = "editor"
	LSP     = "lsp"
)

// A File is a parsed configuration file.
type File struct {
	Name     string // as passed by the caller
	Entries  []Entry
	Problems []Problem // in the order of the file; the first 100, and how many more there are

	// Warnings are parts of the file that can be used and are risky.
	Warnings []Problem

	// Gateway is the member gateway. It is nil if the file has none, unless Options.Gateway is set:
	// then it has the defaults.
	Gateway *Gateway
}

// A Problem describes a part of a file that cannot be used.
type Problem struct {
	Line, Column int    // from 1; 0 if the problem concerns the whole file
	Path         string // such as servers.notes.url
	Text         string

	// File is the file with the problem, if it is another one than the parsed file: a file that it
	// names, such as a file of tokens. Otherwise it is empty.
	File string
}

// In returns the problem with the name of its file: FILE:LINE:COLUMN: PATH: TEXT. file is the name
// of the parsed file.
func (p Problem) In(file string) string {
	if p.File != "" {
		file = p.File
	}
	if p.Line == 0 {
		return file + ": " + p.String()
	}
	return file + ":" + p.String()
}

func (p Problem) String() string {
	text := p.Text
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Line == 0 {
		return text
	}
	return fmt.Sprintf("%d:%d: %s", p.Line, p.Column, text)
}

// An Entry describes one server.
type Entry struct {
	Name         string
	Title        string
	About        string
	Protocol     string // one of the constants above
	Line, Column int    // position in the file

	// Address is the address of the server, for parley.ParseTarget. It is empty for a program.
	Address string
	Header  http.Header

	// Command is the program with its arguments. Env is its whole environment: [stdio.CleanEnv] of
	// the named variables. Dir is its working folder. The default is the folder of the file.
	Command []string
	Env     []string
	Dir     string
	Framing stream.Framer

	Disabled bool
	Problem  string   // why it cannot be used; empty if no problem was detected
	Missing  []string // variables that are not set
	Risky    []string // named variables that make programs run other code
	Secrets  []string // values that must not be shown or recorded

	// Show is the address or the command line for display, with dots in place of secrets.
	Show string

	// Headers are the headers of Header with values that are read again, for programs that run for
	// a long time.
	Headers *Headers

	// Upstream has the settings that only the gateway uses. Files of other programs have none; then
	// it has the defaults.
	Upstream Upstream

	// Renamed is the name in the file, if Options.Gateway is set and the name of an MCP server in a
	// file of another program cannot be part of tool names: Name is then the name of the server in
	// the gateway. Otherwise it is empty.
	Renamed string
}

// Target returns the target of the entry. The path of a program such as ./server is relative to the
// folder in which it runs.
func (e *Entry) Target() (parley.Target, error) {
	if e.Problem != "" {
		return parley.Target{}, errors.New(e.Problem)
	}
	if len(e.Command) > 0 {
		t := parley.Command(e.Command...)
		if name := t.Argv[0]; !filepath.IsAbs(name) && strings.ContainsAny(filepath.ToSlash(name), "/") {
			t.Argv[0] = filepath.Join(e.Dir, name)
		}
		t.Framing, t.Env, t.Dir = e.Framing, e.Env, e.Dir
		return t, nil
	}
	return parley.ParseTarget(e.Address)
}

// Options configure Read and Parse. The zero value is ready for use.
type Options struct {
	// Lookup returns an environment variable. If nil, os.LookupEnv is used.
	Lookup func(name string) (string, bool)

	// ReadFile reads the envFile of a program, and the file of a variable ${file:…}. If nil, they are
	// read from disk; an envFile is rejected if other users may write it.
	ReadFile func(name string) ([]byte, error)

	// Gateway, if not nil, reads the file for a gateway: File.Gateway is never nil, and the checks
	// of the gateway apply also if the file has no member gateway.
	Gateway *GatewayOptions

	// Project is a folder. Of the servers that ~/.claude.json has per project, those of the innermost
	// project that contains it are read. If empty, it is the working directory.
	Project string

	found bool // parley detected the file; the user did not name it
}

// GatewayOptions are the settings of a gateway that its command line replaces.
type GatewayOptions struct {
	Listen         []string // replaces gateway.listen; nil keeps it
	Cert, Key      string   // replace gateway.tls; empty keeps it
	InsecureNoAuth bool     // permits addresses that other machines can reach without identity
}

func (o *Options) lookup(name string) (string, bool) {
	if o == nil || o.Lookup == nil {
		return os.LookupEnv(name)
	}
	return o.Lookup(name)
}

func (o *Options) readFile(name string) ([]byte, error) {
	if o == nil || o.ReadFile == nil {
		return private.Read(name, o != nil && o.found)
	}
	return o.ReadFile(name)
}

// Read reads a file that the user named. It returns the error of the system, or an error if other
// users may write the file or replace it in its folder, because they could then choose the programs
// that run; the error's text contains the command that fixes the permissions. A sticky folder such
// as /tmp is accepted, and the file may have any owner. Links are followed. Errors in the content
// of the file are returned in Problems.
func Read(name string, o *Options) (*File, error) {
	f, _, err := ReadText(name, o)
	return f, err
}

// ReadText is like [Read] and also returns the text of the file, so that it can be compared with a
// later version.
func ReadText(name string, o *Options) (*File, []byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if info.Size() > maxFile {
		return &File{Name: name, Problems: []Problem{{Text: "the file is larger than 1 MiB"}}}, nil, nil
	}
	text, err := private.Read(name, o != nil && o.found)
	if err != nil {
		return nil, nil, err
	}
	return Parse(name, text, o), text, nil
}

// Parse parses the text of a file. The extension of name selects the language, and relative folders
// are resolved against the folder of name. Parse never returns nil.
func Parse(name string, text []byte, o *Options) *File {
	f := &File{Name: name}
	if len(text) > maxFile {
		f.Problems = append(f.Problems, Problem{Text: "the file is larger than 1 MiB"})
		return f
	}
	language := languageOf(name, text)
	r := &reader{file: f, options: o, own: language == inYAML, sources: make(map[string]source), broken: make(map[string]bool)}
	root, problems := language.parse(text)
	for _, p := range problems {
		r.record(p)
	}
	if root == nil {
		return f
	}
	if r.dir = filepath.Dir(name); r.dir == "" {
		r.dir = "."
	}
	if abs, err := filepath.Abs(r.dir); err == nil {
		r.dir = abs
	}
	r.read(root)
	r.sort()
	return f
}

// sort brings the problems into the order of the file.
func (r *reader) sort() {
	byPlace := func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	}
	slices.SortStableFunc(r.file.Problems, byPlace)
	slices.SortStableFunc(r.file.Warnings, byPlace)
	if more := r.found - len(r.file.Problems); more > 0 {
		r.file.Problems = append(r.file.Problems, Problem{Text: fmt.Sprintf("and %d more problems", more)})
	}
}

// A language is the language of a file.
type language int

const (
	inJSON language = iota
	inYAML
	inTOML
)

var parsers = [...]func([]byte) (*node, []Problem){inJSON: parseJSON, inYAML: parseYAML, inTOML: parseTOML}

// languageOf detects the language: from the name, or else from the first significant line.
func languageOf(name string, text []byte) language {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml":
		return inYAML
	case ".json", ".jsonc", ".json5":
		return inJSON
	case ".toml":
		return inTOML
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0 || line[0] == '#':
			continue
		case line[0] == '{' || line[0] == '/':
			return inJSON
		case tomlLine.Match(line):
			return inTOML
		}
		break
	}
	return inYAML
}

// tomlLine matches a first line that is valid in TOML and not in YAML: a table header, or a name
// and "=".
var tomlLine = regexp.MustCompile(`^(\[\[?[A-Za-z0-9_-][A-Za-z0-9_."' -]*\]\]?\s*(#.*)?$|["']?[A-Za-z0-9_-][A-Za-z0-9_."' -]*=)`)

// UsualName returns the usual name of a file with this text. It is used for pasted text.
func UsualName(text []byte) string {
	return [...]string{inJSON: "mcp.json", inYAML: "parley.yaml", inTOML: "config.toml"}[languageOf("", text)]
}

// Find returns the entry with the given name.
func (f *File) Find(name string) (*Entry, bool) {
	for i := range f.Entries {
		if f.Entries[i].Name == name {
			return &f.Entries[i], true
		}
	}
	return nil, false
}

// finish completes an entry from the values that were read.
func (r *reader) finish(e *Entry, env []string) {
	if e.Problem == "" && len(e.Missing) > 0 {
		e.Problem = strings.Join(e.Missing, " and ") + map[bool]string{true: " is not set", false: " are not set"}[len(e.Missing) == 1]
	}
	if len(e.Command) > 0 {
		e.Env, e.Risky = stdio.CleanEnv(env...)
		if e.Dir == "" {
			e.Dir = r.dir
		} else if !filepath.IsAbs(e.Dir) {
			e.Dir = filepath.Join(r.dir, e.Dir)
		}
		e.Show = strings.Join(e.Command, " ")
	} else {
		e.Show = e.Address
	}
	e.Secrets = slices.DeleteFunc(e.Secrets, func(value string) bool { return len(value) < minSecret })
	hide := secret.New(nil)
	hide.Add(e.Secrets...)
	e.Show = strings.ReplaceAll(hide.Address(e.Show), secret.Hidden, "•••")
}
