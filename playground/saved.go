package playground

import (
	"bytes"
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
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/capture"
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
	Name      string            `json:"name"`
	Target    string            `json:"target"`
	Text      string            `json:"text"`
	Headers   []headerField     `json:"headers,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	Asserts   []Assert          `json:"asserts,omitempty"`
	Updated   time.Time         `json:"updated,omitzero"`
}

// An Assert is something that must hold for the answer.
type Assert struct {
	Path  string      `json:"path"` // $.result.items[0].name
	Is    string      `json:"is"`   // exists, missing, equals, matches, less, more
	Value jsonrpc.Raw `json:"value,omitzero"`
}

type savedResult struct {
	Folder string  `json:"folder"`
	Calls  []Saved `json:"calls"`
}

func (p *Playground) savedList(context.Context, none) (savedResult, error) {
	out := savedResult{Folder: p.options.Folder, Calls: []Saved{}}
	names, err := filepath.Glob(filepath.Join(globEscape(p.options.Folder), "*"+savedSuffix))
	if err != nil {
		return out, badParam("", "the folder of saved calls cannot be read")
	}
	for _, name := range names[:min(len(names), maxSaved)] {
		if s, err := readSaved(name); err == nil { // somebody else's file is left alone
			out.Calls = append(out.Calls, s)
		}
	}
	slices.SortFunc(out.Calls, func(a, b Saved) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func globEscape(dir string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

func readSaved(name string) (Saved, error) {
	var s Saved
	text, err := os.ReadFile(name)
	if err != nil {
		return s, err
	}
	if len(text) > savedBytes {
		return s, fmt.Errorf("%s is too long", name)
	}
	err = json.Unmarshal(text, &s)
	return s, err
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

type fileResult struct {
	File string `json:"file"`
}

// savedSave writes a call into its file. Headers that hold secrets are not written.
func (p *Playground) savedSave(_ context.Context, in Saved) (fileResult, error) {
	if strings.TrimSpace(in.Name) == "" || len(in.Name) > 200 {
		return fileResult{}, badParam("/name", "a saved call needs a name of at most 200 bytes")
	}
	if len(in.Text) > savedBytes/2 {
		return fileResult{}, badParam("/text", "that is too long to be saved")
	}
	for i, a := range in.Asserts {
		if _, err := readPath(a.Path); err != nil {
			return fileResult{}, badParam(fmt.Sprintf("/asserts/%d/path", i), "%v", err)
		}
	}
	in.Headers = slices.DeleteFunc(in.Headers, func(h headerField) bool { return isSecretHeader(h.Name) })
	in.Updated = time.Now().UTC().Truncate(time.Second)
	text, err := json.Marshal(&in, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return fileResult{}, badParam("", "%v", err)
	}
	if err := os.MkdirAll(p.options.Folder, 0o700); err != nil {
		return fileResult{}, badParam("", "%v", err)
	}
	name := p.savedFile(in.Name)
	if err := writeFile(name, append(text, '\n')); err != nil {
		return fileResult{}, badParam("", "%v", err)
	}
	return fileResult{name}, nil
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
	if err := os.Remove(p.savedFile(in.Name)); err != nil {
		return none{}, badParam("/name", "there is no saved call %q", in.Name)
	}
	return none{}, nil
}

type runParams struct {
	Name      string            `json:"name"`
	Target    string            `json:"target,omitzero"`
	Variables map[string]string `json:"variables,omitempty"`
}

type runResult struct {
	sendResult
	Text    string         `json:"text"`
	Results []assertResult `json:"results"`
	OK      bool           `json:"ok"`
}

type assertResult struct {
	Assert int         `json:"assert"`
	OK     bool        `json:"ok"`
	Got    jsonrpc.Raw `json:"got,omitzero"`
	Text   string      `json:"text"`
}

// savedRun sends a saved call and holds its answer against what it has to be.
func (p *Playground) savedRun(ctx context.Context, in runParams) (runResult, error) {
	s, err := readSaved(p.savedFile(in.Name))
	if err != nil {
		return runResult{}, badParam("/name", "there is no saved call %q", in.Name)
	}
	text := s.Text
	for name, value := range s.Variables {
		if given, ok := in.Variables[name]; ok {
			value = given
		}
		text = strings.ReplaceAll(text, "{{"+name+"}}", value)
	}
	header, err := headerOf(s.Headers)
	if err != nil {
		return runResult{}, err
	}
	out := runResult{Text: text, Results: []assertResult{}, OK: true}
	out.sendResult, err = p.send(ctx, orDefault(in.Target, s.Target), outgoing{[]byte(text), header, false}, true)
	if err != nil {
		return out, err
	}
	var answer []byte
	if at, err := capture.ParseRef(out.Answer); err == nil {
		answer, _ = p.rec.Payload(at) // one that is not kept fits no assertion
	}
	for i, a := range s.Asserts {
		r := a.hold(answer)
		r.Assert = i
		out.Results = append(out.Results, r)
		out.OK = out.OK && r.OK
	}
	return out, nil
}

// hold tells whether the assertion is true of an answer.
func (a *Assert) hold(answer []byte) assertResult {
	path, err := readPath(a.Path)
	if err != nil {
		return assertResult{Text: err.Error()}
	}
	got := path.find(jsonrpc.Raw(bytes.TrimSpace(answer)))
	r := assertResult{Got: got}
	switch a.Is {
	case "exists":
		r.OK = got != nil
	case "missing":
		r.OK = got == nil
	case "equals":
		r.OK = got != nil && len(a.Value) > 0 && sameValue(a.Value, got)
	case "matches":
		var pattern, text string
		if a.Value.Decode(&pattern) != nil || len(pattern) > 1000 {
			return assertResult{Got: got, Text: "the pattern is no text"}
		}
		expression, err := regexp.Compile(pattern)
		if err != nil {
			return assertResult{Got: got, Text: "the pattern is no regular expression"}
		}
		if got.Decode(&text) != nil {
			text = string(got)
		}
		r.OK = got != nil && expression.MatchString(text)
	case "less", "more":
		x, ok := number(got)
		y, also := number(a.Value)
		r.OK = ok && also && len(got) > 0 && (x.Cmp(y) < 0) == (a.Is == "less") && x.Cmp(y) != 0
	default:
		return assertResult{Got: got, Text: "is: exists, missing, equals, matches, less or more"}
	}
	is := map[bool]string{true: "holds", false: "does not hold"}[r.OK]
	r.Text = strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Path, a.Is, a.Value)) + ": " + is
	if !r.OK && got == nil {
		r.Text += "; there is nothing"
	}
	return r
}

// A jsonPath leads into an answer: names and indexes.
type jsonPath []any

var pathStep = regexp.MustCompile(`^(?:\.([A-Za-z0-9_$-]+)|\[(\d{1,9})\]|\["((?:[^"\\]|\\.)*)"\])`)

func readPath(text string) (jsonPath, error) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok {
		return nil, fmt.Errorf("a path begins with $: $.result.name")
	}
	p := jsonPath{}
	for rest != "" {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("%q is no step of a path", rest)
		}
		rest = rest[len(m[0]):]
		switch {
		case m[2] != "":
			n := 0
			for _, c := range m[2] {
				n = n*10 + int(c-'0')
			}
			p = append(p, n)
		case m[1] != "":
			p = append(p, m[1])
		default:
			p = append(p, strings.ReplaceAll(m[3], `\"`, `"`))
		}
	}
	return p, nil
}

func (p jsonPath) find(value jsonrpc.Raw) jsonrpc.Raw {
	for _, step := range p {
		var next jsonrpc.Raw
		switch step := step.(type) {
		case string:
			members(value, func(name string, v jsonrpc.Raw) {
				if name == step {
					next = v
				}
			})
		case int:
			if list := elements(value); step < len(list) {
				next = list[step]
			}
		}
		if value = next; value == nil {
			return nil
		}
	}
	if len(value) == 0 {
		return nil
	}
	return value
}
