package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/internal/x/secret"
)

// wrapFlags are the flags of the wrap and unwrap commands.
type wrapFlags struct {
	file    string
	project bool
	dryRun  bool
	program string
}

func (a *app) wrapCommand() *cobra.Command {
	var flags wrapFlags
	cmd := &cobra.Command{
		Use:   "wrap [CLIENT [SERVER…]]",
		Short: "record what a desktop client and its servers send",
		Long: `Put "parley tap" in front of the commands of a client's servers, so that each session is recorded.

  parley wrap                            list the clients on this machine and their servers
  parley wrap cursor --dry-run           show the change
  parley wrap claudedesktop notes        record the server notes of Claude Desktop
  parley unwrap cursor                   restore the commands

Only the commands change; comments and layout stay. The file before the change is stored beside it,
as FILE.parley-backup. Restart the client to apply the change. The sessions are recorded without
passwords, tokens and cookies, in $XDG_STATE_HOME/parley/sessions; parley up lists them. CLIENT is
Claude Desktop, Claude Code, Cursor, VS Code, Zed, Codex, Gemini CLI, Windsurf, Copilot or opencode;
case, spaces and hyphens do not matter, and the start is enough.`,
		RunE: func(_ *cobra.Command, words []string) error { return a.wrap(flags, words, false) },
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&flags.program, "parley", "", "absolute `PATH` of the parley that the client starts (default: this program)")
	return cmd
}

func (a *app) unwrapCommand() *cobra.Command {
	var flags wrapFlags
	cmd := &cobra.Command{
		Use:   "unwrap CLIENT [SERVER…]",
		Short: "undo wrap: the client starts its servers directly again",
		Long: `Remove "parley tap" from the commands of a client's servers.

  parley unwrap cursor                   all servers of Cursor
  parley unwrap claudedesktop notes      one server of Claude Desktop
  parley unwrap vscode --project         the servers in .vscode/mcp.json of this folder

If nothing else was changed since parley wrap, the file is again what it was, byte for byte.`,
		RunE: func(_ *cobra.Command, words []string) error { return a.wrap(flags, words, true) },
	}
	flags.register(cmd)
	return cmd
}

func (w *wrapFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&w.dryRun, "dry-run", false, "print the change, without secrets, and write nothing")
	f.BoolVar(&w.project, "project", false, "change the client's file in the working directory, and not the user's")
	f.StringVar(&w.file, "file", "", "change `FILE`; CLIENT is left out")
}

// wrap edits a client's file. If undo is true, it removes what it added before.
func (a *app) wrap(flags wrapFlags, words []string, undo bool) error {
	if a.hasArgv {
		return usagef("unexpected --: name the CLIENT whose servers are recorded; parley tap -- CMD records one program")
	}
	if len(words) == 0 && flags.file == "" {
		if undo || flags.dryRun || flags.project {
			return usagef("missing CLIENT. Usage: parley wrap CLIENT [SERVER…]; parley wrap lists the clients on this machine")
		}
		return a.wrapList()
	}
	file, client := a.atHome(flags.file), ""
	if file == "" {
		found, err := clientFile(words[0], flags.project)
		if err != nil {
			return err
		}
		file, client, words = found.Path, found.Client, words[1:]
	}
	shown := visible(file, 1000)
	parsed, text, err := config.ReadText(file, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist) && client != "":
		return usagef("%s has no file %s. Add a server in %s first, or use --file FILE", client, shown, client)
	case err != nil:
		return usagef("%s: %v", shown, bareReason(err))
	}
	var edit *config.Edit
	if undo {
		edit, err = unwrapText(file, text, words)
	} else {
		var self string
		if self, err = parleyPath(flags.program); err == nil {
			edit, err = config.Wrap(file, text, words, func(server string) []string {
				return []string{self, "tap", "--follow=false", "--name", tapName(client, server), "--"}
			})
		}
	}
	if err != nil {
		if is[*usageError](err) {
			return err
		}
		return usagef("%s: %s", shown, visible(err.Error(), 1000))
	}
	for _, c := range edit.Changes {
		if c.Skipped != "" {
			fmt.Fprintf(a.stderr, "parley: %s is not changed: %s\n", visible(c.Server, 100), c.Skipped)
		}
	}
	changed := edit.Changed()
	switch {
	case len(changed) == 0:
		fmt.Fprintf(a.stderr, "parley: nothing to change in %s\n", shown)
		return nil
	case flags.dryRun:
		return a.wrapDiff(file, text, edit.Text, parsed)
	}
	if err := a.writeWrapped(file, text, edit.Text, undo); err != nil {
		return usagef("%s: %v", shown, bareReason(err))
	}
	what, who := "recorded from now on", client
	if undo {
		what = "not recorded any more"
	}
	if who == "" {
		who = "the client"
	}
	fmt.Fprintf(a.stderr, "parley: %s: %s: %s. Restart %s to apply this.\n", shown, visible(strings.Join(changed, ", "), 1000), what, who)
	return nil
}

// tapName returns the name under which the sessions of a server are listed.
func tapName(client, server string) string {
	if client == "" {
		return server
	}
	return plainName(client) + "/" + server
}

// plainName returns the name of a client as it is written on the command line: claudedesktop.
func plainName(client string) string {
	switch client {
	case "Gemini CLI":
		return "gemini"
	case "MCP Inspector":
		return "inspector"
	}
	return strings.ReplaceAll(strings.ToLower(client), " ", "")
}

// clientFile returns the file of a client. The name may be abbreviated.
func clientFile(word string, project bool) (config.ClientFile, error) {
	all := config.ClientFiles(config.Places{})
	fold := strings.NewReplacer(" ", "", "-", "", "_", "")
	wanted := fold.Replace(strings.ToLower(word))
	var known, near []string
	for _, f := range all {
		if slices.Contains(known, f.Client) {
			continue
		}
		known = append(known, f.Client)
		if strings.HasPrefix(fold.Replace(strings.ToLower(f.Client)), wanted) && wanted != "" {
			near = append(near, f.Client)
		}
	}
	switch len(near) {
	case 0:
		return config.ClientFile{}, usagef("unknown client %q; known are %s. For other files, use --file FILE", cut(word, 60), strings.Join(known, ", "))
	case 1:
	default:
		return config.ClientFile{}, usagef("%q may be %s; write more of it", cut(word, 60), strings.Join(near, " or "))
	}
	for _, f := range all {
		if f.Client == near[0] && f.Project == project {
			return f, nil
		}
	}
	return config.ClientFile{}, usagef("%s has no file in the %s", near[0], map[bool]string{true: "working directory", false: "user's folder; use --project"}[project])
}

// parleyPath returns the absolute path of the program that a client starts.
func parleyPath(flag string) (string, error) {
	self, err := flag, error(nil)
	if self == "" {
		if self, err = os.Executable(); err != nil {
			return "", err
		}
		if strings.Contains(filepath.ToSlash(self), "/go-build") {
			return "", usagef("this parley was started by go run, in a folder that disappears. Install it with go install, or use --parley PATH")
		}
		return self, nil
	}
	if !filepath.IsAbs(self) {
		return "", usagef("--parley must be an absolute path: the client has another PATH and working directory")
	}
	if info, err := os.Stat(self); err != nil || info.IsDir() {
		return "", usagef("--parley %s: there is no such program", visible(self, 1000))
	}
	return self, nil
}

// backupName returns the name of the copy that wrap makes of a file.
func backupName(file string) string { return file + ".parley-backup" }

// unwrapText is [config.Unwrap], but if the file differs from its backup only by what wrap changed,
// the result is the text of the backup.
func unwrapText(file string, text []byte, servers []string) (*config.Edit, error) {
	edit, err := config.Unwrap(file, text, servers)
	if err != nil {
		return nil, err
	}
	backup, err := os.ReadFile(backupName(file))
	if err != nil || len(edit.Changed()) == 0 {
		return edit, nil //nolint:nilerr // there is no backup
	}
	before, now := config.Tapped(file, backup), config.Tapped(file, text)
	maps.DeleteFunc(now, func(server string, _ []string) bool { return before[server] != nil })
	again := func(names []string) []byte {
		if len(names) == 0 {
			return backup
		}
		e, err := config.Wrap(file, backup, names, func(server string) []string { return now[server] })
		if err != nil {
			return nil // the servers of the two differ
		}
		return e.Text
	}
	names := slices.Sorted(maps.Keys(now))
	if bytes.Equal(again(names), text) {
		names = slices.DeleteFunc(names, func(server string) bool { return slices.Contains(edit.Changed(), server) })
		if was := again(names); was != nil && allIn(edit.Changed(), now) {
			edit.Text = was
		}
	}
	return edit, nil
}

// allIn reports whether all names are keys of m.
func allIn(names []string, m map[string][]string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return m[name] == nil })
}

// errReadOnly rejects a file that its user, or the program that manages it, has made read-only. It
// could be replaced, because the folder decides about that.
var errReadOnly = errors.New("the file is read-only; make it writable, or change it where it comes from")

// writeWrapped replaces a client's file. Before the first change of it, it stores a copy.
func (a *app) writeWrapped(file string, before, after []byte, undo bool) error {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o200 == 0 {
		return errReadOnly
	}
	backup := backupName(file)
	if !undo && len(config.Tapped(file, before)) == 0 {
		if err := private.Write(backup, before); err != nil {
			return err
		}
	}
	if err := private.Replace(file, before, after); err != nil {
		return err
	}
	if undo {
		if kept, err := os.ReadFile(backup); err == nil && bytes.Equal(kept, after) {
			return os.Remove(backup)
		}
	}
	return nil
}

// wrapDiff prints the change of a file without secrets.
func (a *app) wrapDiff(file string, before, after []byte, parsed *config.File) error {
	hide := secret.New(nil)
	for _, e := range parsed.Entries {
		hide.Add(e.Secrets...)
	}
	name := filepath.Base(file)
	text := diff.Diff(name, before, name, after)
	_, text, _ = bytes.Cut(text, []byte("\n")) // "diff old new"
	for line := range bytes.Lines(text) {
		if _, err := fmt.Fprintln(a.stdout, visible(hide.Text(strings.TrimRight(string(line), "\r\n")), 4000)); err != nil {
			return err
		}
	}
	return nil
}

// wrapList prints the servers of all clients, and whether they are recorded.
func (a *app) wrapList() error {
	listed := 0
	for _, f := range config.ClientFiles(config.Places{}) {
		parsed, text, err := config.ReadText(f.Path, nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			fmt.Fprintf(a.stderr, "parley: %s: %v\n", visible(f.Shown, 300), bareReason(err))
			continue
		}
		tapped := config.Tapped(f.Path, text)
		for _, e := range parsed.Entries {
			state := "not recorded"
			switch {
			case tapped[e.Name] != nil:
				state = "recorded"
			case e.Address != "":
				state = "has an address: use parley tap --target"
			}
			listed++
			if _, err := fmt.Fprintf(a.stdout, "%s\t%s\t%s\t%s\n", plainName(f.Client), visible(f.Shown, 300), visible(e.Name, 100), state); err != nil {
				return err
			}
		}
	}
	if listed == 0 {
		fmt.Fprintln(a.stderr, "parley: no client with servers found in the usual places; see parley wrap --help")
	}
	return nil
}
