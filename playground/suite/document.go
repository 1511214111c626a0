package suite

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// maxDepth limits the nesting of a JSON file, because the parser of JSON with comments has no limit
// of its own.
const maxDepth = 100

// ParseJSON parses JSON with optional comments and trailing commas, nested at most 100 levels deep.
func ParseJSON(text []byte) (hujson.Value, error) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case rest[0] == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(rest, []byte("//")):
			i += skipTo(rest, "\n")
		case bytes.HasPrefix(rest, []byte("/*")):
			i += skipTo(rest, "*/")
		case rest[0] == '{' || rest[0] == '[':
			depth++
		case rest[0] == '}' || rest[0] == ']':
			depth--
		}
		if depth > maxDepth {
			return hujson.Value{}, fmt.Errorf("nested more than %d levels deep", maxDepth)
		}
	}
	return hujson.Parse(text)
}

// skipTo returns the length up to the end of a comment.
func skipTo(text []byte, end string) int {
	if i := bytes.Index(text[2:], []byte(end)); i >= 0 {
		return 1 + i + len(end)
	}
	return len(text)
}

// A document is a file as JSON, with the positions of its parts.
type document struct {
	json jsonrpc.Raw
	at   func(pointer string) (line, column int)
}

// isJSON reports whether a file is JSON: by its name, or else by its first significant byte.
func isJSON(name string, text []byte) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml":
		return false
	case ".json", ".jsonc":
		return true
	}
	text = bytes.TrimLeft(text, " \t\r\n")
	return bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("//")) || bytes.HasPrefix(text, []byte("/*"))
}

// parseDocument parses YAML, or JSON with comments.
func parseDocument(name string, text []byte) (*document, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if isJSON(name, text) {
		return jsonDocument(name, text)
	}
	d, err := config.ParseDocument(text)
	if p, ok := errors.AsType[*config.Problem](err); ok {
		return nil, &Error{name, p.Line, p.Column, p.Text}
	}
	if err != nil {
		return nil, &Error{File: name, Text: err.Error()}
	}
	return &document{d.JSON, d.Position}, nil
}

var jsonPlace = regexp.MustCompile(`^hujson: line (\d+), column (\d+): (.*)$`)

func jsonDocument(name string, text []byte) (*document, error) {
	value, err := ParseJSON(text)
	if err != nil {
		fault := &Error{File: name, Text: "not JSON: " + strings.TrimPrefix(err.Error(), "hujson: ")}
		if m := jsonPlace.FindStringSubmatch(err.Error()); m != nil {
			fault.Line, _ = strconv.Atoi(m[1])   // digits
			fault.Column, _ = strconv.Atoi(m[2]) // likewise
			fault.Text = "not JSON: " + m[3]
		}
		return nil, fault
	}
	plain := value.Clone()
	plain.Standardize()
	plain.Minimize()
	raw, err := jsonrpc.ParseRaw(plain.Pack())
	if err != nil {
		return nil, &Error{File: name, Text: "not JSON: " + err.Error()}
	}
	return &document{raw, func(pointer string) (line, column int) { return place(text, offsetOf(&value, pointer)) }}, nil
}

// offsetOf returns the offset of a member's name or a list's element. If it is missing, the offset
// is that of the nearest value around it.
func offsetOf(v *hujson.Value, pointer string) int {
	offset := v.StartOffset
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var next *hujson.Value
		switch x := v.Value.(type) {
		case *hujson.Object:
			for i := range x.Members {
				m := &x.Members[i]
				if name, ok := m.Name.Value.(hujson.Literal); ok && name.String() == step {
					next, offset = &m.Value, m.Name.StartOffset
				}
			}
		case *hujson.Array:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(x.Elements) {
				next = &x.Elements[i]
				offset = next.StartOffset
			}
		}
		if next == nil {
			break
		}
		v = next
	}
	return offset
}

// place returns the line and the column of an offset.
func place(text []byte, offset int) (line, column int) {
	before := text[:min(offset, len(text))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}
