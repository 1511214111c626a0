// Command parley speaks JSON-RPC 2.0: it calls any server and serves a demo, on every transport of
// the module.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/heap"
	"github.com/da1ed7bb/parley/internal/x/proc"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/jsonrpc"
)

func main() { os.Exit(Main()) }

// Main runs the command with the arguments of this process and returns its exit code.
func Main() int {
	return mainOf(&app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, logs: true})
}

// mainOf is Main with an app that a test may have changed.
func mainOf(a *app) int {
	if len(os.Args) > 2 && os.Args[1] == watchWord {
		proc.Watch(os.Stdin, os.Args[2])
		return 0
	}
	heap.Bound()
	watchChildren(os.Getenv)
	// The first signal cancels ctx. The second signal ends the process, since stop restores the
	// default handler.
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals)
		cancel(errInterrupted)
	}()

	return a.main(ctx, os.Args[1:])
}

// watchWord is the argument that runs this program as the watcher of another parley: it ends that
// process's children if the process dies without doing so.
const watchWord = "__watch"

// watchChildren starts this program as its own watcher. It also ends the children of an earlier
// parley whose watcher was killed too.
func watchChildren(getenv func(string) string) {
	proc.UseSelf(watchWord)
	var dirs []string
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Join(dir, "parley", "children"))
	}
	if dir := (&app{getenv: getenv}).stateDir(); dir != "" {
		dirs = append(dirs, filepath.Join(dir, "children"))
	}
	proc.Keep(dirs...)
	proc.CleanUp()
}

// An app is one execution of the command with everything external that it can access.
type app struct {
	methods func(*jsonrpc.Mux) // adds methods to the demo, in tests
	stdin   io.Reader
	stdout  io.Writer // a *terminal after main has started
	stderr  io.Writer // likewise
	getenv  func(string) string

	secrets *secret.Set         // credentials, which are never printed on stderr; nil before main
	traces  []*capture.Recorder // recorders that must not record the credentials either

	jsonErrors bool // errors are printed as JSON, because of -o json or -o ndjson

	logs bool // the default loggers of the process write to stderr, too

	argv    []string // the words after --: the command of a child
	hasArgv bool     // whether -- was given

	lines chan string // lines that the user types, once a question was asked
	// Shows an address to the user; if nil, in the system's browser.
	browse func(ctx context.Context, address string) error
}

// main runs the command line and reports errors on stderr.
func (a *app) main(ctx context.Context, args []string) int {
	out, errs := newTerminal(a.stdout, false), newTerminal(a.stderr, true)
	a.stdout, a.stderr, a.secrets = out, errs, secret.New(nil)
	errs.hide = a.secrets
	if a.logs {
		slog.SetDefault(slog.New(a.logHandler()))
	}
	a.jsonErrors = wantsJSON(args)
	err := a.run(ctx, args)
	if err != nil {
		a.complain(err)
	}
	_ = errors.Join(out.close(), errs.close()) // the outputs may be closed
	return exitCode(err)
}

// hide removes values from errors, stderr and traces from now on.
func (a *app) hide(values ...string) {
	a.secrets.Add(values...)
	for _, rec := range a.traces {
		rec.Hide(values...)
	}
}

// hideIn removes the secrets of the command from a recording, including those that are learned
// later.
func (a *app) hideIn(rec *capture.Recorder) {
	a.traces = append(a.traces, rec)
	rec.Hide(a.secrets.Values()...)
}

// run executes the command line. The caller reports its error.
func (a *app) run(ctx context.Context, args []string) error {
	words, argv, found := splitArgs(args)
	a.argv, a.hasArgv = argv, found
	root := a.rootCommand()
	root.SetArgs(words)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	return root.ExecuteContext(ctx)
}

// wantsJSON reports whether the command line selects -o json or -o ndjson. It must be known before
// the command line is parsed, which may fail.
func wantsJSON(args []string) (wants bool) {
	for i, word := range args {
		if word == "--" {
			break
		}
		value, found := "", false
		for _, flag := range []string{"--output=", "-o="} {
			if rest, ok := strings.CutPrefix(word, flag); ok {
				value, found = rest, true
			}
		}
		if rest, ok := strings.CutPrefix(word, "-o"); ok && !found {
			value, found = rest, rest != ""
		}
		if (word == "-o" || word == "--output") && i+1 < len(args) {
			value, found = args[i+1], true
		}
		if found {
			wants = value == "json" || value == "ndjson"
		}
	}
	return wants
}

// negative marks a word that starts with - and a digit, so that it is parsed as a parameter and not
// as a flag.
const negative = "\x00"

// splitArgs splits the command line at the first --. The words after it are the command of a child.
func splitArgs(args []string) (words, argv []string, found bool) {
	// Shell completion passes an incomplete line, which must remain unchanged.
	completing := len(args) > 0 && (args[0] == "__complete" || args[0] == "__completeNoDesc")
	words = []string{} // not nil: for cobra, nil means the arguments of the process
	for i, word := range args {
		if word == "--" && !completing {
			return words, args[i+1:], true
		}
		if len(word) > 1 && word[0] == '-' && word[1] >= '0' && word[1] <= '9' {
			word = negative + word
		}
		words = append(words, word)
	}
	return words, nil, false
}
