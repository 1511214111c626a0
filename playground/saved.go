package playground

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
	"github.com/da1ed7bb/parley/playground/suite"
)

// savedSuffix is the suffix of files with saved calls. savedKind identifies the content of such a
// file.
const (
	savedSuffix = ".call.json"
	maxSaved    = 1000
	savedBytes  = 4 << 20
)

// A Saved is a call that is stored in a file, with assertions about its response.
type Saved struct {
	Name      string        `json:"name"`
	Target    string        `json:"target"`
	Text      string        `json:"text"`
	Headers   []headerField `json:"headers,omitempty"`
	Variables Variables     `json:"variables,omitempty"`
	Asserts   []Assert      `json:"asserts,omitempty"`
	Updated   time.Time     `json:"updated,omitzero"`
}

// Variables are the values for {{name}}. In a file, a value is a text or any other JSON value,
// which is inserted unchanged.
type Variables map[string]string

// UnmarshalJSON reads variables from a file.
func (v *Variables) UnmarshalJSON(text []byte) error {
	if schemaview.KindOf(text) != "object" {
		return fmt.Errorf("variables must be an object")
	}
	*v = make(Variables)
	for name, value := range jsonrpc.Raw(text).Members() {
		(*v)[string(name)] = suite.ValueOf(value).Text
	}
	return nil
}

// An Assert is a condition that the response must meet.
type Assert = suite.Assert

// A savedView is a saved call together with the current state of its file.
type savedView struct {
	Saved
	Asserts []assertView `json:"asserts"`
	File    string       `json:"file"`
	Stamp   string       `json:"stamp"` // changes with the file

	// Environments are the values that replace variables, by environment.
	Environments map[string]Variables `json:"environments,omitempty"`
}

// An assertView is an assertion as the page receives it. The value is also sent as text, because
// JavaScript would round a large number.
type assertView struct {
	Assert
	Raw string `json:"raw,omitzero"` // the JSON text of the value; if set, it takes precedence
}

// assertsOf converts the page's assertions.
func assertsOf(views []assertView) ([]Assert, error) {
	list := make([]Assert, 0, len(views))
	for i, v := range views {
		if v.Raw != "" {
			value, err := jsonrpc.ParseRaw([]byte(v.Raw))
			if err != nil {
				return nil, badParam(fmt.Sprintf("/asserts/%d/raw", i), "the value is not JSON")
			}
			v.Value = value
		}
		list = append(list, v.Assert)
	}
	return list, checkAsserts(list)
}

type savedResult struct {
	Folder   string         `json:"folder"`
	Calls    []savedView    `json:"calls"`
	Suites   []suiteView    `json:"suites"`
	Problems []savedProblem `json:"problems"`

	// Environments are the names of all environments of the calls and suites, sorted.
	Environments []string `json:"environments"`
}

// A savedProblem is a file that does not contain a valid saved call.
type savedProblem struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// savedList reads all files of the folder, including those written by hand, and the suites. If two
// have the same name, the first file counts.
func (p *Playground) savedList(context.Context, none) (savedResult, error) {
	out, err := p.savedCalls()
	if err != nil {
		return out, err
	}
	p.addSuites(&out)
	return out, nil
}

// savedCalls reads the files of saved calls.
func (p *Playground) savedCalls() (savedResult, error) {
	out := savedResult{Folder: p.options.Folder, Calls: []savedView{}, Suites: []suiteView{}, Problems: []savedProblem{}, Environments: []string{}}
	names, err := filepath.Glob(filepath.Join(globEscape(p.options.Folder), "*"+savedSuffix))
	if err != nil {
		return out, badParam("", "cannot read the folder of saved calls")
	}
	seen := make(map[string]string)
	for _, name := range names[:min(len(names), maxSaved)] {
		s, err := readSaved(name)
		if first := seen[s.Name]; err == nil && first != "" {
			err = fmt.Errorf("%s already has the name %q", filepath.Base(first), s.Name)
		}
		if err != nil {
			out.Problems = append(out.Problems, savedProblem{name, err.Error()})
			continue
		}
		seen[s.Name] = name
		out.Calls = append(out.Calls, s)
	}
	slices.SortFunc(out.Calls, func(a, b savedView) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// findSaved finds a saved call by its name, independent of its file name.
func (p *Playground) findSaved(name string) (savedView, bool, error) {
	if s, err := readSaved(p.savedFile(name)); err == nil && s.Name == name {
		return s, true, nil
	}
	list, err := p.savedCalls()
	if err != nil {
		return savedView{}, false, err
	}
	if i := slices.IndexFunc(list.Calls, func(s savedView) bool { return s.Name == name }); i >= 0 {
		return list.Calls[i], true, nil
	}
	return savedView{}, false, badParam("/name", "unknown saved call %q", name)
}

func globEscape(dir string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// savedOf returns a call of a file as the page shows it.
func savedOf(c *suite.Call) Saved {
	s := Saved{Name: c.Name, Target: c.Target, Text: c.Message(), Headers: c.Headers, Asserts: c.Asserts, Updated: c.Updated}
	if c.Variables != nil {
		s.Variables = variablesOf(c.Variables)
	}
	return s
}

// variablesOf returns the texts of values.
func variablesOf(values suite.Values) Variables {
	v := make(Variables)
	for name, value := range values {
		v[name] = value.Text
	}
	return v
}

func readSaved(name string) (savedView, error) {
	s := savedView{File: name}
	text, err := os.ReadFile(name)
	if err != nil {
		return s, err
	}
	if len(text) > savedBytes {
		return s, fmt.Errorf("it has %d bytes; the limit for a saved call is %d", len(text), savedBytes)
	}
	call, err := suite.ParseCall(text)
	if err != nil {
		return s, err
	}
	s.Saved = savedOf(call)
	s.Environments = environmentsOf(call.Environments, nil, variablesOf)
	if s.Name == "" {
		s.Name = strings.TrimSuffix(filepath.Base(name), savedSuffix)
	}
	sum := sha256.Sum256(text)
	s.Stamp = hex.EncodeToString(sum[:8])
	s.Asserts = []assertView{}
	for _, a := range s.Saved.Asserts {
		s.Asserts = append(s.Asserts, assertView{a, string(a.Value)})
	}
	return s, checkAsserts(s.Saved.Asserts)
}

// savedFile returns the file for a name: readable, and different for different names on every
// system.
func (p *Playground) savedFile(name string) string {
	readable := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) && r < 128 || unicode.IsDigit(r) && r < 128 {
			return unicode.ToLower(r)
		}
		return '-'
	}, name)
	readable = strings.Trim(regexp.MustCompile(`-+`).ReplaceAllString(readable, "-"), "-")
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(p.options.Folder, orDefault(readable[:min(len(readable), 40)], "call")+"-"+hex.EncodeToString(sum[:4])+savedSuffix)
}

type savedParams struct {
	Name      string        `json:"name"`
	Target    string        `json:"target,omitzero"`
	Text      string        `json:"text,omitzero"`
	Headers   []headerField `json:"headers,omitempty"`
	Variables Variables     `json:"variables,omitempty"`
	Asserts   []assertView  `json:"asserts,omitempty"`
	Was       string        `json:"was,omitzero"` // the previous name of an existing call
	// Stamp identifies the version of the file that was read. A file that was changed since is not
	// overwritten.
	Stamp   string `json:"stamp,omitzero"`
	Replace bool   `json:"replace,omitzero"` // overwrite another call of that name
}

type fileResult struct {
	File  string `json:"file"`
	Stamp string `json:"stamp"`
}

// savedSave writes a call into the file it was read from, or a new one. Other content of the file
// is preserved, in its order. Headers that contain secrets are not written.
func (p *Playground) savedSave(_ context.Context, in savedParams) (fileResult, error) {
	if strings.TrimSpace(in.Name) == "" || len(in.Name) > 200 {
		return fileResult{}, badParam("/name", "a saved call needs a name of at most 200 bytes")
	}
	if len(in.Text) > savedBytes/2 {
		return fileResult{}, badParam("/text", "the message has %d bytes; the limit for a saved call is %d", len(in.Text), savedBytes/2)
	}
	for name := range in.Variables {
		if !suite.IsVariable(name) {
			return fileResult{}, badParam("/variables", "%q is not a valid variable name: use letters, digits, and _ . -", name)
		}
	}
	asserts, err := assertsOf(in.Asserts)
	if err != nil {
		return fileResult{}, err
	}
	p.saving.Lock()
	defer p.saving.Unlock()
	was, found, err := p.findSaved(orDefault(in.Was, in.Name))
	switch {
	case !found && in.Was != "":
		return fileResult{}, err
	case found && in.Was == "" && !in.Replace:
		return fileResult{}, badParam("/name", "a saved call %q already exists", in.Name)
	case found && in.Stamp != "" && in.Stamp != was.Stamp:
		return fileResult{}, badParam("/stamp", "%s has changed; open the call again", filepath.Base(was.File))
	}
	if in.Was != "" && in.Was != in.Name {
		if _, other, _ := p.findSaved(in.Name); other {
			return fileResult{}, badParam("/name", "a saved call %q already exists", in.Name)
		}
	}
	file := p.savedFile(in.Name)
	var before []byte
	if found {
		file = was.File
		if before, err = os.ReadFile(file); err != nil {
			return fileResult{}, unwritten(err)
		}
	}
	in.Headers = slices.DeleteFunc(in.Headers, func(h headerField) bool {
		mine := func(x headerField) bool {
			return x.Name == h.Name && x.Value != nil && h.Value != nil && *x.Value == *h.Value
		}
		// A secret that was already in the file is written.
		return isSecretHeader(h.Name) && !slices.ContainsFunc(was.Headers, mine)
	})
	call := Saved{Name: in.Name, Target: in.Target, Text: in.Text, Headers: in.Headers, Variables: in.Variables, Asserts: asserts}
	if !found || !was.Updated.IsZero() {
		call.Updated = time.Now().UTC().Truncate(time.Second)
	}
	text, err := mergeSaved(before, call)
	if err != nil {
		return fileResult{}, badParam("", "%v", err)
	}
	if err := os.MkdirAll(p.options.Folder, 0o700); err != nil {
		return fileResult{}, unwritten(err)
	}
	if err := private.Write(file, text); err != nil {
		return fileResult{}, unwritten(err)
	}
	sum := sha256.Sum256(text)
	return fileResult{file, hex.EncodeToString(sum[:8])}, nil
}

// unwritten returns the error for a call that could not be written to disk (-31009).
func unwritten(err error) error {
	reason, retry := "storage_failed", false
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		reason, retry = "storage_full", true
	}
	text := err.Error()
	if where, ok := errors.AsType[*fs.PathError](err); ok {
		text = where.Err.Error() // without the path, which the page need not see
	} else if where, ok := errors.AsType[*os.LinkError](err); ok {
		text = where.Err.Error()
	}
	// The value can always be encoded.
	data, _ := jsonrpc.AppendValue(nil, map[string]any{"reason": reason, "retryable": retry})
	return &jsonrpc.Error{Code: jsonrpc.CodeStorage, Message: "cannot save the call: " + text, Data: data}
}

type nameParams struct {
	Name string `json:"name"`
}

func (p *Playground) savedDelete(_ context.Context, in nameParams) (none, error) {
	p.saving.Lock()
	defer p.saving.Unlock()
	s, _, err := p.findSaved(in.Name)
	if err != nil {
		return none{}, err
	}
	if err := os.Remove(s.File); err != nil {
		return none{}, badParam("/name", "%v", err)
	}
	return none{}, nil
}
