package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
)

// maxInput bounds a file that is read for a param or a frame, in bytes.
const maxInput = 256 << 20

// named matches the words name=text, name:=json, name=@file and name:=@file.
var named = regexp.MustCompile(`(?s)^([A-Za-z_][A-Za-z0-9_.-]*)(:?=)(@?)(.*)$`)

// parseParams makes params of the words behind the method. No words make no params. A word that is JSON is a
// value by position; else name=… is a value by name; else it is a string by position. The two kinds do not mix.
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
			return nil, usagef("parameter %s is given twice", name)
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
		return nil, usagef("parameters are either all by position or all by name: write %s as JSON, such as \"a=b\" in double quotes, to make a string of a word with =", firstNamed(words))
	case values != nil:
		return jsonrpc.Raw("[" + string(values) + "]"), nil
	case members != nil:
		return jsonrpc.Raw("{" + string(members) + "}"), nil
	}
	return nil, nil
}

// namedValue is the value behind name= or name:=.
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
		return nil, fmt.Errorf("%q is no JSON: %w", cut(text, 60), err)
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

// readData reads what -d takes: JSON text, @file, or - for stdin.
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
		return nil, usagef("%s is longer than %d MiB", name, maxInput>>20)
	}
	return content, nil
}

// quote makes a JSON string of text, which must be UTF-8: a letter that was replaced in silence would be a lie.
func quote(text string) (jsonrpc.Raw, error) {
	if !utf8.ValidString(text) {
		return nil, usagef("it is no UTF-8 text")
	}
	return jsontext.AppendQuote(nil, text)
}

func appendComma(list, value []byte) []byte {
	if list != nil {
		list = append(list, ',')
	}
	return append(list, value...)
}

// cut shortens text for a message to people, to at most n bytes and whole letters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
