package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/private"
)

// A Found is a configuration file of an installed program.
type Found struct {
	Client string // Cursor, Claude Code …
	Shown  string // the path as people write it
	*File
}

// Places configure where Detect searches. The zero value selects the current user's folders.
type Places struct {
	Home string // if empty, the user's home folder
	Dir  string // the project folder; if empty, the working directory
	OS   string // a runtime.GOOS name; if empty, the current system

	// Config is the folder with the user's own parley/parley.yaml. If empty, it is $XDG_CONFIG_HOME,
	// or else .config in Home (on Windows AppData and then Roaming). The variable counts only if Home
	// is empty, too.
	Config string
}

// Detect reads the configuration files of installed programs, for this user and the project. It
// writes nothing. It omits files without servers. A file that other users may write, or that is
// owned by neither this user nor root, is not read and is reported as a Problem.
func Detect(p Places, o *Options) []Found {
	p = p.usual()
	var options Options
	if o != nil {
		options = *o
	}
	options.found = true
	if options.Project == "" {
		options.Project = p.Dir
	}
	o = &options
	var found []Found
	seen := make(map[string]bool)
	for _, c := range p.candidates() {
		if c.path == "" || seen[c.path] {
			continue
		}
		seen[c.path] = true
		f, err := Read(c.path, o)
		if refused, ok := errors.AsType[*private.RefusedError](err); ok {
			f, err = &File{Name: c.path, Problems: []Problem{{Text: refusal + refused.Error()}}}, nil
		}
		if err != nil || len(f.Entries) == 0 && !broken(f) {
			continue // the file does not exist or contains no servers
		}
		found = append(found, Found{c.client, p.shown(c.path), f})
	}
	return found
}

// refusal starts the problem of a file that is not read because other users could have written it.
const refusal = "not read: "

// broken reports whether a file may contain servers but cannot be read.
func broken(f *File) bool {
	for _, p := range f.Problems {
		if strings.HasPrefix(p.Text, "not JSON") || strings.HasPrefix(p.Text, "not TOML") || strings.HasPrefix(p.Text, "not YAML") || strings.HasPrefix(p.Text, refusal) {
			return true
		}
	}
	return false
}

// usual returns p with the defaults of its empty fields.
func (p Places) usual() Places {
	if p.Home == "" {
		if dir := os.Getenv("XDG_CONFIG_HOME"); p.Config == "" && filepath.IsAbs(dir) {
			p.Config = dir
		}
		p.Home, _ = os.UserHomeDir() // without a home folder there are no such files
	}
	if p.Dir == "" {
		p.Dir = "."
	}
	if p.OS == "" {
		p.OS = runtime.GOOS
	}
	return p
}

// A ClientFile is the place where a client keeps its servers. The file may not exist.
type ClientFile struct {
	Client  string // Cursor, Claude Code …
	Path    string
	Shown   string // the path as people write it
	Project bool   // it is in the project folder, and not the user's own
}

// ClientFiles returns the places in which Detect searches for files of other programs: those of the
// project folder, then those of the user.
func ClientFiles(p Places) []ClientFile {
	p = p.usual()
	var list []ClientFile
	for _, c := range p.candidates() {
		if c.path != "" && c.client != "parley" {
			list = append(list, ClientFile{c.client, c.path, p.shown(c.path), c.project})
		}
	}
	return list
}

type candidate struct {
	client, path string
	project      bool
}

func (p *Places) candidates() []candidate {
	home := func(parts ...string) string {
		if p.Home == "" {
			return ""
		}
		return filepath.Join(append([]string{p.Home}, parts...)...)
	}
	project := func(parts ...string) string { return filepath.Join(append([]string{p.Dir}, parts...)...) }
	claude, code, zed := home(".config", "Claude"), home(".config", "Code", "User"), home(".config", "zed")
	switch p.OS {
	case "darwin":
		claude, code = home("Library", "Application Support", "Claude"), home("Library", "Application Support", "Code", "User")
	case "windows":
		claude, code, zed = home("AppData", "Roaming", "Claude"), home("AppData", "Roaming", "Code", "User"), home("AppData", "Roaming", "Zed")
	}
	own := p.Config
	if own == "" {
		if own = home(".config"); p.OS == "windows" {
			own = home("AppData", "Roaming")
		}
	}
	in := func(dir, file string) string {
		if dir == "" {
			return ""
		}
		return filepath.Join(dir, file)
	}
	return []candidate{
		{"parley", project("parley.yaml"), true},
		{"parley", in(own, filepath.Join("parley", "parley.yaml")), false},
		{"Claude Code", project(".mcp.json"), true},
		{"Cursor", project(".cursor", "mcp.json"), true},
		{"VS Code", project(".vscode", "mcp.json"), true},
		{"Codex", project(".codex", "config.toml"), true},
		{"Gemini CLI", project(".gemini", "settings.json"), true},
		{"Zed", project(".zed", "settings.json"), true},
		{"opencode", project("opencode.json"), true},
		{"Claude Desktop", in(claude, "claude_desktop_config.json"), false},
		{"Claude Code", home(".claude.json"), false},
		{"Cursor", home(".cursor", "mcp.json"), false},
		{"VS Code", in(code, "mcp.json"), false},
		{"Copilot", home(".copilot", "mcp-config.json"), false},
		{"Windsurf", home(".codeium", "windsurf", "mcp_config.json"), false},
		{"Gemini CLI", home(".gemini", "settings.json"), false},
		{"Codex", home(".codex", "config.toml"), false},
		{"Zed", in(zed, "settings.json"), false},
		{"opencode", home(".config", "opencode", "opencode.json"), false},
		{"MCP Inspector", home(".mcp-inspector", "mcp.json"), false},
	}
}

// shown returns path with ~ for the user's home folder.
func (p *Places) shown(path string) string {
	if p.Home != "" {
		if rest, err := filepath.Rel(p.Home, path); err == nil && filepath.IsAbs(path) && !strings.HasPrefix(rest, "..") {
			return filepath.ToSlash(filepath.Join("~", rest))
		}
	}
	return filepath.ToSlash(path)
}
