package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// flagHidden prints a line on stderr for an item of a server whose texts contain invisible
// characters: a model reads them, but a person does not see them. The texts show them as escapes,
// which are easily overlooked in a long text.
func flagHidden(s *screen, what, name string, thing any) {
	if found := hiddenIn(thing); len(found) > 0 {
		s.line(fmt.Sprintf("parley: %s %s contains invisible characters: %s. They are shown as escapes", what, shownName(name), strings.Join(found, ", ")))
	}
}

// mostNamed is the maximum number of characters that flagHidden lists.
const mostNamed = 5

// hiddenIn returns the hidden characters in the names and texts of value as JSON, each once, in the
// form "U+200B". Line ends and tabs do not count.
func hiddenIn(value any) (found []string) {
	text, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil // the value cannot be shown either
	}
	for d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); ; {
		token, err := d.ReadToken()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return nil // cannot happen: the text was marshalled
			}
			return found
		}
		if token.Kind() != '"' {
			continue
		}
		words := strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(token.String())
		if !harmless.Has(words) {
			continue
		}
		for _, r := range words {
			code := fmt.Sprintf("U+%04X", r)
			if !harmless.Hidden(r) || slices.Contains(found, code) {
				continue
			}
			if len(found) == mostNamed {
				return append(found, "…")
			}
			found = append(found, code)
		}
	}
}
