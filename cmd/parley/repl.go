package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
)

const replHelp = `Keep a connection to a server open, and call its methods line by line.

  parley repl :3000/rpc
  parley repl tcp://127.0.0.1:3001
  parley repl -- parley demo --stdio

A line is a method and its parameters, as in parley call. With & at its end, the call runs in the
background: its result is printed when it arrives. Lines that start with a dot are commands: .list
lists the methods, .notify METHOD sends a notification, .help explains a method, .history TEXT lists
earlier lines, .quit ends. So does Ctrl-D. Notifications of the server are printed when they arrive.

Tab completes methods and the names of parameters. The arrow keys and Ctrl-R recall earlier lines,
also of earlier sessions with the same target: they are stored in $XDG_STATE_HOME/parley/history.
Lines with a secret are not stored, nor are those that begin with a blank.

Without a terminal, the lines are read from stdin; the exit code is that of the first line that
failed.`

// A repl is one session of the command.
type repl struct {
	app     *app
	reach   reachFlags
	output  outputFlags
	printer *printer
	target  parley.Target
	client  *parley.Client
	offered *openrpc.Document // nil if the server has no discovery
	past    *history          // nil without a terminal

	jobs sync.WaitGroup // calls in the background
	room chan struct{}  // holds a value for each of them

	sent atomic.Pointer[func(payload []byte)] // gets what is sent while a call starts in the background

	// Of the search with Ctrl-R: what it looks for, the line that it found, and its place.
	query, found string
	place        int

	mu    sync.Mutex // guards the fields below, and is held while a message is printed
	line  *term.Terminal
	first error // of the calls in the background
}

// maxJobs is the maximum number of calls in the background; the next one waits.
const maxJobs = 100

func (a *app) replCommand() *cobra.Command {
	r := &repl{app: a, room: make(chan struct{}, maxJobs)}
	cmd := &cobra.Command{
		Use:   "repl TARGET",
		Short: "keep a connection open and call methods line by line",
		Long:  replHelp,
		RunE:  func(cmd *cobra.Command, words []string) error { return r.run(cmd.Context(), words) },
	}
	r.output.register(cmd)
	r.reach.register(cmd)
	cmd.ValidArgsFunction = func(_ *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(words) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeTargets(r.reach.config, typed, targetWords...)
	}
	return cmd
}

// run connects and handles lines until the input or the connection ends.
func (r *repl) run(ctx context.Context, words []string) (err error) {
	if r.printer, err = r.app.printer(r.output); err != nil {
		return err
	}
	if r.target, words, err = r.app.target(ctx, &r.reach, words, false); err != nil {
		return err
	}
	if len(words) > 0 {
		return usagef("unexpected argument %q; type methods at the prompt", cut(words[0], 60))
	}
	if err := r.reach.fit(r.target); err != nil {
		return err
	}
	d, err := r.app.dialer(r.reach)
	if err != nil {
		return err
	}
	if r.reach.trace != "" {
		tracer, err := r.app.tracer(r.reach.trace, r.output.colour)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tracer.close()) }()
		d.Tap = tracer.see
	}
	trace := d.Tap
	d.Tap = func(f parley.Frame) {
		if trace != nil {
			trace(f)
		}
		if sent := r.sent.Load(); f.Out && sent != nil {
			(*sent)(f.Payload)
		}
	}
	d.Back = jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		if !req.IsNotification() {
			return nil, jsonrpc.ErrMethodNotFound
		}
		return nil, r.notified(req)
	})
	if r.client, err = d.Dial(ctx, r.target); err != nil {
		return &dialError{r.target, err}
	}
	first := r.lines(ctx)
	r.jobs.Wait() // each ends by --timeout or with ctx
	if first == nil {
		first = r.first
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	_ = r.client.Drain(last) // an error does not matter: the session is over
	hangUp(first, func() error { return r.client.Shutdown(last) })
	if first != nil {
		return &silentError{exitCode(first)}
	}
	return nil
}

// lines reads and handles lines. On a terminal errors are printed and the session continues; else
// the first error is returned at the end of the input.
func (r *repl) lines(ctx context.Context) (first error) {
	stdin, _ := r.app.stdin.(*os.File)
	interactive := stdin != nil && isTerminal(r.app.stdin) && isTerminal(r.app.stderr)
	next := func() (string, error) { return r.app.typed(ctx) }
	if interactive {
		look, cancel := context.WithTimeout(ctx, completeTime)
		r.offered, _ = openrpc.Discover(look, r.client) // without it, nothing is completed
		cancel()
		fmt.Fprintf(r.app.stderr, "connected to %s; .help explains, Ctrl-D ends\n", r.target)
		line := term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{bufio.NewReader(stdin), underlying(r.app.stderr)}, "> ")
		line.AutoCompleteCallback = r.complete
		r.past = r.openHistory()
		line.History = r.past
		next = func() (string, error) { return r.edited(stdin, line) }
	}
	for {
		text, err := next()
		switch {
		case is[errNoMore](err), errors.Is(err, io.EOF):
			return first
		case err != nil:
			return err
		}
		if text = strings.TrimSpace(text); text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if text == ".quit" || text == ".exit" {
			return first
		}
		handle := r.handle
		if call, ok := strings.CutSuffix(text, "&"); ok && strings.HasSuffix(call, " ") {
			text, handle = strings.TrimSpace(call), r.start
		}
		if text == "" {
			continue
		}
		if err := handle(ctx, text); err != nil {
			r.app.complain(err)
			if !interactive && first == nil {
				first = err
			}
			if ctx.Err() != nil || errors.Is(err, jsonrpc.ErrClosed) {
				return err
			}
		}
	}
}

// underlying returns the stream of a terminal: the line editor writes sequences that move the
// cursor. Text of the server reaches it escaped only.
func underlying(w io.Writer) io.Writer {
	if t, ok := w.(*terminal); ok {
		return t.to
	}
	return w
}

// edited reads a line with the line editor. The terminal is in raw mode only meanwhile, so that
// Ctrl-C cancels a call.
func (r *repl) edited(stdin *os.File, line *term.Terminal) (string, error) {
	before, err := term.MakeRaw(int(stdin.Fd()))
	if err != nil {
		return "", err
	}
	if width, height, err := sizeOf(r.app.stderr); err == nil {
		_ = line.SetSize(width, height) // an impossible size does not matter
	}
	r.mu.Lock()
	r.line = line
	r.mu.Unlock()
	text, err := line.ReadLine()
	r.mu.Lock()
	r.line = nil
	r.mu.Unlock()
	return text, errors.Join(err, term.Restore(int(stdin.Fd()), before))
}

// notified prints a notification of the server above the line that the user types.
func (r *repl) notified(req *jsonrpc.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf("← %s %s", visible(req.Method, 60), appendCompact(nil, req.Params, palette{}))
	if r.line != nil {
		_, err := io.WriteString(r.line, text+"\r\n")
		return err
	}
	_, err := fmt.Fprintln(r.app.stderr, text)
	return err
}

// start calls a method in the background. It returns when the request was sent, so that the next
// line is sent after it.
func (r *repl) start(ctx context.Context, text string) error {
	words, err := splitLine(text)
	if err != nil {
		return err
	}
	if strings.HasPrefix(words[0], ".") {
		return usagef("%s does not run in the background; remove the &", cut(words[0], 60))
	}
	params, err := r.app.parseParams(words[1:])
	if err != nil {
		return err
	}
	select {
	case r.room <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	out, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	method, err := quote(words[0])
	if err != nil {
		return usagef("METHOD: %v", err)
	}
	sent := func(payload []byte) {
		if bytes.Contains(payload, method) {
			once.Do(func() { close(out) })
		}
	}
	r.sent.Store(&sent)
	defer r.sent.Store(nil)
	r.jobs.Go(func() {
		defer func() { <-r.room }()
		defer close(done)
		result, err := r.call(ctx, words[0], params, false)
		r.finished(ctx, result, err)
	})
	select {
	case <-out:
	case <-done:
	}
	return nil
}

// finished prints the outcome of a call in the background, above the line that the user types.
func (r *repl) finished(ctx context.Context, result jsonrpc.Raw, err error) {
	var text strings.Builder
	to := &r.app.stdout
	if err != nil {
		quiet := *r.app
		quiet.stderr, to = &text, &r.app.stderr
		quiet.complain(err)
	} else {
		printer := *r.printer
		printer.w = &text
		err = printer.print(ctx, result)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.first == nil && r.line == nil {
		r.first = err
	}
	if r.line != nil {
		_, _ = io.WriteString(r.line, strings.ReplaceAll(text.String(), "\n", "\r\n")) // output without a reader does not matter
		return
	}
	_, _ = io.WriteString(*to, text.String()) // likewise
}

// handle handles one line.
func (r *repl) handle(ctx context.Context, text string) error {
	words, err := splitLine(text)
	if err != nil {
		return err
	}
	notify := false
	switch words[0] {
	case ".list":
		return r.list(ctx)
	case ".history":
		return r.earlier(strings.Join(words[1:], " "))
	case ".help":
		return r.help(ctx, words[1:])
	case ".notify":
		if len(words) == 1 {
			return usagef("missing METHOD after .notify")
		}
		words, notify = words[1:], true
	default:
		if strings.HasPrefix(words[0], ".") {
			return usagef("unknown command %s%s", cut(words[0], 60), didYouMean(words[0], replCommands))
		}
	}
	params, err := r.app.parseParams(words[1:])
	if err != nil {
		return err
	}
	result, err := r.call(ctx, words[0], params, notify)
	if err != nil || notify {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.printer.print(ctx, result)
}

// call calls a method, or sends a notification.
func (r *repl) call(ctx context.Context, method string, params jsonrpc.Raw, notify bool) (jsonrpc.Raw, error) {
	var result jsonrpc.Raw
	item := &jsonrpc.Item{Method: method, Result: &result, Notify: notify, On: r.notified}
	if params != nil {
		item.Params = params
	}
	if err := r.client.Do(ctx, item); err != nil {
		c := &call{app: r.app, reach: r.reach, target: r.target}
		return nil, c.explain(ctx, method, err, item.ID)
	}
	if result == nil {
		result = jsonrpc.Raw("null")
	}
	return result, nil
}

// document returns the document of the server. It is requested once.
func (r *repl) document(ctx context.Context) (*openrpc.Document, error) {
	if r.offered == nil {
		found, err := openrpc.Discover(ctx, r.client)
		if err != nil {
			return nil, fmt.Errorf("the server has no list of methods: %w", err)
		}
		r.offered = found
	}
	return r.offered, nil
}

func (r *repl) list(ctx context.Context) error {
	d, err := r.document(ctx)
	if err != nil {
		return err
	}
	for i := range d.Methods {
		if err := r.printer.peer(d.Signature(&d.Methods[i])); err != nil {
			return err
		}
	}
	return nil
}

// replCommands are the commands of a session.
var replCommands = []string{".help", ".history", ".list", ".notify", ".quit"}

const replLines = `METHOD PARAM…    call a method, as in parley call
METHOD PARAM… &  the same in the background
.notify METHOD   send a notification
.list            list the methods
.help METHOD     describe a method
.history TEXT    list earlier lines that contain TEXT
.quit            end
`

// earlier prints earlier lines that contain the text, the newest last.
func (r *repl) earlier(text string) error {
	if r.past == nil {
		return usagef(".history works in a terminal only")
	}
	var b strings.Builder
	for i := r.past.Len() - 1; i >= 0; i-- {
		if line := r.past.At(i); strings.Contains(line, text) {
			fmt.Fprintln(&b, visible(line, maxHistoryLine))
		}
	}
	_, err := io.WriteString(r.app.stderr, b.String())
	return err
}

// help describes a method, or the commands of the session.
func (r *repl) help(ctx context.Context, words []string) error {
	if len(words) == 0 {
		_, err := fmt.Fprint(r.app.stderr, replLines)
		return err
	}
	d, err := r.document(ctx)
	if err != nil {
		return err
	}
	for _, e := range catalogOfMethods(d).Entries {
		if e.Name == words[0] {
			b := (&survey{printer: r.printer}).listing()
			b.describeEntry(&e)
			_, err := io.WriteString(r.printer.w, b.String())
			return err
		}
	}
	var names []string
	for _, m := range d.Methods {
		names = append(names, m.Name)
	}
	return &shownError{fmt.Sprintf("no method %q%s", cut(words[0], 60), didYouMean(words[0], names)), errNothing}
}

// complete completes the word at the end of the line when Tab is pressed: a method, or the name of
// a parameter. Several candidates are printed above the line.
func (r *repl) complete(line string, pos int, key rune) (string, int, bool) {
	switch key {
	case '\t':
	case keyCtrlR:
		line = r.search(line)
		return line, len(line), true
	default:
		return "", 0, false
	}
	if pos != len(line) {
		return line, pos, true
	}
	at := strings.LastIndexByte(line, ' ') + 1
	typed := line[at:]
	var names []string
	words := strings.Fields(line[:at])
	if len(words) > 0 && (words[0] == ".notify" || words[0] == ".help") {
		words = words[1:]
	}
	switch {
	case len(words) == 0 && strings.HasPrefix(typed, "."):
		names = replCommands
	case r.offered == nil:
	case len(words) == 0:
		for _, one := range methodNames(r.offered, typed) {
			name, _, _ := strings.Cut(one, "\t")
			names = append(names, name)
		}
	default:
		for _, one := range paramNames(r.offered, words[0], typed) {
			name, _, _ := strings.Cut(one, "\t")
			names = append(names, name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, typed) || name != visible(name, len(name)) })
	if len(names) == 0 {
		return line, pos, true
	}
	common := names[0]
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, common) {
			common = common[:len(common)-1]
		}
	}
	if len(names) == 1 && !strings.HasSuffix(common, "=") {
		common += " "
	}
	if len(names) > 1 && common == typed {
		go r.show(names) // the callback holds the lock of the line editor
	}
	return line[:at] + common, at + len(common), true
}

// keyCtrlR searches the history, as in a shell.
const keyCtrlR = 'R' - '@'

// search returns the newest line of the history that contains what is typed; pressed again, the one
// before it. If no line contains it, search returns line.
func (r *repl) search(line string) string {
	if r.past == nil {
		return line
	}
	if r.found == "" || line != r.found {
		r.query, r.place = line, -1
	}
	for i := r.place + 1; i < r.past.Len(); i++ {
		if one := r.past.At(i); one != line && strings.Contains(one, r.query) {
			r.found, r.place = one, i
			return one
		}
	}
	return line
}

// maxShown is the maximum number of candidates that Tab prints.
const maxShown = 100

func (r *repl) show(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.line != nil {
		_, _ = io.WriteString(r.line, strings.Join(names[:min(len(names), maxShown)], "  ")+"\r\n") // only a hint
	}
}

// splitLine splits a line into words at blanks. Quotes group words: within single quotes every
// character is itself; a double quote begins a JSON string, which remains as it is.
func splitLine(text string) (words []string, err error) {
	var word strings.Builder
	inside := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == ' ' || c == '\t':
			if inside {
				words = append(words, word.String())
				word.Reset()
				inside = false
			}
		case c == '\'':
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				return nil, usagef("a quote is not closed")
			}
			word.WriteString(text[i+1 : i+1+end])
			i, inside = i+1+end, true
		case c == '"' || (c == '[' || c == '{') && (word.Len() == 0 || strings.HasSuffix(word.String(), "=")):
			n := valueLength(text[i:])
			if n == 0 {
				return nil, usagef("the JSON value %q is not complete", cut(text[i:], 60))
			}
			value := text[i : i+n]
			if c == '"' && strings.HasSuffix(word.String(), "=") && !strings.HasSuffix(word.String(), ":=") {
				value = textOf(jsonrpc.Raw(value)) // name="two words"
			}
			word.WriteString(value)
			i, inside = i+n-1, true
		default:
			word.WriteByte(c)
			inside = true
		}
	}
	if inside {
		words = append(words, word.String())
	}
	return words, nil
}

// valueLength returns the length of the JSON value with which text begins, or 0 if it has no value.
func valueLength(text string) int {
	for n := 1; n <= len(text); n++ {
		switch text[n-1] {
		case '"', ']', '}':
			if _, err := jsonrpc.ParseRaw([]byte(text[:n])); err == nil {
				return n
			}
		}
	}
	return 0
}
