// Command parley speaks JSON-RPC 2.0: it calls any server and serves a demo, on every carrier that parley has.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(Main()) }

// Main runs the command of this process and returns its exit code.
func Main() int {
	// The first signal asks politely, the second ends the process, since stop gives the signal back to the system.
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals)
		cancel(errInterrupted)
	}()

	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	return a.main(ctx, os.Args[1:])
}

// An app is one run of the command, with all that it may touch of the outside.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string

	argv    []string // what stood behind --: the command of a child
	hasArgv bool     // there was a --

	lines  chan string                                     // what is typed, once somebody is asked
	browse func(ctx context.Context, address string) error // shows an address to the user; nil: the system's browser
}

// main runs the command line and tells on stderr what went wrong.
func (a *app) main(ctx context.Context, args []string) int {
	err := a.run(ctx, args)
	if err != nil {
		a.complain(err)
	}
	return exitCode(err)
}

// run does what the words say. Its error is not told to anybody yet.
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

// negative marks a word that starts with - and a digit, so that it passes as a parameter where a flag could stand.
const negative = "\x00"

// splitArgs cuts the command line at the first --, behind which the command of a child stands.
func splitArgs(args []string) (words, argv []string, found bool) {
	// The shell's completion hands over a line that is still being written; it must stay as it is.
	completing := len(args) > 0 && (args[0] == "__complete" || args[0] == "__completeNoDesc")
	words = []string{} // not nil, which to cobra means the words of the process
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
