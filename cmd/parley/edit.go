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

const editHelp = `Use a coding agent as a code editor does: over the Agent Client Protocol, on its stdin and stdout.

  parley edit "/words one word after the other" -- parley demo --editor --stdio
  parley edit "water the plants" --yes -- parley demo --editor --stdio
  parley edit "/ask good morning" --answer Ada --read-only -- parley demo --editor --stdio

Without TEXT, prompts are read from the terminal. The agent can read and write text files in the
working folder only; with --read-only it cannot write. Permission requests appear on the terminal.
Without a terminal, --yes, --no or --answer decides, and the default is to reject. Ctrl-C cancels.

If the agent requires a login, the error lists its methods; select one with --auth METHOD.`

func (a *app) editCommand() *cobra.Command {
	cmd, v := a.agentVerbCommand(&cobra.Command{
		Use:   "edit [TEXT…] -- CMD ARG…",
		Short: "use a coding agent, as a code editor does",
		Long:  editHelp,
	}, connectEditor, edit)
	v.sending(cmd)
	f := cmd.Flags()
	f.StringVar(&v.cwd, "cwd", ".", "working `DIR` of the session; the agent can access files only there")
	f.BoolVar(&v.noWrite, "read-only", false, "do not write files for the agent")
	f.StringVar(&v.auth, "auth", "", "log in with `METHOD`, one of those that the agent offers")
	for _, name := range []string{"header", "token", "token-file", "tls-ca", "insecure"} { // a program has none of these
		f.Lookup(name).Hidden = true
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if !a.hasArgv && (len(words) == 0 || !looksLikeTarget(words[0])) {
			return usagef("missing command after --. Usage: parley edit [TEXT…] -- CMD ARG…")
		}
		return run(cmd, words)
	}
	return cmd
}

// connectEditor starts the agent or connects to it.
func connectEditor(ctx context.Context, v *agentCommand) error {
	if isHTTP(v.target) {
		return usagef("a coding agent must be a child process. Usage: parley edit [TEXT…] -- CMD ARG…")
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
	files := &folder{dir: dir, root: root, command: v}
	o := &editoragent.ClientOptions{
		CWD: dir, AuthMethod: v.auth,
		Info:   editor.Implementation{Name: "parley", Title: "parley", Version: thisBuild().Version},
		Editor: editor.ClientOptions{ReadTextFile: files.read, Report: v.report},
	}
	o.Editor.Limits.CallTime = -1 // patience limits the time
	if !v.noWrite {
		o.Editor.WriteTextFile = files.write
	}
	connected := make(chan error, 1)
	go func() {
		var err error
		v.runs, err = editoragent.Connect(ctx, t, o)
		connected <- err
	}()
	select {
	case err = <-connected:
	case <-ctx.Done(): // Connect waits for the child to end; hangUp bounds that wait
		hangUp(context.Cause(ctx), func() error { return <-connected })
		return errors.Join(context.Cause(ctx), root.Close())
	}
	if err != nil {
		return errors.Join(err, root.Close())
	}
	v.hangUp = func() error { return errors.Join(v.runs.Close(), root.Close()) }
	return nil
}

// A loginError is an agent that requires a login, or refuses one.
type loginError struct{ shownError }

// loginError returns what err is if an agent for editors requires or refuses a login, with the
// methods that it offers, and else nil.
func (v *agentCommand) loginError(ctx context.Context, err error) error {
	if v.cwd == "" { // the code of the error has other meanings in other protocols
		return nil
	}
	if e, ok := errors.AsType[*editoragent.AuthError](err); ok {
		if e.Err == nil {
			return usagef("--auth: the agent does not offer the method %q%s", cut(e.Method, 60), authMethods(e.Methods))
		}
		refused, ok := errors.AsType[*jsonrpc.Error](e.Err)
		if !ok {
			return nil // the connection broke
		}
		return &loginError{shownError{fmt.Sprintf("the agent rejected the login with %s: %s%s", visible(e.Method, 60), refused.Message, authMethods(e.Methods)), err}}
	}
	if !errors.Is(err, editor.ErrAuthRequired) || v.runs == nil {
		return nil
	}
	cards, _ := v.runs.Agents(ctx) // of the handshake; it does not fail
	var offered editor.InitializeResult
	if len(cards) == 0 || !cards[0].Metadata.Get("editor/initialize", &offered) || len(offered.AuthMethods) == 0 {
		return &loginError{shownError{"the agent requires authentication, but offers no method for it", err}}
	}
	return &loginError{shownError{"the agent requires authentication; use --auth METHOD" + authMethods(offered.AuthMethods), err}}
}

// authMethods lists the methods of a login as the end of a line.
func authMethods(all []editor.AuthMethod) string {
	if len(all) == 0 {
		return "; it offers none"
	}
	var texts []string
	for _, m := range all[:min(len(all), 20)] {
		text := visible(m.ID, 60) + " (" + visible(m.Name, 100)
		if m.Description != "" {
			text += ": " + visible(m.Description, 200)
		}
		if m.Type == editor.AuthTerminal {
			text += "; to log in, run the agent in a terminal: " + visible(strings.Join(append([]string{"CMD"}, m.Args...), " "), 200)
		}
		texts = append(texts, text+")")
	}
	return "; it offers " + strings.Join(texts, ", ")
}

// edit does one turn, or as many as somebody types.
func edit(ctx context.Context, v *agentCommand) error {
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

// prompt reads the next prompt.
func (v *agentCommand) prompt(ctx context.Context) (string, error) {
	defer v.patience.pause()()
	defer v.screen.ask()()
	fmt.Fprint(v.app.stderr, "\n> ")
	return v.app.typed(ctx)
}

// turn runs one turn of the session.
func (v *agentCommand) turn(ctx context.Context, input []agent.Message) error {
	req := &agent.Request{Session: v.session, Input: input}
	return v.follow(ctx, func(by agent.Caller) (*agent.Result, error) {
		r, err := v.runs.Run(ctx, req, by)
		if r != nil && r.Session != "" {
			v.session = r.Session
		}
		return r, err
	})
}

// other shows additional updates of the Agent Client Protocol: the tools that the agent uses.
func (v *agentCommand) other(m agent.Metadata) {
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

// A folder restricts the files that the agent can access to those in dir, also after links are
// resolved.
type folder struct {
	dir     string
	root    *os.Root
	command *agentCommand
}

// name returns the path of a file relative to the folder.
func (f *folder) name(path string) (string, error) {
	name, err := filepath.Rel(f.dir, filepath.Clean(path))
	if err != nil || !filepath.IsAbs(path) || !filepath.IsLocal(name) {
		f.command.screen.line("[refused: " + visible(path, 200) + " is outside the working folder]")
		return "", jsonrpc.ErrInvalidParams.WithData(jsonrpc.ParamFault{Pointer: "/path", Reason: "outside the working folder"})
	}
	return name, nil
}

// refused returns the error for a file that cannot be used. It does not contain local paths.
func (f *folder) refused(what, name string, err error) error {
	f.command.screen.line("[" + what + " " + visible(name, 200) + ": " + visible(err.Error(), 200) + "]")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err // sent as an error response
	case errors.Is(err, fs.ErrPermission):
		return jsonrpc.NewError(jsonrpc.CodeInternalError, "Permission denied")
	}
	return jsonrpc.NewError(jsonrpc.CodeInternalError, "The file cannot be used")
}

// read handles fs/read_text_file.
func (f *folder) read(_ context.Context, p *editor.ReadTextFileParams) (string, error) {
	f.command.patience.renew()
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
	errLongFile = fmt.Errorf("larger than %s", bytesOf(maxFile))
	errNoFile   = errors.New("not a regular file")
)

// content reads a regular file. Anything else is rejected, because a pipe would block.
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

// write handles fs/write_text_file.
func (f *folder) write(_ context.Context, p *editor.WriteTextFileParams) error {
	f.command.patience.renew()
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
	f.command.screen.line("[wrote " + visible(name, 200) + ", " + bytesOf(len(p.Content)) + "]")
	return nil
}
