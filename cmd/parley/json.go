package main

import (
	"strconv"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A palette colours JSON on a terminal. The zero palette writes none.
type palette struct{ name, text, number, word, mark, end string }

var colours = palette{
	name:   "\x1b[34m", // blue
	text:   "\x1b[32m", // green
	number: "\x1b[36m", // cyan
	word:   "\x1b[35m", // magenta: true, false, null
	mark:   "\x1b[90m", // grey
	end:    "\x1b[0m",
}

// lineWidth is what a list or an object may measure to stay on one line, in bytes with its indent.
const lineWidth = 80

// appendPretty writes valid JSON for people: two spaces of indent, and short lists and objects on one line. The
// values are the same, numbers to the last digit. Letters that move a terminal's cursor are written as escapes.
func appendPretty(dst []byte, text jsonrpc.Raw, p palette) []byte {
	w := prettyWriter{dst: dst, text: text, palette: p}
	w.value(0)
	return w.dst
}

// appendCompact writes valid JSON on one line, with the same care for terminals.
func appendCompact(dst []byte, text jsonrpc.Raw, p palette) []byte {
	w := prettyWriter{dst: dst, text: text, palette: p, compact: true}
	w.value(0)
	return w.dst
}

type prettyWriter struct {
	dst     []byte
	text    []byte
	at      int
	compact bool // everything on one line
	palette palette
}

// maxPretty is the depth at which indenting ends and the rest of a value stays on its line.
const maxPretty = 200

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

// inline writes a value inside of a container that is known to fit on its line.
func (w *prettyWriter) inline(depth int) { w.value(max(depth+1, maxPretty)) }

func (w *prettyWriter) newline(depth int) {
	w.dst = append(w.dst, '\n')
	for range depth {
		w.dst = append(w.dst, ' ', ' ')
	}
}

// fits measures the container at w.at as one line, and gives up as soon as it is too long.
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
	if colour == "" {
		w.dst = appendVisible(w.dst, text)
		return
	}
	w.dst = append(w.dst, colour...)
	w.dst = appendVisible(w.dst, text)
	w.dst = append(w.dst, w.palette.end...)
}

// appendVisible copies the inside of a JSON string and writes control characters, and those that turn the direction of
// text around, as the escapes that mean the same. A server must not be able to repaint the terminal of who calls it.
func appendVisible(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf && c != 0x7f {
			dst = append(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if hidden(r) {
			dst = append(dst, `\u`...)
			hex := strconv.FormatInt(int64(r), 16)
			for range 4 - len(hex) {
				dst = append(dst, '0')
			}
			dst = append(dst, hex...)
		} else {
			dst = append(dst, text[i:i+size]...)
		}
		i += size
	}
	return dst
}

// hidden reports whether r is a control character or reorders the text around it.
func hidden(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c:
		return true
	}
	return false
}
