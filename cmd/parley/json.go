package main

import (
	"io"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A palette holds the colours of JSON on a terminal. The zero palette uses no colours.
type palette struct{ name, text, number, word, mark, end string }

var colours = palette{
	name:   "\x1b[34m", // blue
	text:   "\x1b[32m", // green
	number: "\x1b[36m", // cyan
	word:   "\x1b[35m", // magenta: true, false, null
	mark:   "\x1b[90m", // grey
	end:    "\x1b[0m",
}

// lineWidth is the maximum width of a list or an object on one line, in bytes including the indent.
const lineWidth = 80

// appendPretty appends valid JSON formatted for people: two spaces of indent, and short lists and
// objects on one line. It preserves the values, numbers to the last digit. Characters that move a
// terminal's cursor are escaped.
func appendPretty(dst []byte, text jsonrpc.Raw, p palette) []byte {
	w := prettyWriter{dst: dst, text: text, palette: p}
	w.value(0)
	return w.dst
}

// appendCompact appends valid JSON on one line, with the same escapes.
func appendCompact(dst []byte, text jsonrpc.Raw, p palette) []byte {
	w := prettyWriter{dst: dst, text: text, palette: p, compact: true}
	w.value(0)
	return w.dst
}

// writePretty writes the output of appendPretty and a newline to w. It streams, because indented
// JSON can be many times as long as its source.
func writePretty(w io.Writer, text jsonrpc.Raw, p palette) error {
	out := prettyWriter{text: text, palette: p, to: w}
	out.value(0)
	out.dst = append(out.dst, '\n')
	out.flush()
	return out.err
}

// appendBegin appends the beginning of a value like appendCompact. It stops soon after most bytes.
func appendBegin(dst []byte, text jsonrpc.Raw, most int) []byte {
	w := prettyWriter{dst: dst, text: text, compact: true, most: len(dst) + most}
	w.value(0)
	return w.dst
}

type prettyWriter struct {
	dst     []byte
	text    []byte
	at      int
	compact bool // write everything on one line
	most    int  // stop soon after dst holds this many bytes; 0 means no limit
	palette palette

	to  io.Writer // if not nil, receives the collected bytes of dst
	err error
}

func (w *prettyWriter) flush() {
	if w.err == nil {
		_, w.err = w.to.Write(w.dst)
	}
	w.dst = w.dst[:0]
}

// over reports whether the limit is reached. It also flushes the collected bytes.
func (w *prettyWriter) over() bool {
	if w.to != nil && len(w.dst) >= 64<<10 {
		w.flush()
	}
	return w.err != nil || w.most > 0 && len(w.dst) > w.most
}

// maxPretty is the depth below which values are written on one line.
const maxPretty = 100

func (w *prettyWriter) space() {
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return
		}
	}
}

func (w *prettyWriter) value(depth int) {
	w.space()
	if w.at >= len(w.text) {
		return
	}
	switch c := w.text[w.at]; c {
	case '{', '[':
		w.container(depth)
	case '"':
		w.paint(w.palette.text, w.scanString())
	case 't', 'f', 'n':
		w.paint(w.palette.word, w.scanWord())
	default:
		w.paint(w.palette.number, w.scanWord())
	}
}

func (w *prettyWriter) container(depth int) {
	closing := byte(']')
	if w.text[w.at] == '{' {
		closing = '}'
	}
	oneLine := w.compact || depth >= maxPretty || w.fits(depth*2)
	spaced := oneLine && (!w.compact)
	w.mark(w.text[w.at])
	w.at++
	for first := true; ; first = false {
		if w.over() {
			return
		}
		w.space()
		if w.at >= len(w.text) || w.text[w.at] == closing {
			break
		}
		if !first {
			w.mark(',')
			w.at++
			w.space()
			if spaced {
				w.dst = append(w.dst, ' ')
			}
		}
		if !oneLine {
			w.newline(depth + 1)
		}
		if closing == '}' {
			w.paint(w.palette.name, w.scanString())
			w.space()
			w.at++ // the colon
			w.mark(':')
			if !w.compact {
				w.dst = append(w.dst, ' ')
			}
		}
		if oneLine && !w.compact {
			w.inline(depth)
		} else {
			w.value(depth + 1)
		}
	}
	if !oneLine {
		w.newline(depth)
	}
	w.mark(closing)
	w.at++
}

// inline writes a value in a container that fits on its line.
func (w *prettyWriter) inline(depth int) { w.value(max(depth+1, maxPretty)) }

func (w *prettyWriter) newline(depth int) {
	w.dst = append(w.dst, '\n')
	for range depth {
		w.dst = append(w.dst, ' ', ' ')
	}
}

// fits reports whether the container at w.at fits on one line. It stops measuring as soon as it
// does not.
func (w *prettyWriter) fits(indent int) bool {
	width, depth := indent, 0
	for i := w.at; i < len(w.text) && width <= lineWidth; i++ {
		switch c := w.text[i]; c {
		case ' ', '\t', '\n', '\r':
			continue
		case '"':
			start := i
			for i++; w.text[i] != '"'; i++ {
				if w.text[i] == '\\' {
					i++
				}
			}
			width += i - start + 1
			continue
		case ',', ':':
			width += 2
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return width+1 <= lineWidth
			}
		}
		width++
	}
	return false
}

func (w *prettyWriter) scanString() []byte {
	start := w.at
	for w.at++; w.text[w.at] != '"'; w.at++ {
		if w.text[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
	return w.text[start:w.at]
}

func (w *prettyWriter) scanWord() []byte {
	start := w.at
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case ' ', '\t', '\n', '\r', ',', ']', '}', ':':
			return w.text[start:w.at]
		}
		w.at++
	}
	return w.text[start:w.at]
}

func (w *prettyWriter) mark(c byte) { w.paint(w.palette.mark, []byte{c}) }

func (w *prettyWriter) paint(colour string, text []byte) {
	if w.most > 0 {
		text = text[:min(len(text), w.most+1)]
	}
	if colour == "" {
		w.dst = appendVisible(w.dst, text)
		return
	}
	w.dst = append(w.dst, colour...)
	w.dst = appendVisible(w.dst, text)
	w.dst = append(w.dst, w.palette.end...)
}

// appendVisible appends JSON, or a part of it, with hidden characters replaced by equivalent
// escapes. A server must not be able to control the caller's terminal.
func appendVisible(dst, text []byte) []byte { return harmless.AppendJSON(dst, text) }
