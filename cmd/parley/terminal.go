package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"golang.org/x/term"
)

// A terminal is stdout or stderr of a command. All output of a command passes through one. If the
// stream is a terminal, only the few control sequences that this program writes itself pass.
//
// Text of a peer is escaped where it is printed, by [visible] for one line, [printer.peer] for
// several and appendPretty for JSON, because only there the meaning of a newline is known. This
// type is a second line of defence: it escapes what was missed there.
type terminal struct {
	to     io.Writer
	person bool             // the stream is a terminal
	safe   *harmless.Writer // if nil, bytes pass unchanged, into a pipe or a file
	// For stderr: credentials of the command line, which would otherwise end up in logs.
	hide *secret.Set
}

// newTerminal returns a terminal for a stream. If always is true, hidden characters are escaped
// even in a pipe or a file: people read stderr, now or later.
func newTerminal(to io.Writer, always bool) *terminal {
	if t, ok := to.(*terminal); ok {
		return t
	}
	t := &terminal{to: to, person: isTerminal(to)}
	if t.person || always {
		t.safe = harmless.NewWriter(to, colourAt)
	}
	return t
}

// Write writes lines. The colours of our palettes pass; all other control sequences are escaped.
func (t *terminal) Write(p []byte) (int, error) {
	shown, to := t.hide.Known(p), t.to
	if t.safe != nil {
		to = t.safe
	}
	n, err := to.Write(shown)
	if err == nil {
		n = len(p)
	}
	return min(n, len(p)), err
}

// draw writes over existing output: it also passes sequences that move the cursor up or clear rows.
func (t *terminal) draw(p []byte) (int, error) {
	if t.safe == nil {
		return t.to.Write(p)
	}
	return t.safe.WriteWith(p, cursorAt)
}

func (t *terminal) isTerminal() bool { return t.person }

// close writes the rest of a character that was cut off.
func (t *terminal) close() error {
	if t.safe == nil {
		return nil
	}
	return t.safe.Flush()
}

// drawOn draws on a stream that may be a terminal.
func drawOn(w io.Writer, p []byte) {
	if t, ok := w.(*terminal); ok {
		_, _ = t.draw(p) // output without a reader does not matter
		return
	}
	_, _ = w.Write(p) // likewise
}

// through returns a stream for bytes that parley only forwards, such as those between a host and a
// server: unchanged into a pipe or a file, and escaped like text of a peer on a terminal.
func through(w io.Writer) io.Writer {
	t, ok := w.(*terminal)
	switch {
	case !ok:
		return w
	case !t.person:
		return t.to
	}
	return &quotingWriter{w: t, q: quoter{person: true}}
}

// A quotingWriter writes text of a peer to a terminal as it arrives. It is for use by one
// goroutine.
type quotingWriter struct {
	w io.Writer
	q quoter
}

func (w *quotingWriter) Write(p []byte) (int, error) {
	if _, err := w.w.Write(w.q.append(nil, string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// isTerminal reports whether the stream is a terminal.
func isTerminal(stream any) bool {
	if t, ok := stream.(interface{ isTerminal() bool }); ok {
		return t.isTerminal()
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// sizeOf returns the size of a terminal in characters and rows.
func sizeOf(w io.Writer) (width, height int, err error) {
	if t, ok := w.(*terminal); ok {
		w = t.to
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0, 0, errors.New("no terminal")
	}
	return term.GetSize(int(f.Fd()))
}

// colourAt returns the length of a colour sequence of our palettes at the beginning of p: ESC [, a
// number of one or two digits, m.
func colourAt(p []byte) int {
	for _, palette := range [][]string{
		{colours.name, colours.text, colours.number, colours.word, colours.mark, colours.end},
		{treeColours.name, treeColours.ok, treeColours.bad, treeColours.busy, treeColours.faint, treeColours.end},
	} {
		for _, sequence := range palette {
			if bytes.HasPrefix(p, []byte(sequence)) {
				return len(sequence)
			}
		}
	}
	return 0
}

// The sequences that draw the bar and the tree.
const (
	toColumn0 = "\r"
	wipeRow   = "\x1b[K"
	wipeBelow = "\x1b[J"
	wrapOff   = "\x1b[?7l"
	wrapOn    = "\x1b[?7h"
)

// cursorAt returns the length of such a sequence, or of one that moves up some rows, at the
// beginning of p.
func cursorAt(p []byte) int {
	for _, sequence := range []string{toColumn0, wipeRow, wipeBelow, wrapOff, wrapOn} {
		if bytes.HasPrefix(p, []byte(sequence)) {
			return len(sequence)
		}
	}
	if !bytes.HasPrefix(p, []byte("\x1b[")) {
		return 0
	}
	for i := 2; i < len(p) && i < 8; i++ {
		switch {
		case p[i] >= '0' && p[i] <= '9':
		case p[i] == 'A' && i > 2:
			return i + 1
		default:
			return 0
		}
	}
	return 0
}

// A quoter writes text of a peer in pieces, as it arrives. On a terminal, hidden characters are
// escaped and the gutter precedes each line, so that no line can pass for one of ours: for an
// error, or for a question that one typed letter would answer. Into a pipe or a file, text passes
// unchanged.
type quoter struct {
	person  bool
	midLine bool // the last piece did not end its line
}

func (q *quoter) append(dst []byte, text string) []byte {
	if !q.person {
		if text != "" {
			q.midLine = !strings.HasSuffix(text, "\n")
		}
		return append(dst, text...)
	}
	for line := range strings.Lines(harmless.Text(text)) {
		if !q.midLine {
			dst = append(dst, harmless.Gutter...)
		}
		dst = append(dst, line...)
		q.midLine = !strings.HasSuffix(line, "\n")
	}
	return dst
}

// peer prints text of a peer, which may have several lines, with a newline at its end.
func (p *printer) peer(text string) error {
	q := quoter{person: p.terminal}
	out := append(q.append(nil, strings.TrimRight(text, "\n")), '\n')
	_, err := p.w.Write(out)
	return err
}

// childLine formats a line that a child wrote to its stderr: with the gutter on a terminal, since
// it is not ours, and unchanged elsewhere, as under any shell.
func (a *app) childLine(line string) string {
	if isTerminal(a.stderr) {
		return harmless.Gutter + line
	}
	return line
}

// label returns a peer's name for the beginning of a line, cut to most characters, in quotes if it
// could pass for our own words.
func label(name string, most int) string {
	name = visible(name, most)
	if strings.ContainsAny(name, ":?[]>") || strings.HasPrefix(strings.ToLower(strings.TrimSpace(name)), "parley") {
		return strconv.Quote(name)
	}
	return name
}

// peerRaw prints a payload of a peer and a newline: unchanged into a pipe or a file; on a terminal
// as JSON of the same value, or as text if it is not JSON.
func (p *printer) peerRaw(payload []byte) error {
	var out []byte
	if _, err := jsonrpc.ParseRaw(payload); err == nil && p.terminal {
		out = appendVisible(nil, payload)
	} else {
		out = (&quoter{person: p.terminal}).append(nil, string(payload))
	}
	_, err := p.w.Write(append(out, '\n'))
	return err
}

// word prints one word of a peer, such as an ID, on a line. Text with blanks is printed like text
// of several lines.
func (p *printer) word(text string) error {
	if strings.ContainsFunc(text, unicode.IsSpace) {
		return p.peer(visible(text, 400))
	}
	_, err := p.w.Write([]byte(visible(text, 400) + "\n"))
	return err
}

// shownRole returns the name of a message's author.
func shownRole(role mcp.Role) string {
	switch role {
	case mcp.RoleUser, mcp.RoleAssistant:
		return string(role)
	}
	return strconv.Quote(visible(string(role), 40))
}
