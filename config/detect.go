package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A Found is the file of a program that has one.
type Found struct {
	Client string // Cursor, Claude Code …
	Shown  string // the path as people write it
	*File
}

// Places say where Detect looks. The zero value looks where this user's programs have their files.
type Places struct {
	Home string // "" is the user's
	Dir  string // the project; "" is where we run
	OS   string // "" is ours; a name as in runtime.GOOS
}

// Detect reads the files of programs that are installed, of this user and of the project. It writes nothing. Files without
// servers are left out.
func Detect(p Places, o *Options) []Found {
	if p.Home == "" {
		p.Home, _ = os.UserHomeDir() // without one there are no such files
	}
	if p.Dir == "" {
		p.Dir = "."
	}
	if p.OS == "" {
		p.OS = runtime.GOOS
	}
	var found []Found
	seen := make(map[string]bool)
	for _, c := range p.candidates() {
		if c.path == "" || seen[c.path] {
			continue
		}
		seen[c.path] = true
		f, err := Read(c.path, o)
		if err != nil || len(f.Entries) == 0 && !broken(f) {
			continue // there is none, or nothing in it for us
		}
		found = append(found, Found{c.client, p.shown(c.path), f})
	}
	return found
}

// broken reports whether a file may have servers, but cannot be read.
func broken(f *File) bool {
	for _, p := range f.Problems {
		if strings.HasPrefix(p.Text, "no JSON") || strings.HasPrefix(p.Text, "no TOML") || strings.HasPrefix(p.Text, "no YAML") {
			return true
		}
	}
	return false
}

type candidate struct{ client, path string }

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
	in := func(dir, file string) string {
		if dir == "" {
			return ""
		}
		return filepath.Join(dir, file)
	}
	return []candidate{
		{"parley", project("parley.yaml")},
		{"Claude Code", project(".mcp.json")},
		{"Cursor", project(".cursor", "mcp.json")},
		{"VS Code", project(".vscode", "mcp.json")},
		{"Codex", project(".codex", "config.toml")},
		{"Gemini CLI", project(".gemini", "settings.json")},
		{"Zed", project(".zed", "settings.json")},
		{"opencode", project("opencode.json")},
		{"Claude Desktop", in(claude, "claude_desktop_config.json")},
		{"Claude Code", home(".claude.json")},
		{"Cursor", home(".cursor", "mcp.json")},
		{"VS Code", in(code, "mcp.json")},
		{"Copilot", home(".copilot", "mcp-config.json")},
		{"Windsurf", home(".codeium", "windsurf", "mcp_config.json")},
		{"Gemini CLI", home(".gemini", "settings.json")},
		{"Codex", home(".codex", "config.toml")},
		{"Zed", in(zed, "settings.json")},
		{"opencode", home(".config", "opencode", "opencode.json")},
		{"MCP Inspector", home(".mcp-inspector", "mcp.json")},
	}
}

// shown is a path with ~ for the user's folder.
func (p *Places) shown(path string) string {
	if p.Home != "" {
		if rest, err := filepath.Rel(p.Home, path); err == nil && filepath.IsAbs(path) && !strings.HasPrefix(rest, "..") {
			return filepath.ToSlash(filepath.Join("~", rest))
		}
	}
	return filepath.ToSlash(path)
}
