package config

import (
	"slices"
	"strings"
)

// minSecret is what a value must have to be kept from eyes: what is shorter is in too many other texts.
const minSecret = 4

// expand fills in the variables of a text. A variable is ${…} and nothing else; one that is not closed is text.
func (f *field) expand(text string, secret bool) string {
	if strings.HasPrefix(f.path, "mcp.") && !strings.HasPrefix(f.path, "mcp.servers.") {
		text = openCode.Replace(text)
	}
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
		b.WriteString(f.variable(rest[i+2:i+end], secret))
		rest = rest[i+end+1:]
	}
	b.WriteString(rest)
	value := b.String()
	if secret && len(value) >= minSecret {
		f.e.Secrets = append(f.e.Secrets, secretPart(value))
	}
	return value
}

// openCode writes variables in its own way.
var openCode = strings.NewReplacer("{env:", "${env:", "${env:", "${env:")

// secretPart is a value without the word in front that everybody knows.
func secretPart(value string) string {
	for _, scheme := range []string{"Bearer ", "bearer ", "Basic ", "token "} {
		if rest, ok := strings.CutPrefix(value, scheme); ok && len(rest) >= minSecret {
			return rest
		}
	}
	return value
}

// variable is the value of what stands between ${ and }.
func (f *field) variable(inside string, secret bool) string {
	name, standard, hasStandard := strings.Cut(inside, ":-")
	var value string
	var ok bool
	shown := name
	switch {
	case strings.HasPrefix(name, "env:"):
		shown = strings.TrimPrefix(name, "env:")
		value, ok = f.r.options.lookup(shown)
	case strings.HasPrefix(name, "input:"):
		// VS Code asks its user. Here it is a variable of the environment, or what the file has for those who say nothing.
		shown = inputVariable(strings.TrimPrefix(name, "input:"))
		value, ok = f.r.options.lookup(shown)
		if in := f.r.inputs[strings.TrimPrefix(name, "input:")].get("default"); !ok && in != nil && in.kind == isText {
			value, ok = in.text, true
		}
		secret = true
	case name == "workspaceFolder", name == "workspaceRoot":
		return f.r.dir
	case name == "userHome":
		if value, ok = f.r.options.lookup("HOME"); !ok {
			value, ok = f.r.options.lookup("USERPROFILE")
		}
	case !isVariable(name):
		f.fail("${%s} names no variable", name)
		return ""
	default:
		value, ok = f.r.options.lookup(name)
	}
	if hasStandard && (!ok || value == "") {
		return standard
	}
	if !ok {
		note := ""
		if strings.HasPrefix(name, "input:") {
			note = "; it stands for ${" + name + "}, which VS Code asks for"
		}
		f.r.problem(f.n.line, f.n.column, f.path, "%s is not set%s", shown, note)
		if !slices.Contains(f.e.Missing, shown) {
			f.e.Missing = append(f.e.Missing, shown)
		}
		return "${" + inside + "}" // for people; the entry cannot be used
	}
	if (secret || isSecret(shown)) && len(value) >= minSecret {
		f.e.Secrets = append(f.e.Secrets, value)
	}
	return value
}

// inputVariable is the variable that answers what ${input:id} asks for: PARLEY_INPUT_ and the id in capitals.
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
