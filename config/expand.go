package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// minSecret is the minimum length of a value that is hidden. Shorter values occur in too many other
// texts.
const minSecret = 4

// maxSecretFile is the maximum number of bytes that ${file:…} reads.
const maxSecretFile = 64 << 10

// ExpandOptions configure [Expand]. The zero value is ready for use.
type ExpandOptions struct {
	// Lookup returns an environment variable. If nil, os.LookupEnv is used.
	Lookup func(name string) (string, bool)

	// ReadFile reads the file of ${file:…}. If nil, the file is read from disk, up to 64 KiB.
	ReadFile func(path string) ([]byte, error)

	// Dir is the base folder of relative paths in ${file:…}. The default is the current folder.
	Dir string

	// extra returns variables that only some files have. known is false for all other names.
	extra func(name string) (value string, set, known bool)
}

// An UnsetError reports a variable that is not set and has no default.
type UnsetError struct {
	Name string // name of the environment variable, or "file:" and the path
	Err  error  // why a file cannot be read, otherwise nil
}

func (e *UnsetError) Error() string {
	if e.Err != nil {
		return e.Name + " cannot be read: " + e.Err.Error()
	}
	return e.Name + " is not set"
}

func (e *UnsetError) Unwrap() error { return e.Err }

// Expand returns text with its variables replaced by their values, and those values that must not
// be shown: the content of files, and values whose names are names of secrets. It expands the
// following variables. All other text is unchanged, including a $ without a brace and a brace that
// is not closed.
//
//   - ${NAME} and ${env:NAME}: the environment variable.
//   - ${file:/path}: the content of the file without trailing white space.
//   - ${NAME:-default}, also with the prefixes env: and file: the default if the variable is not
//     set or empty, or if the file does not exist.
//
// If a variable is not set and has no default, Expand returns an [*UnsetError]. It does not expand
// values again.
func Expand(text string, o *ExpandOptions) (value string, secrets []string, err error) {
	var options ExpandOptions
	if o != nil {
		options = *o
	}
	var errs []error
	value = replaceVariables(text, func(inside string) string {
		v, secret, err := options.variable(inside)
		if err != nil {
			errs = append(errs, err)
			return "${" + inside + "}"
		}
		if secret && len(v) >= minSecret {
			secrets = append(secrets, v)
		}
		return v
	})
	return value, secrets, errors.Join(errs...)
}

// replaceVariables replaces each ${…}. An unclosed one is plain text.
func replaceVariables(text string, value func(inside string) string) string {
	var b strings.Builder
	rest := text
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			break
		}
		end := strings.IndexByte(rest[i:], '}')
		if end < 0 {
			break
		}
		b.WriteString(rest[:i])
		b.WriteString(value(rest[i+2 : i+end]))
		rest = rest[i+end+1:]
	}
	b.WriteString(rest)
	return b.String()
}

// variable returns the value of the text between ${ and }.
func (o *ExpandOptions) variable(inside string) (value string, secret bool, err error) {
	name, standard, hasStandard := strings.Cut(inside, ":-")
	value, secret, set, err := o.lookup(name)
	switch {
	case hasStandard && !set && (err == nil || errors.Is(err, fs.ErrNotExist)), hasStandard && set && value == "":
		return standard, false, nil
	case err != nil:
		return "", secret, err
	case !set:
		return "", secret, &UnsetError{Name: strings.TrimPrefix(name, "env:")}
	}
	return value, secret, nil
}

func (o *ExpandOptions) lookup(name string) (value string, secret, set bool, err error) {
	if o.extra != nil {
		if value, set, known := o.extra(name); known {
			return value, isSecret(name), set, nil
		}
	}
	if path, ok := strings.CutPrefix(name, "file:"); ok {
		content, err := o.read(path)
		if err != nil {
			return "", true, false, &UnsetError{Name: name, Err: err}
		}
		return strings.TrimRight(string(content), " \t\r\n"), true, true, nil
	}
	name, plain := strings.CutPrefix(name, "env:")
	if !plain && !isVariable(name) || name == "" {
		return "", false, false, fmt.Errorf("${%s} is not a variable", name)
	}
	find := o.Lookup
	if find == nil {
		find = os.LookupEnv
	}
	value, set = find(name)
	return value, isSecret(name), set, nil
}

func (o *ExpandOptions) read(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("missing path")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.Dir, path)
	}
	if o.ReadFile != nil {
		content, err := o.ReadFile(path)
		return content, bare(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, bare(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	switch {
	case err != nil:
		return nil, bare(err)
	case len(content) > maxSecretFile:
		return nil, fmt.Errorf("it has more than %d bytes", maxSecretFile)
	}
	return content, nil
}

// bare returns the error of a file without the path, which the surrounding text contains.
func bare(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// expand replaces the variables of a text as [Expand] does, including those of the program that the
// file belongs to.
func (f *field) expand(text string, secret bool) string {
	if f.isOpenCode() {
		text = openCode.Replace(text)
	}
	value := replaceVariables(text, func(inside string) string { return f.variable(inside, secret) })
	if secret && len(value) >= minSecret {
		f.e.Secrets = append(f.e.Secrets, secretPart(value))
	}
	return value
}

// isOpenCode reports whether the field is in a file of opencode, which has its own syntax.
func (f *field) isOpenCode() bool {
	return strings.HasPrefix(f.path, "mcp.") && !strings.HasPrefix(f.path, "mcp.servers.")
}

// expandOptions returns the options with which the variables of the field are expanded.
func (f *field) expandOptions() *ExpandOptions {
	o := &ExpandOptions{Lookup: f.r.options.lookup, Dir: f.r.dir, extra: f.special}
	if f.r.options != nil {
		o.ReadFile = f.r.options.ReadFile
	}
	return o
}

// openCode converts the variable syntax of opencode.
var openCode = strings.NewReplacer("{env:", "${env:", "${env:", "${env:")

// secretPart returns a value without a public prefix such as Bearer.
func secretPart(value string) string {
	for _, scheme := range []string{"Bearer ", "bearer ", "Basic ", "token "} {
		if rest, ok := strings.CutPrefix(value, scheme); ok && len(rest) >= minSecret {
			return rest
		}
	}
	return value
}

// variable returns the value of the text between ${ and }.
func (f *field) variable(inside string, secret bool) string {
	value, private, err := f.expandOptions().variable(inside)
	name, _, _ := strings.Cut(inside, ":-")
	if unset, ok := errors.AsType[*UnsetError](err); ok {
		shown, note := unset.Name, ""
		if id, ok := strings.CutPrefix(name, "input:"); ok {
			shown, note = inputVariable(id), "; it replaces ${"+name+"}, which VS Code asks for"
			unset = &UnsetError{Name: shown}
		}
		f.r.problem(f.n.line, f.n.column, f.path, "%s%s", unset, note)
		if !slices.Contains(f.e.Missing, shown) {
			f.e.Missing = append(f.e.Missing, shown)
		}
		return "${" + inside + "}" // for display only; the entry cannot be used
	}
	if err != nil {
		f.fail("%v", err)
		return ""
	}
	if secret = secret || private || strings.HasPrefix(name, "input:"); secret && len(value) >= minSecret {
		f.e.Secrets = append(f.e.Secrets, value)
	}
	return value
}

// special returns the variables of editors.
func (f *field) special(name string) (value string, set, known bool) {
	id, isInput := strings.CutPrefix(name, "input:")
	switch {
	case isInput:
		// VS Code prompts its user. Here the value comes from an environment variable, or from the
		// default in the file.
		value, set = f.r.options.lookup(inputVariable(id))
		if in := f.r.inputs[id].get("default"); !set && in != nil && in.kind == isText {
			value, set = in.text, true
		}
		return value, set, true
	case name == "workspaceFolder", name == "workspaceRoot":
		return f.r.dir, true, true
	case name == "userHome":
		if value, set = f.r.options.lookup("HOME"); !set {
			value, set = f.r.options.lookup("USERPROFILE")
		}
		return value, set, true
	}
	return "", false, false
}

// IsSecret reports whether a name, such as that of a header, a member or an environment variable,
// belongs to a value that must not be shown.
func IsSecret(name string) bool { return isSecret(name) }

// inputVariable returns the variable that provides ${input:id}: PARLEY_INPUT_ and the ID in
// capitals.
func inputVariable(id string) string {
	return "PARLEY_INPUT_" + strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			return c
		}
		return '_'
	}, id)
}

func isVariable(name string) bool {
	for i, c := range name {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
