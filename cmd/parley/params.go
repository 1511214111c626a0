package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
)

// maxInput is the maximum size of a file that is read for a param or a frame, in bytes.
const maxInput = 256 << 20

// named matches the words name=text, name:=json, name=@file and name:=@file.
var named = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_.-]*)(:?=)(@?)(.*)$`)

// parseParams builds params from the words after the method. Without words there are no params. A
// word that is JSON is a positional value; otherwise name=… is a named value; anything else is a
// positional string. The two kinds cannot be mixed.
func (a *app) parseParams(words []string) (jsonrpc.Raw, error) {
	var values, members []byte
	seen := make(map[string]bool)
	for _, word := range words {
		if value, err := jsonrpc.ParseRaw([]byte(word)); err == nil {
			values = appendComma(values, value)
			continue
		}
		parts := named.FindStringSubmatch(word)
		if parts == nil {
			text, err := quote(word)
			if err != nil {
				return nil, usagef("parameter %q: %v", word, err)
			}
			values = appendComma(values, text)
			continue
		}
		name := parts[1]
		if seen[name] {
			return nil, usagef("duplicate parameter %s", name)
		}
		seen[name] = true
		value, err := a.namedValue(parts[2] == ":=", parts[3] == "@", parts[4])
		if err != nil {
			return nil, usagef("parameter %s: %v", name, err)
		}
		key, err := quote(name)
		if err != nil {
			return nil, usagef("parameter %s: %v", name, err)
		}
		members = append(append(appendComma(members, key), ':'), value...)
	}
	switch {
	case values != nil && members != nil:
		return nil, usagef("positional and named parameters cannot be mixed; to send %s as a string, write it as JSON in double quotes, such as '\"a=b\"'", firstNamed(words))
	case values != nil:
		return jsonrpc.Raw("[" + string(values) + "]"), nil
	case members != nil:
		return jsonrpc.Raw("{" + string(members) + "}"), nil
	}
	return nil, nil
}

// namedValue returns the value after name= or name:=.
func (a *app) namedValue(isJSON, isFile bool, text string) (jsonrpc.Raw, error) {
	if isFile {
		content, err := a.readInput(text)
		if err != nil {
			return nil, err
		}
		text = string(content)
	}
	if !isJSON {
		return quote(text)
	}
	value, err := jsonrpc.ParseRaw([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%q is not JSON: %w", cut(text, 60), err)
	}
	return value, nil
}

func firstNamed(words []string) string {
	for _, word := range words {
		if _, err := jsonrpc.ParseRaw([]byte(word)); err != nil && named.MatchString(word) {
			return fmt.Sprintf("%q", cut(word, 60))
		}
	}
	return "it"
}

// readData reads the argument of -d: JSON text, @file, or - for stdin.
func (a *app) readData(arg string) ([]byte, error) {
	switch {
	case arg == "-":
		return a.readInput("-")
	case strings.HasPrefix(arg, "@"):
		return a.readInput(arg[1:])
	}
	return []byte(arg), nil
}

// readInput reads a file, or stdin for "-".
func (a *app) readInput(name string) ([]byte, error) {
	var r io.Reader = a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("%v", err)
		}
		defer f.Close()
		r = f
	}
	content, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, usagef("%v", err)
	}
	if len(content) > maxInput {
		return nil, usagef("%s is larger than %d MiB", name, maxInput>>20)
	}
	return content, nil
}

// quote returns text as a JSON string. It requires valid UTF-8, so that no character is replaced
// silently.
func quote(text string) (jsonrpc.Raw, error) {
	if !utf8.ValidString(text) {
		return nil, usagef("not valid UTF-8")
	}
	return jsontext.AppendQuote(nil, text)
}

func appendComma(list, value []byte) []byte {
	if list != nil {
		list = append(list, ',')
	}
	return append(list, value...)
}

// cut shortens text for display to at most n bytes of whole characters.
func cut(text string, n int) string { return harmless.Shorten(text, n) }
