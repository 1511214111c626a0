package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/internal/lessons"
)

// A desk is a terminal at which a test does lessons.
type desk struct {
	*testing.T
	screen  *noticed
	prompts int
	keys    *io.PipeWriter
	code    chan int
}

// A noticed is a terminal that announces what is written to it.
type noticed struct {
	glass
	more chan struct{}
}

func (n *noticed) Write(p []byte) (int, error) {
	defer func() {
		select {
		case n.more <- struct{}{}:
		default: // it is announced already
		}
	}()
	return n.glass.Write(p)
}

// awaits waits until the screen has n times the text.
func (d *desk) awaits(text string, n int) {
	d.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for strings.Count(d.screen.String(), text) < n {
		select {
		case <-d.screen.more:
		case <-late.C:
			d.Fatalf("the screen does not have %q %d times:\n%s", text, n, d.screen)
		}
	}
}

// learns starts parley learn at a terminal.
func learns(t *testing.T, state string, words ...string) *desk {
	t.Helper()
	r, w := io.Pipe()
	d := &desk{T: t, screen: &noticed{more: make(chan struct{}, 1)}, keys: w, code: make(chan int, 1)}
	a := &app{stdin: keys{r}, stdout: d.screen, stderr: d.screen, getenv: func(name string) string {
		return map[string]string{"XDG_STATE_HOME": state, "NO_COLOR": "1"}[name]
	}}
	go func() {
		d.code <- a.main(context.Background(), append([]string{"learn"}, words...))
		_ = r.Close()
	}()
	return d
}

// types waits for the next prompt, and types a line.
func (d *desk) types(line string) {
	d.Helper()
	d.prompts++
	d.awaits("q ends.\n> ", d.prompts)
	if _, err := io.WriteString(d.keys, line+"\n"); err != nil {
		d.Fatalf("%v; the screen:\n%s", err, d.screen.String())
	}
}

// ends closes the keyboard and returns what is on the screen.
func (d *desk) ends() string {
	d.Helper()
	_ = d.keys.Close()
	if code := <-d.code; code != exitOK {
		d.Errorf("exit code %d", code)
	}
	return d.screen.String()
}

// TestLearnAtATerminal does steps in every way: with Enter, with a call of one's own, with a wrong
// one first, and not at all. It checks the transcript, and what is stored of it.
func TestLearnAtATerminal(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	d := learns(t, state, "request")
	d.types("")                                        // the command as shown
	d.types("subtract 5 3")                            // its ID is a number
	d.types("parley demo")                             // not a call
	d.types("parley call @demo subtract 5 3 --id own") // the step, in another way
	d.types("'open")                                   // not a command at all
	d.types("s")
	text := d.ends()
	for _, part := range []string{
		"Lesson 1 of 16: A request", "\n  " + commandName() + " call http://127.0.0.1:", "On the wire:\n  → {", "\nDone.\n", "\nNot yet. An ID can also be a string.",
		`"demo" cannot be used here; the commands are call, mcp,`, `"id":"own"`, "a quote is not closed", "1 step was skipped.", "Next: " + commandName() + " learn params",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the screen does not have %q", part)
		}
	}
	if n := strings.Count(text, "\nDone.\n"); n != 2 {
		t.Errorf("%d steps are done, want 2", n)
	}
	content, err := os.ReadFile(filepath.Join(state, "parley", "lessons"))
	if err != nil || string(content) != "request/send\nrequest/id\n" {
		t.Errorf("stored are %q, %v", content, err)
	}
	if t.Failed() {
		t.Log(text)
	}

	// The rest of the lesson, and another one that is left.
	d = learns(t, state, "request")
	for range 3 {
		d.types("")
	}
	d.ends()
	d = learns(t, state, "params")
	d.types("")
	d.types("q")
	d.ends()
	d = learns(t, state)
	if list := d.ends(); !regexp.MustCompile(`(?m)^ 1  request .* done$`).MatchString(list) || !regexp.MustCompile(`(?m)^ 2  params .* 1 of 4 steps$`).MatchString(list) || !strings.Contains(list, "Continue with: "+commandName()+" learn params") {
		t.Errorf("the list is\n%s", list)
	}
	if info, err := os.Stat(filepath.Join(state, "parley", "lessons")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
}

// TestLearnFromElsewhere checks that a call of another program passes a step, while the lesson
// waits for a line.
func TestLearnFromElsewhere(t *testing.T) {
	d := learns(t, t.TempDir(), "progress")
	d.awaits("q ends.\n> ", 1)
	at := regexp.MustCompile(`http://127\.0\.0\.1:\d+/rpc`).FindString(d.screen.String())
	if code, _, stderr := runOn(t, "call", at, "countdown", "1", "1"); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if code := <-d.code; code != exitOK { // its three steps are done, although no line was typed
		t.Errorf("exit code %d", code)
	}
	if text := d.screen.String(); !strings.Contains(text, "Done by a call from elsewhere:") || !strings.Contains(text, "The lesson is done.") {
		t.Errorf("the screen is\n%s", text)
	}
	_ = d.keys.Close()
}

// TestLearnEnds checks that lessons end with the input, by Ctrl-C and by --timeout.
func TestLearnEnds(t *testing.T) {
	t.Parallel()
	d := learns(t, t.TempDir(), "3")
	if text := d.ends(); !strings.Contains(text, "Step 1 of 3") || strings.Contains(text, "Step 2") {
		t.Errorf("the screen is\n%s", text)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	screen := &stopper{text: "sleep 1000 &", stop: func() { cancel(errInterrupted) }}
	a := &app{stdin: r, stdout: screen, stderr: screen, getenv: func(string) string { return "" }}
	if code := a.main(ctx, []string{"learn", "order"}); code != exitCancelled {
		t.Errorf("after Ctrl-C, exit code %d:\n%s", code, screen)
	}
	code, stdout, stderr := runOn(t, "learn", "order", "--timeout", "100ms")
	if code == exitOK || !strings.Contains(stderr, "is not done") {
		t.Errorf("after the timeout, exit code %d:\n%s%s", code, stdout, stderr)
	}
}

// A stopper is an output that calls stop when text is written to it.
type stopper struct {
	glass
	text string
	stop func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.text) {
		s.stop()
	}
	return s.glass.Write(p)
}

func (s *stopper) isTerminal() bool { return false }

// TestLessonsForTheTerminal checks the commands of all lessons: a shell and parley learn split them
// into the same words, they start with a command that exists, and no hint is about the page.
func TestLessonsForTheTerminal(t *testing.T) {
	page := regexp.MustCompile(`(?i)composer|unfold|press A|\brow\b|the page|button`)
	for _, l := range lessons.All() {
		for _, s := range l.Steps {
			if hint := orElse(s.Terminal.Hint, s.Hint); page.MatchString(hint) {
				t.Errorf("%s/%s: the hint is about the page: %s", l.ID, s.ID, hint)
			}
			if s.Terminal.Command == "" {
				continue
			}
			words, err := splitLine(s.Terminal.Command)
			if err != nil || strings.Join(words, "\x00") != strings.Join(shellWords(s.Terminal.Command), "\x00") {
				t.Errorf("%s/%s: %q is %q, %v", l.ID, s.ID, s.Terminal.Command, words, err)
				continue
			}
			if command, _, err := (&app{getenv: os.Getenv}).rootCommand().Find(words[:1]); err != nil || !command.HasParent() {
				t.Errorf("%s/%s: there is no command %q", l.ID, s.ID, words[0])
			}
		}
		for _, text := range l.Text {
			if page.MatchString(text) {
				t.Errorf("%s: the text is about the page: %s", l.ID, text)
			}
		}
	}
}
