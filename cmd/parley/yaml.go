package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
)

// A yamlWriter writes JSON values as YAML 1.2: containers as blocks, a member or an element per
// line. Names and texts are quoted where a reader could take them for something else.
type yamlWriter struct {
	w       io.Writer
	palette palette
	dst     []byte
	err     error
}

// writeYAML writes one document.
func writeYAML(w io.Writer, value jsonrpc.Raw, p palette) error {
	out := yamlWriter{w: w, palette: p}
	out.write(value, 0, false)
	out.flush()
	return out.err
}

func (y *yamlWriter) flush() {
	if y.err == nil {
		_, y.err = y.w.Write(y.dst)
	}
	y.dst = y.dst[:0]
}

// isBlock reports whether a value at a depth is written as a block of lines.
func isBlock(value jsonrpc.Raw, depth int) bool {
	for range value.Members() {
		return depth < maxPretty
	}
	for range value.Elements() {
		return depth < maxPretty
	}
	return false
}

// write writes a value and the end of its line. here reports whether its first line has begun.
func (y *yamlWriter) write(value jsonrpc.Raw, depth int, here bool) {
	switch {
	case !isBlock(value, depth):
		y.scalar(value)
		y.dst = append(y.dst, '\n')
	case kind(value) == '{':
		for name, v := range value.Members() {
			y.indent(depth, here)
			here = false
			y.paint(y.palette.name, yamlText(string(name)))
			y.paint(y.palette.mark, ":")
			if isBlock(v, depth+1) {
				y.dst = append(y.dst, '\n')
			} else {
				y.dst = append(y.dst, ' ')
			}
			y.write(v, depth+1, false)
		}
	default:
		for v := range value.Elements() {
			y.indent(depth, here)
			here = false
			y.paint(y.palette.mark, "-")
			y.dst = append(y.dst, ' ')
			y.write(v, depth+1, true)
		}
	}
}

func (y *yamlWriter) indent(depth int, here bool) {
	if len(y.dst) >= 64<<10 {
		y.flush()
	}
	if !here {
		y.dst = append(y.dst, strings.Repeat("  ", depth)...)
	}
}

// scalar writes a value on one line: a container that is empty or very deep as JSON, which is YAML.
func (y *yamlWriter) scalar(value jsonrpc.Raw) {
	switch kind(value) {
	case '"':
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			y.paint(y.palette.text, yamlText(string(text)))
			return
		}
		y.dst = appendCompact(y.dst, value, y.palette) // half a character
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		y.paint(y.palette.number, yamlNumber(string(value)))
	default:
		y.dst = appendCompact(y.dst, value, y.palette)
	}
}

func (y *yamlWriter) paint(colour, text string) {
	if colour == "" {
		y.dst = append(y.dst, text...)
		return
	}
	y.dst = append(append(append(y.dst, colour...), text...), y.palette.end...)
}

// yamlNumber returns a number such that readers of YAML 1.1 see a number too: in theirs, an
// exponent has a sign, and a point before it.
func yamlNumber(text string) string {
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return text
	}
	digits, exponent := text[:at], text[at+1:]
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	if exponent[0] != '-' && exponent[0] != '+' {
		exponent = "+" + exponent
	}
	return digits + "e" + exponent
}

var (
	// plainYAML matches texts that are the same without quotes.
	plainYAML = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)
	// yamlWords are those that mean something else, also to readers of YAML 1.1.
	yamlWords = regexp.MustCompile(`^(?i:true|false|null|yes|no|on|off|y|n)$`)
)

// yamlText returns a text as a scalar.
func yamlText(text string) string {
	if len(text) <= 1000 && plainYAML.MatchString(text) && !yamlWords.MatchString(text) {
		return text
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case harmless.Hidden(r):
			if r > 0xffff {
				fmt.Fprintf(&b, `\U%08x`, r)
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
