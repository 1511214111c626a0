package playground

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// savedSuffix ends the names of files with saved calls, and savedKind says what such a file is.
const (
	savedSuffix = ".call.json"
	maxSaved    = 1000
	savedBytes  = 4 << 20
)

// A Saved is a call that is kept in a file, with what its answer has to be.
type Saved struct {
	Name      string        `json:"name"`
	Target    string        `json:"target"`
	Text      string        `json:"text"`
	Headers   []headerField `json:"headers,omitempty"`
	Variables Variables     `json:"variables,omitempty"`
	Asserts   []Assert      `json:"asserts,omitempty"`
	Updated   time.Time     `json:"updated,omitzero"`
}

// Variables are what is filled in for {{name}}. In a file a value may be a text, or any other JSON, which is filled in as it stands.
type Variables map[string]string

// UnmarshalJSON reads variables from a file.
func (v *Variables) UnmarshalJSON(text []byte) error {
	if kindOf(text) != "object" {
		return fmt.Errorf("variables are an object")
	}
	*v = make(Variables)
	members(text, func(name string, value jsonrpc.Raw) { (*v)[name] = variableText(value) })
	return nil
}

// An Assert is something that must hold for the answer.
type Assert struct {
	Path  string      `json:"path"` // $.result.items[0].name
	Is    string      `json:"is"`   // exists, missing, equals, matches, less, more
	Value jsonrpc.Raw `json:"value,omitzero"`
}

// A savedView is a saved call with its file, as it is now.
type savedView struct {
	Saved
	Asserts []assertView `json:"asserts"`
	File    string       `json:"file"`
	Stamp   string       `json:"stamp"` // changes with the file
}

// An assertView is an assertion as the page has it: JavaScript would round a large number.
type assertView struct {
	Assert
	Raw string `json:"raw,omitzero"` // the JSON text of the value; it counts if it is there
}

// assertsOf are the assertions that the page means.
func assertsOf(views []assertView) ([]Assert, error) {
	list := make([]Assert, 0, len(views))
	for i, v := range views {
		if v.Raw != "" {
			value, err := jsonrpc.ParseRaw([]byte(v.Raw))
			if err != nil {
				return nil, badParam(fmt.Sprintf("/asserts/%d/raw", i), "the value is no JSON")
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
	Problems []savedProblem `json:"problems"`
}

// A savedProblem is a file that is no saved call.
type savedProblem struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// savedList reads all files of the folder, those that people wrote by hand too. Of two with one name the first file counts.
func (p *Playground) savedList(context.Context, none) (savedResult, error) {
	out := savedResult{Folder: p.options.Folder, Calls: []savedView{}, Problems: []savedProblem{}}
	names, err := filepath.Glob(filepath.Join(globEscape(p.options.Folder), "*"+savedSuffix))
	if err != nil {
		return out, badParam("", "the folder of saved calls cannot be read")
	}
	seen := make(map[string]string)
	for _, name := range names[:min(len(names), maxSaved)] {
		s, err := readSaved(name)
		if first := seen[s.Name]; err == nil && first != "" {
			err = fmt.Errorf("%s has the name %q already", filepath.Base(first), s.Name)
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

// findSaved finds a saved call by its name, whatever its file is called.
func (p *Playground) findSaved(name string) (savedView, bool, error) {
	if s, err := readSaved(p.savedFile(name)); err == nil && s.Name == name {
		return s, true, nil
	}
	list, err := p.savedList(context.Background(), none{})
	if err != nil {
		return savedView{}, false, err
	}
	if i := slices.IndexFunc(list.Calls, func(s savedView) bool { return s.Name == name }); i >= 0 {
		return list.Calls[i], true, nil
	}
	return savedView{}, false, badParam("/name", "there is no saved call %q", name)
}

func globEscape(dir string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

func readSaved(name string) (savedView, error) {
	s := savedView{File: name}
	text, err := os.ReadFile(name)
	if err != nil {
		return s, err
	}
	if len(text) > savedBytes {
		return s, fmt.Errorf("it has %d bytes; a saved call has up to %d", len(text), savedBytes)
	}
	value, err := parseSaved(text)
	if err != nil {
		return s, err
	}
	value.Standardize()
	if err := json.Unmarshal(value.Pack(), &s.Saved); err != nil {
		return s, err
	}
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

// savedFile is the file of a name: readable, and different for different names on every system.
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
	Was       string        `json:"was,omitzero"`     // the name until now, of a call that is there
	Stamp     string        `json:"stamp,omitzero"`   // of the file that was read; one that somebody has changed meanwhile is kept
	Replace   bool          `json:"replace,omitzero"` // another call of that name
}

type fileResult struct {
	File  string `json:"file"`
	Stamp string `json:"stamp"`
}

// savedSave writes a call into its file: the one it was read from, or a new one. What else stands in that file stays there, and in
// its order. Headers that hold secrets are not written.
func (p *Playground) savedSave(_ context.Context, in savedParams) (fileResult, error) {
	if strings.TrimSpace(in.Name) == "" || len(in.Name) > 200 {
		return fileResult{}, badParam("/name", "a saved call needs a name of at most 200 bytes")
	}
	if len(in.Text) > savedBytes/2 {
		return fileResult{}, badParam("/text", "that is too long to be saved")
	}
	for name := range in.Variables {
		if !variableName.MatchString("{{" + name + "}}") {
			return fileResult{}, badParam("/variables", "%q is no name of a variable: letters, digits, and _ . -", name)
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
		return fileResult{}, badParam("/name", "there is a saved call %q already", in.Name)
	case found && in.Stamp != "" && in.Stamp != was.Stamp:
		return fileResult{}, badParam("/stamp", "%s was changed meanwhile; open the call again", filepath.Base(was.File))
	}
	if in.Was != "" && in.Was != in.Name {
		if _, other, _ := p.findSaved(in.Name); other {
			return fileResult{}, badParam("/name", "there is a saved call %q already", in.Name)
		}
	}
	file := p.savedFile(in.Name)
	var before []byte
	if found {
		file = was.File
		if before, err = os.ReadFile(file); err != nil {
			return fileResult{}, badParam("", "%v", err)
		}
	}
	in.Headers = slices.DeleteFunc(in.Headers, func(h headerField) bool {
		mine := func(x headerField) bool {
			return x.Name == h.Name && x.Value != nil && h.Value != nil && *x.Value == *h.Value
		}
		return isSecretHeader(h.Name) && !slices.ContainsFunc(was.Headers, mine) // somebody wrote it into the file
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
		return fileResult{}, badParam("", "%v", err)
	}
	if err := writeFile(file, text); err != nil {
		return fileResult{}, badParam("", "%v", err)
	}
	sum := sha256.Sum256(text)
	return fileResult{file, hex.EncodeToString(sum[:8])}, nil
}

// writeFile replaces a file as a whole.
func writeFile(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".parley-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // err says what went wrong
	}
	return err
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
