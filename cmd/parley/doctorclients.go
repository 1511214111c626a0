package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/da1ed7bb/parley/config"
)

// The usual faults of the configuration files of installed clients.

// A fault is a problem of an entry of a configuration file.
type fault struct {
	Client string `json:"client,omitzero"`
	File   string `json:"file,omitzero"`
	Server string `json:"server,omitzero"`
	Text   string `json:"fault"`
	Fix    string `json:"fix"`
}

// desktopClients are the clients that are started from a desktop, without the PATH and variables of
// a shell.
var desktopClients = map[string]bool{"Claude Desktop": true, "Cursor": true, "VS Code": true, "Windsurf": true, "Zed": true}

// desktopPath returns the folders in which applications of a desktop look for programs, or nil if
// they are those of a shell.
func desktopPath(system string) []string {
	switch system {
	case "darwin":
		return []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"}
	case "windows":
		return nil
	}
	return []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/games", "/usr/local/games", "/snap/bin"}
}

// faultsOf returns what prevents desktop applications from starting a program.
func faultsOf(name string) []fault {
	if strings.ContainsAny(name, `/\`) {
		return nil
	}
	file, err := exec.LookPath(name)
	if err != nil {
		return []fault{{Text: "the program " + name + " does not exist", Fix: "install it, or write its absolute path"}}
	}
	folders := desktopPath(runtime.GOOS)
	for _, folder := range folders {
		if about, err := os.Stat(filepath.Join(folder, name)); err == nil && about.Mode().IsRegular() && about.Mode()&0o111 != 0 {
			return nil
		}
	}
	if folders == nil {
		return nil
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		absolute = file
	}
	return []fault{{Text: "desktop applications do not find " + name + ", because their PATH is not that of a shell", Fix: `write the absolute path in their configuration: "command": "` + absolute + `"`}}
}

// faults returns the faults of an entry that can be found without starting it.
func entryFaults(client string, e *config.Entry) (list []fault) {
	add := func(text, fix string) { list = append(list, fault{Server: e.Name, Text: text, Fix: fix}) }
	for _, name := range e.Missing {
		fix := "set it in env of the entry"
		if desktopClients[client] {
			fix += ": desktop applications do not have the variables of your shell"
		}
		add("the variable "+name+" is not set", fix)
	}
	if e.Problem != "" && len(e.Missing) == 0 {
		add(e.Problem, "correct the entry; parley config check FILE shows line and column")
	}
	if len(e.Command) == 0 || e.Problem != "" {
		return list
	}
	name := e.Command[0]
	switch {
	case strings.ContainsAny(name, `/\`):
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(e.Dir, path)
		}
		if _, err := exec.LookPath(path); err != nil {
			add("the program "+name+" cannot be started: "+bareReason(err).Error(), "check the path, and that the file may be executed")
		}
	case desktopClients[client] && !setsPath(e):
		for _, f := range faultsOf(name) {
			add(f.Text, f.Fix)
		}
	default:
		if _, err := exec.LookPath(name); err != nil {
			add("the program "+name+" does not exist", "install it, or write its absolute path")
		}
	}
	if e.Dir != "" {
		if about, err := os.Stat(e.Dir); err != nil || !about.IsDir() {
			add("the folder "+e.Dir+" does not exist", "correct cwd of the entry")
		}
	}
	return list
}

// setsPath reports whether the entry sets PATH itself.
func setsPath(e *config.Entry) bool {
	for _, pair := range e.Env {
		if value, ok := strings.CutPrefix(pair, "PATH="); ok && value != os.Getenv("PATH") {
			return true
		}
	}
	return false
}

// checkClients checks the configuration files of installed clients. With start it also connects to
// the programs of the user's own files.
func (s *survey) checkClients(ctx context.Context, start bool) error {
	s.screen = &screen{w: s.app.stderr}
	list := []fault{}
	entries := 0
	for _, found := range detectBoth() {
		for _, p := range found.Problems {
			if p.Path == "" || len(found.Entries) == 0 {
				list = append(list, fault{Client: found.Client, File: found.Shown, Text: p.String(), Fix: "correct the file"})
			}
		}
		for i := range found.Entries {
			e := &found.Entries[i]
			if e.Disabled {
				continue
			}
			entries++
			faults := entryFaults(found.Client, e)
			if faults == nil && start && len(e.Command) > 0 {
				if found.project {
					s.screen.line("parley: @" + visible(e.Name, 60) + " of " + visible(found.Shown, 200) + " is not started: the file is in the working directory")
				} else {
					faults = s.startEntry(ctx, e)
				}
			}
			for _, f := range faults {
				f.Client, f.File, f.Server = found.Client, found.Shown, e.Name
				list = append(list, f)
			}
		}
	}
	if err := s.printFaults(ctx, list, entries); err != nil {
		return err
	}
	if len(list) > 0 {
		return &silentError{exitUsage}
	}
	return nil
}

// startEntry starts a program and returns the failed step.
func (s *survey) startEntry(ctx context.Context, e *config.Entry) []fault {
	s.app.hide(e.Secrets...)
	t, err := e.Target()
	if err != nil {
		return []fault{{Text: err.Error(), Fix: "correct the entry"}}
	}
	own := *s
	own.target, own.reach.entry = t, e
	d := &doctor{survey: &own, result: diagnosis{Target: t.String()}}
	if own.reach.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, own.reach.timeout)
		defer cancel()
	}
	if d.dialer, err = own.dialer(); err != nil {
		return []fault{{Text: err.Error(), Fix: "correct the entry"}}
	}
	if d.examine(ctx) == exitOK {
		return nil
	}
	for _, one := range d.result.Steps {
		if one.State == stepFailed {
			return []fault{{Text: one.Name + ": " + one.Detail, Fix: one.Fix}}
		}
	}
	return nil
}

func (s *survey) printFaults(ctx context.Context, list []fault, entries int) error {
	if s.printer.format != formText {
		return s.printer.print(ctx, rawOf(list))
	}
	for _, f := range list {
		name := f.File
		if f.Server != "" {
			name += ", @" + f.Server
		}
		if _, err := fmt.Fprintf(s.printer.w, "%s (%s): %s\n  fix: %s\n", visible(name, 300), visible(f.Client, 60), visible(f.Text, 400), visible(f.Fix, 400)); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.app.stderr, "parley: %s in the files of clients, %s\n", countOf(entries, "server"), countOf(len(list), "fault"))
	return nil
}
