package harmless

import (
	"io"
	"sync"
	"unicode/utf8"
)

// A Writer writes text of several lines, or JSON, and escapes hidden characters regardless of their
// source, so that a mistake elsewhere does not reach the terminal. It is safe for concurrent use.
type Writer struct {
	to   io.Writer
	own  func(p []byte) int
	form form

	mu   sync.Mutex // guards the fields below, and prevents interleaved writes
	rest []byte     // the beginning of a character that is incomplete
	out  []byte
}

// NewWriter creates a Writer. own returns the length of a control sequence of the program's own at
// the beginning of p, which begins with ESC or another control character, or 0. Such a sequence
// passes unchanged. If own is nil, no sequence passes.
func NewWriter(to io.Writer, own func(p []byte) int) *Writer {
	return &Writer{to: to, own: own, form: form{lines: true}}
}

// NewJSONWriter creates a Writer for valid JSON. The output is valid and has the same value.
func NewJSONWriter(to io.Writer) *Writer { return &Writer{to: to, form: form{lines: true, json: true}} }

// Write writes p. It returns the error of the underlying writer.
func (w *Writer) Write(p []byte) (int, error) { return w.WriteWith(p, nil) }

// WriteWith is like Write, but also passes the sequences that more matches, such as those that
// redraw the screen.
func (w *Writer) WriteWith(p []byte, more func(p []byte) int) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := p
	if len(w.rest) > 0 {
		text = append(w.rest, p...)
		w.rest = nil
	}
	if n := unfinished(text); n > 0 {
		w.rest = append([]byte(nil), text[len(text)-n:]...)
		text = text[:len(text)-n]
	}
	w.out = w.out[:0]
	plain := 0
	for i := 0; i < len(text); {
		n := 0
		if text[i] < ' ' && text[i] != '\n' && text[i] != '\t' {
			if w.own != nil {
				n = w.own(text[i:])
			}
			if n == 0 && more != nil {
				n = more(text[i:])
			}
		}
		if n == 0 {
			i++
			continue
		}
		w.out = append(w.form.append(w.out, text[plain:i]), text[i:i+n]...)
		i += n
		plain = i
	}
	w.out = w.form.append(w.out, text[plain:])
	if len(w.out) == 0 {
		return len(p), nil
	}
	if _, err := w.to.Write(w.out); err != nil {
		return 0, err
	}
	if cap(w.out) > maxKept {
		w.out = nil
	}
	return len(p), nil
}

// maxKept is the maximum size of a buffer that is reused for the next Write, in bytes.
const maxKept = 64 << 10

// Flush writes the bytes of an incomplete character as escapes.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) == 0 {
		return nil
	}
	out := w.form.append(nil, w.rest)
	w.rest = nil
	_, err := w.to.Write(out)
	return err
}

// unfinished returns the number of bytes at the end of text that are the beginning of a character.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
