package config

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
)

// Schema is the JSON Schema of parley.yaml, for editors: `# yaml-language-server: $schema=parley.schema.json`.
//
//go:embed parley.schema.json
var Schema []byte

// Bounds of a file.
const (
	maxFile    = 1 << 20
	maxEntries = 500
)

// Protocols that an [Entry] may speak.
const (
	JSONRPC = "jsonrpc"
	MCP     = "mcp"
	ACP     = "acp"
	A2A     = "a2a"
	Editor  = "editor"
	LSP     = "lsp"
)

// A File is a file that was read.
type File struct {
	Name     string // as it was given
	Entries  []Entry
	Problems []Problem // in the order of the file
}

// A Problem is a place that cannot be used as it is.
type Problem struct {
	Line, Column int    // from 1; 0 when the file as a whole is meant
	Path         string // such as servers.notes.url
	Text         string
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

// An Entry is one server.
type Entry struct {
	Name         string
	Title        string
	About        string
	Protocol     string // one of the constants above
	Line, Column int    // where it stands

	// Address is where it is, for parley.ParseTarget; "" for a program.
	Address string
	Header  http.Header

	// Command is the program with its arguments. Env is its whole environment: what [stdio.CleanEnv] makes of the named variables.
	// Dir is where it runs: the folder of the file unless the file says otherwise.
	Command []string
	Env     []string
	Dir     string
	Framing stream.Framer

	Disabled bool
	Problem  string   // why it cannot be used; "" if nothing is known to be wrong
	Missing  []string // variables that are not set
	Risky    []string // named variables that make programs run other code
	Secrets  []string // values that must not be shown or recorded

	// Show is the address or the command line for people, with dots in place of secrets.
	Show string
}

// Target is where the entry leads.
func (e *Entry) Target() (parley.Target, error) {
	if e.Problem != "" {
		return parley.Target{}, errors.New(e.Problem)
	}
	if len(e.Command) > 0 {
		t := parley.Command(e.Command...)
		t.Framing = e.Framing
		return t, nil
	}
	return parley.ParseTarget(e.Address)
}

// Options tune Read and Parse. The zero value is ready for use.
type Options struct {
	// Lookup finds a variable of the environment. Nil is os.LookupEnv.
	Lookup func(name string) (string, bool)

	// ReadFile reads the envFile of a program. Nil is os.ReadFile.
	ReadFile func(name string) ([]byte, error)
}

func (o *Options) lookup(name string) (string, bool) {
	if o == nil || o.Lookup == nil {
		return os.LookupEnv(name)
	}
	return o.Lookup(name)
}

func (o *Options) readFile(name string) ([]byte, error) {
	if o == nil || o.ReadFile == nil {
		return os.ReadFile(name)
	}
	return o.ReadFile(name)
}

// Read reads a file. The error is the system's; what is wrong in the file is in Problems.
func Read(name string, o *Options) (*File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return &File{Name: name, Problems: []Problem{{Text: "it is longer than 1 MiB"}}}, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return Parse(name, text, o), nil
}

// Parse reads the text of a file. name tells what it is by its ending, and relative folders count from its folder. Never nil.
func Parse(name string, text []byte, o *Options) *File {
	f := &File{Name: name}
	if len(text) > maxFile {
		f.Problems = append(f.Problems, Problem{Text: "it is longer than 1 MiB"})
		return f
	}
	language := languageOf(name, text)
	r := &reader{file: f, options: o, own: language == inYAML}
	root, problem := parsers[language](text)
	if problem != nil {
		f.Problems = append(f.Problems, *problem)
		return f
	}
	if r.dir = filepath.Dir(name); r.dir == "" {
		r.dir = "."
	}
	if abs, err := filepath.Abs(r.dir); err == nil {
		r.dir = abs
	}
	r.read(root)
	return f
}

// A language is what a file is written in.
type language int

const (
	inJSON language = iota
	inYAML
	inTOML
)

var parsers = [...]func([]byte) (*node, *Problem){inJSON: parseJSON, inYAML: parseYAML, inTOML: parseTOML}

// languageOf tells the languages apart: by the name, else by the first line that says something.
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

// tomlLine is a line that TOML begins with and YAML does not: a header of a table, or a name and "=".
var tomlLine = regexp.MustCompile(`^(\[\[?[A-Za-z0-9_-][A-Za-z0-9_."' -]*\]\]?\s*(#.*)?$|["']?[A-Za-z0-9_-][A-Za-z0-9_."' -]*=)`)

// UsualName is what a file with this text would be called, for one that was pasted.
func UsualName(text []byte) string {
	return [...]string{inJSON: "mcp.json", inYAML: "parley.yaml", inTOML: "config.toml"}[languageOf("", text)]
}

// Find returns the entry of that name.
func (f *File) Find(name string) (*Entry, bool) {
	for i := range f.Entries {
		if f.Entries[i].Name == name {
			return &f.Entries[i], true
		}
	}
	return nil, false
}

// finish puts what was read of an entry together.
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
	for _, secret := range e.Secrets {
		e.Show = strings.ReplaceAll(e.Show, secret, "•••")
	}
}
