// Package harmless makes text of a peer safe to show on a terminal, or in a file that is displayed
// on one.
//
// A character is hidden if it moves the cursor, controls the terminal, reorders the text around it,
// or is invisible. Hidden characters are written as escapes:
//
//   - in text, U+202E is \u202e, U+E0041 is \u{e0041}, and a byte that is not UTF-8 is \x9b;
//   - in JSON, U+202E is \u202e, U+E0041 is \udb40\udc41, and a byte that is not UTF-8 is \ufffd,
//     so that the JSON remains valid and has the same value.
//
// A text that contains the six characters \u202e looks the same as one that contains U+202E,
// because the output is for people. The functions of this package are idempotent.
package harmless

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// hiddenRunes are all hidden runes from U+007F on, sorted: C1 controls, format characters (Unicode
// category Cf) except the visible signs of Arabic, Syriac and Kaithi numbers, line and paragraph
// separators, default-ignorable characters such as the Hangul fillers, variation selectors, tag
// characters, private use, and noncharacters.
//
// The zero-width joiner is hidden too, even inside an emoji: it is invisible everywhere else, and a
// visible escape is the safer form.
var hiddenRunes = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x007f, Hi: 0x009f, Stride: 1},
		{Lo: 0x00ad, Hi: 0x00ad, Stride: 1},
		{Lo: 0x034f, Hi: 0x034f, Stride: 1},
		{Lo: 0x061c, Hi: 0x061c, Stride: 1},
		{Lo: 0x070f, Hi: 0x070f, Stride: 1},
		{Lo: 0x115f, Hi: 0x1160, Stride: 1},
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1},
		{Lo: 0x180b, Hi: 0x180f, Stride: 1},
		{Lo: 0x200b, Hi: 0x200f, Stride: 1},
		{Lo: 0x2028, Hi: 0x202e, Stride: 1},
		{Lo: 0x2060, Hi: 0x206f, Stride: 1},
		{Lo: 0x3164, Hi: 0x3164, Stride: 1},
		{Lo: 0xd800, Hi: 0xf8ff, Stride: 1},
		{Lo: 0xfdd0, Hi: 0xfdef, Stride: 1},
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1},
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1},
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1},
		{Lo: 0xfff0, Hi: 0xfffb, Stride: 1},
		{Lo: 0xfffe, Hi: 0xffff, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x13430, Hi: 0x1343f, Stride: 1},
		{Lo: 0x1bca0, Hi: 0x1bca3, Stride: 1},
		{Lo: 0x1d173, Hi: 0x1d17a, Stride: 1},
		{Lo: 0x1fffe, Hi: 0x1ffff, Stride: 1},
		{Lo: 0x2fffe, Hi: 0x2ffff, Stride: 1},
		{Lo: 0x3fffe, Hi: 0x3ffff, Stride: 1},
		{Lo: 0x4fffe, Hi: 0x4ffff, Stride: 1},
		{Lo: 0x5fffe, Hi: 0x5ffff, Stride: 1},
		{Lo: 0x6fffe, Hi: 0x6ffff, Stride: 1},
		{Lo: 0x7fffe, Hi: 0x7ffff, Stride: 1},
		{Lo: 0x8fffe, Hi: 0x8ffff, Stride: 1},
		{Lo: 0x9fffe, Hi: 0x9ffff, Stride: 1},
		{Lo: 0xafffe, Hi: 0xaffff, Stride: 1},
		{Lo: 0xbfffe, Hi: 0xbffff, Stride: 1},
		{Lo: 0xcfffe, Hi: 0xcffff, Stride: 1},
		{Lo: 0xdfffe, Hi: 0xe0fff, Stride: 1},
		{Lo: 0xefffe, Hi: 0x10ffff, Stride: 1},
	},
	LatinOffset: 2,
}

// Hidden reports whether r is hidden regardless of its position. Newlines and tabs are hidden.
func Hidden(r rune) bool {
	switch {
	case r < ' ':
		return true
	case r < 0x7f, r > 0xad && r < 0x34f, r >= 0x3165 && r < 0xd800: // most letters of most texts
		return false
	}
	return unicode.Is(hiddenRunes, r)
}

// maxMarks is the maximum number of combining marks on one letter. No language needs as many; a
// tower of them covers the lines above.
const maxMarks = 8

// A reader scans text and decides what is hidden, which for some characters depends on the
// preceding one.
type reader struct {
	before rune // 0 at the beginning
	marks  int  // combining marks since the last letter
}

// hides reports whether r, encoded in size bytes, is hidden after the preceding text.
func (w *reader) hides(r rune, size int) bool {
	if r < utf8.RuneSelf {
		w.before, w.marks = r, 0
		return r < ' ' || r == 0x7f
	}
	if r == utf8.RuneError && size == 1 {
		w.before = 0
		return true
	}
	// Selects how the symbol before it looks: as text, or as a picture.
	if r == 0xfe0e || r == 0xfe0f {
		symbol := w.before >= utf8.RuneSelf && unicode.In(w.before, unicode.So, unicode.Sm)
		w.before = 0
		return !symbol
	}
	if Hidden(r) {
		w.before = 0
		return true
	}
	w.before = r
	// No combining marks in the gap.
	if r >= 0x300 && (r < 0x3165 || r > 0xa66e) && unicode.In(r, unicode.Mn, unicode.Me) {
		w.marks++
		return w.marks > maxMarks
	}
	w.marks = 0
	return false
}

// Has reports whether Line would change text.
func Has(text string) bool {
	var w reader
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f {
			w, i = reader{before: rune(c)}, i+1
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if w.hides(r, size) {
			return true
		}
		i += size
	}
	return false
}

// A form is a format of escapes with the characters that it retains.
type form struct {
	lines bool // newlines and tabs are retained; of a CR LF line end, only the newline is
	json  bool
}

// AppendText appends text of several lines. It retains newlines and tabs, and omits a carriage
// return before a newline.
func AppendText(dst, text []byte) []byte { return form{lines: true}.append(dst, text) }

// AppendLine appends text for one line. It writes newlines and tabs as \n and \t.
func AppendLine(dst, text []byte) []byte { return form{}.append(dst, text) }

// AppendJSON appends valid JSON, or a part of it, with the same value. It retains white space.
func AppendJSON(dst, text []byte) []byte { return form{lines: true, json: true}.append(dst, text) }

// Text is like AppendText for strings.
func Text(text string) string { return form{lines: true}.string(text) }

// Line is like AppendLine for strings.
func Line(text string) string { return form{}.string(text) }

// Shorten limits text to most bytes, between characters. A longer text gets "…" in place of the
// rest. It escapes nothing.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}

// Cut is like Line, but limits the result to most characters. A longer text ends in "…". The
// running time is bounded by most.
func Cut(text string, most int) string {
	// The rest cannot be shown, because each character becomes one character or more.
	if len(text)/utf8.UTFMax > most {
		end := (most + 1) * utf8.UTFMax
		text = text[:min(end, len(text))]
	}
	text = Line(text)
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	letters := 0
	for i := range text {
		if letters++; letters == most {
			return text[:i] + "…"
		}
	}
	return text
}

func (f form) string(text string) string {
	if !Has(text) {
		return text
	}
	return string(f.append(make([]byte, 0, len(text)+len(text)/4), []byte(text)))
}

func (f form) append(dst, text []byte) []byte {
	var w reader
	plain := 0 // start of the characters that are retained
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f {
			w, i = reader{before: rune(c)}, i+1
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if !w.hides(r, size) || f.lines && stays(r) {
			i += size
			continue
		}
		dst = append(dst, text[plain:i]...)
		dst = f.escape(dst, text[i:], r, size)
		i += size
		plain = i
	}
	return append(dst, text[plain:]...)
}

// stays reports whether r is white space that text of several lines retains.
func stays(r rune) bool {
	return r == '\n' || r == '\t'
}

const digits = "0123456789abcdef"

// escape appends the escape of r, encoded in size bytes at the beginning of text.
func (f form) escape(dst, text []byte, r rune, size int) []byte {
	switch {
	case r == '\r' && f.json:
		return append(dst, '\n') // between values; in a string it is already escaped
	case r == '\r' && f.lines && len(text) > 1 && text[1] == '\n':
		return dst
	case f.json && r == utf8.RuneError && size == 1:
		return append(dst, `\ufffd`...)
	case r == utf8.RuneError && size == 1:
		return append(dst, '\\', 'x', digits[text[0]>>4], digits[text[0]&15])
	case r == '\n' && !f.json:
		return append(dst, `\n`...)
	case r == '\t' && !f.json:
		return append(dst, `\t`...)
	case r > 0xffff && f.json:
		high, low := utf16.EncodeRune(r)
		return appendHex(appendHex(dst, high), low)
	case r > 0xffff:
		dst = append(dst, `\u{`...)
		for shift := 20; shift >= 0; shift -= 4 {
			if d := r >> shift; d > 0 {
				dst = append(dst, digits[d&15])
			}
		}
		return append(dst, '}')
	}
	return appendHex(dst, r)
}

func appendHex(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// Gutter precedes each line of a peer that could pass for one of ours.
const Gutter = "│ "

// Block makes text of a peer safe to follow a line of ours: it is like Text, with the gutter before
// each line after the first, so that no line can pass for one of ours.
func Block(text string) string {
	text = strings.TrimRight(Text(text), "\n")
	return strings.ReplaceAll(text, "\n", "\n"+Gutter)
}
