package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
)

const editHelp = `Talk to a coding agent as a code editor does: by the Agent Client Protocol, on its stdin and stdout.

  parley edit "/words one word after the other" -- parley demo --editor --stdio
  parley edit "water the plants" --yes -- parley demo --editor --stdio
  parley edit "/ask good morning" --answer Ada --read-only -- parley demo --editor --stdio

Without words, a terminal is asked for one prompt after the other. The agent reads and writes text files in the working folder,
and nowhere else; --read-only lets it write nothing. What it wants a permission for is asked on the terminal; without one --yes,
--no or --answer says it, or it is not allowed. Ctrl-C cancels.`

func (a *app) editCommand() *cobra.Command {
	cmd, v := a.agentVerbCommand(&cobra.Command{
		Use:   "edit [TEXT…] -- CMD ARG…",
		Short: "talk to a coding agent, as a code editor does",
		Long:  editHelp,
	}, connectEditor, edit)
	v.sending(cmd)
	f := cmd.Flags()
	f.StringVar(&v.cwd, "cwd", ".", "the working `DIR` of the session, and the only one whose files the agent gets")
	f.BoolVar(&v.noWrite, "read-only", false, "write no files for the agent")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if !a.hasArgv && (len(words) == 0 || !looksLikeTarget(words[0])) {
			return usagef("which agent? Its command stands behind --: parley edit TEXT -- CMD ARG…")
		}
		return run(cmd, words)
	}
	return cmd
}

// connectEditor starts the agent, or dials it.
func connectEditor(ctx context.Context, v *agentVerb) error {
	if isHTTP(v.target) {
		return usagef("a coding agent is a child: parley edit TEXT -- CMD ARG…")
	}
	dir, err := filepath.Abs(v.cwd)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return usagef("--cwd: %v", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return usagef("--cwd: %v", err)
	}
	d, err := v.dialer()
	if err != nil {
		return err
	}
	t, err := d.Open(ctx, v.target)
	if err != nil {
		return errors.Join(&dialError{v.target, err}, root.Close())
	}
	v.cwd = dir
	files := &folder{dir: dir, root: root, verb: v}
	o := &editoragent.ClientOptions{
		CWD:    dir,
		Info:   editor.Implementation{Name: "parley", Title: "parley", Version: thisBuild().Version},
		Editor: editor.ClientOptions{ReadTextFile: files.read, Report: v.report},
	}
	o.Editor.Limits.CallTime = -1 // patience has it
	if !v.noWrite {
		o.Editor.WriteTextFile = files.write
	}
	if v.runs, err = editoragent.Connect(ctx, t, o); err != nil {
		return errors.Join(err, root.Close())
	}
	v.hangUp = func() error { return errors.Join(v.runs.Close(), root.Close()) }
	return nil
}

// edit does one turn, or as many as somebody types.
func edit(ctx context.Context, v *agentVerb) error {
	if len(v.words) > 0 || v.data != "" || len(v.files) > 0 || !isTerminal(v.app.stdin) || !isTerminal(v.app.stderr) {
		input, err := v.input(v.words)
		if err != nil {
			return err
		}
		return v.turn(ctx, input)
	}
	cards, err := v.runs.Agents(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(v.app.stderr, "%s in %s. Ctrl-D ends, Ctrl-C cancels.\n", visible(orElse(cards[0].DisplayName(), "The agent"), 60), visible(v.cwd, 200))
	for {
		line, err := v.prompt(ctx)
		if is[errNoMore](err) {
			return nil
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		err = v.turn(ctx, agent.Prompt(line))
		v.screen.clear()
		v.endLine()
		if is[*agent.Failure](err) || is[*jsonrpc.Error](err) {
			v.app.complain(v.explain(ctx, err))
			continue
		}
		if err != nil {
			return err
		}
	}
}

// prompt reads what to do next.
func (v *agentVerb) prompt(ctx context.Context) (string, error) {
	defer v.patience.pause()()
	defer v.screen.ask()()
	fmt.Fprint(v.app.stderr, "\n> ")
	return v.app.typed(ctx)
}

// turn does one turn of the session.
func (v *agentVerb) turn(ctx context.Context, input []agent.Message) error {
	req := &agent.Request{Session: v.session, Input: input}
	return v.follow(ctx, func(by agent.Caller) (*agent.Result, error) {
		r, err := v.runs.Run(ctx, req, by)
		if r != nil && r.Session != "" {
			v.session = r.Session
		}
		return r, err
	})
}

// other shows what the editor protocol tells beside: what tools the agent uses.
func (v *agentVerb) other(m agent.Metadata) {
	var u editor.Update
	if !m.Get("editor/update", &u) || u.Tool == nil {
		return
	}
	switch note := strings.ToLower(string(u.Tool.Status)); {
	case u.Tool.Title != "" && note != "":
		v.screen.line("[" + visible(u.Tool.Title, 200) + ": " + visible(note, 40) + "]")
	case u.Tool.Title != "":
		v.screen.line("[" + visible(u.Tool.Title, 200) + "]")
	}
}

// A folder is what the agent gets of our files: those below dir, also where links lead.
type folder struct {
	dir  string
	root *os.Root
	verb *agentVerb
}

// name is the path of a file below the folder.
func (f *folder) name(path string) (string, error) {
	name, err := filepath.Rel(f.dir, filepath.Clean(path))
	if err != nil || !filepath.IsAbs(path) || !filepath.IsLocal(name) {
		f.verb.screen.line("[refused: " + visible(path, 200) + " is outside of the working folder]")
		return "", jsonrpc.ErrInvalidParams.WithData(jsonrpc.ParamFault{Pointer: "/path", Reason: "outside of the working folder"})
	}
	return name, nil
}

// refused tells what a file could not be used for, without our paths.
func (f *folder) refused(what, name string, err error) error {
	f.verb.screen.line("[" + what + " " + visible(name, 200) + ": " + visible(err.Error(), 200) + "]")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err // which is answered as such
	case errors.Is(err, fs.ErrPermission):
		return jsonrpc.NewError(jsonrpc.CodeInternalError, "Permission denied")
	}
	return jsonrpc.NewError(jsonrpc.CodeInternalError, "The file cannot be used")
}

// read answers fs/read_text_file.
func (f *folder) read(_ context.Context, p *editor.ReadTextFileParams) (string, error) {
	f.verb.patience.renew()
	name, err := f.name(p.Path)
	if err != nil {
		return "", err
	}
	content, err := f.content(name)
	if err != nil {
		return "", f.refused("not read:", name, err)
	}
	text := string(content)
	for range max(p.Line-1, 0) {
		_, rest, found := strings.Cut(text, "\n")
		if text = rest; !found {
			break
		}
	}
	if p.Limit > 0 {
		end := 0
		for range p.Limit {
			i := strings.IndexByte(text[end:], '\n')
			if i < 0 {
				end = len(text)
				break
			}
			end += i + 1
		}
		text = text[:end]
	}
	return strings.ToValidUTF8(text, "\uFFFD"), nil
}

var (
	errLongFile = fmt.Errorf("it is longer than %s", bytesOf(maxFile))
	errNoFile   = errors.New("it is no file")
)

// content reads a file that is one: a pipe would hold us up.
func (f *folder) content(name string) ([]byte, error) {
	about, err := f.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, errNoFile
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = errLongFile
	}
	return content, err
}

// write answers fs/write_text_file.
func (f *folder) write(_ context.Context, p *editor.WriteTextFileParams) error {
	f.verb.patience.renew()
	name, err := f.name(p.Path)
	if err != nil {
		return err
	}
	if about, err := f.root.Stat(name); err == nil && !about.Mode().IsRegular() {
		return f.refused("not written:", name, errNoFile)
	}
	if dir := filepath.Dir(name); dir != "." {
		if err := f.root.MkdirAll(dir, 0o777); err != nil {
			return f.refused("not written:", name, err)
		}
	}
	if err := f.root.WriteFile(name, []byte(p.Content), 0o666); err != nil {
		return f.refused("not written:", name, err)
	}
	f.verb.screen.line("[wrote " + visible(name, 200) + ", " + bytesOf(len(p.Content)) + "]")
	return nil
}
