package config

import (
	"path/filepath"
	"runtime"
	"strings"
)

// Claude Code keeps servers per project in the user's own file: ~/.claude.json has them in
// projects.FOLDER.mcpServers.

// project returns the folder whose project is read.
func (o *Options) project() string {
	dir := ""
	if o != nil {
		dir = o.Project
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "" // there is no working directory
	}
	return dir
}

// projectsOf returns the servers of all projects in a file.
func projectsOf(root *node) (list []serverTable) {
	projects := root.get("projects")
	if projects == nil || projects.kind != isMap {
		return nil
	}
	for _, m := range projects.members {
		if m.value == nil || m.value.kind != isMap || !filepath.IsAbs(m.name) {
			continue
		}
		if servers := m.value.get("mcpServers"); servers != nil && servers.kind == isMap && len(servers.members) > 0 {
			list = append(list, serverTable{servers, "projects." + m.name + ".mcpServers", MCP, filepath.Clean(m.name)})
		}
	}
	return list
}

// projectOf returns the servers of the innermost project that has servers and contains dir. Links
// in dir are followed, too, because Claude Code writes the folder without links.
func projectOf(root *node, dir string) (best serverTable, ok bool) {
	if dir == "" || root.get("projects") == nil {
		return best, false
	}
	followed, err := filepath.EvalSymlinks(dir)
	if err != nil {
		followed = dir
	}
	for _, t := range projectsOf(root) {
		if len(t.folder) > len(best.folder) && (contains(t.folder, dir) || contains(t.folder, followed)) {
			best, ok = t, true
		}
	}
	return best, ok
}

// contains reports whether dir is folder, or below it.
func contains(folder, dir string) bool {
	if runtime.GOOS == "windows" {
		folder, dir = strings.ToLower(folder), strings.ToLower(dir)
	}
	rest, err := filepath.Rel(folder, dir)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}
