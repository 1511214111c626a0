package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestTerminalIsTheSecondWall checks that sequences missed where text is printed do not reach the
// terminal, and that our own sequences do, each through its own method.
func TestTerminalIsTheSecondWall(t *testing.T) {
	const theirs = "\x1b]0;t\a\x1b[2J\u009b\r\u202e\x1b[31;1m"
	const escaped = `\u001b]0;t\u0007\u001b[2J\u009b\u000d\u202e\u001b[31;1m`
	var screen glass
	person := newTerminal(&screen, false)
	fmt.Fprintf(person, "%s%s%s\n", colours.name, theirs, colours.end)
	drawOn(person, []byte("\x1b[12A"+toColumn0+wipeRow+wrapOff+wrapOn+wipeBelow+theirs+"\x1b[A\x1b[1B"))
	want := colours.name + escaped + colours.end + "\n\x1b[12A\r\x1b[K\x1b[?7l\x1b[?7h\x1b[J"
	if got := screen.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\x1b") != 7 || strings.Contains(got, "\a") {
		t.Errorf("the screen shows %q, want %q first", got, want)
	}
	var pipe, log bytes.Buffer
	fmt.Fprint(newTerminal(&pipe, false), theirs)
	fmt.Fprint(newTerminal(&log, true), theirs)
	if pipe.String() != theirs || log.String() != escaped {
		t.Errorf("the pipe gets %q, the log %q", pipe.String(), log.String())
	}
	if through(newTerminal(&pipe, false)) != io.Writer(&pipe) {
		t.Error("bytes that are not ours do not pass into a pipe as they are")
	}
}

// TestTerminalEndsWithItsLetters checks that a character split across writes is written whole or
// escaped.
func TestTerminalEndsWithItsLetters(t *testing.T) {
	var screen glass
	a := &app{stdin: strings.NewReader(""), stdout: &screen, stderr: io.Discard, getenv: func(string) string { return "" }}
	person := newTerminal(a.stdout, false)
	for _, piece := range []string{"\xe6\xbc", "\xa2", "\xe2\x80"} {
		if _, err := io.WriteString(person, piece); err != nil {
			t.Fatal(err)
		}
	}
	if err := person.close(); err != nil || screen.String() != `漢\xe2\x80` {
		t.Errorf("%q, %v", screen.String(), err)
	}
}

// TestQuoterPutsEachLineBehindTheGutter checks the gutter for every way to split the text.
func TestQuoterPutsEachLineBehindTheGutter(t *testing.T) {
	const text = "one\r\ntwo\x1b\n\nparley: three"
	for size := 1; size <= len(text); size++ {
		q := quoter{person: true}
		var out []byte
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if n < len(rest) && rest[n-1] == '\r' { // a line end is not split here
				n++
			}
			out = q.append(out, rest[:n])
			rest = rest[n:]
		}
		if got, want := string(out), "│ one\n│ two\\u001b\n│ \n│ parley: three"; got != want {
			t.Errorf("in pieces of %d: %q, want %q", size, got, want)
		}
	}
	q := quoter{}
	if got := string(q.append(nil, text)); got != text || !q.midLine {
		t.Errorf("into a pipe: %q", got)
	}
}

// TestReportsOfServersAreHarmless checks the texts of peers that demo, tap and up log.
func TestReportsOfServersAreHarmless(t *testing.T) {
	for kind, text := range escapes(t) {
		var log bytes.Buffer
		r := &reporter{w: newTerminal(struct{ io.Writer }{&log}, true)}
		r.report("panic", errors.New("x "+text))
		if log.Len() == 0 {
			t.Errorf("%s: nothing is reported", kind)
		}
		checkShown(t, kind, log.String(), false, false)
	}
}
