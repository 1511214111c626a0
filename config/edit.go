package config

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// An Edit is the result of [Wrap] and [Unwrap].
type Edit struct {
	Text    []byte // the whole file after the edit; unchanged bytes keep their places and comments
	Changes []Change
}

// A Change describes what an [Edit] did with one server.
type Change struct {
	Server        string
	Before, After []string // the command lines; equal if Skipped
	Skipped       string   // why the server was not changed; "" if it was
}

// Changed returns the names of the changed servers.
func (e *Edit) Changed() (names []string) {
	for _, c := range e.Changes {
		if c.Skipped == "" {
			names = append(names, c.Server)
		}
	}
	return names
}

// An UnknownServerError names a server that a file does not contain.
type UnknownServerError struct {
	Server string
	Known  []string // the servers of the file
}

func (e *UnknownServerError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("there is no server %q: the file lists no servers", e.Server)
	}
	return fmt.Sprintf("there is no server %q; the file has %s", e.Server, strings.Join(e.Known, ", "))
}

// Wrap puts words in front of the commands of the named servers, or of all servers if servers is
// empty, in the text of a client's file: JSON, with or without comments and trailing commas, or
// TOML. prefix returns the words for a server: the absolute path of parley, "tap", its flags, and
// "--". Servers at an address and servers with such a prefix are skipped. Wrap changes only the
// bytes of these commands; comments, order and layout of the rest stay. Before it returns, it reads
// the result again and compares it with the original. Of the servers that ~/.claude.json has per
// project, it changes those of the project that contains the working directory.
//
// The errors are a [Problem] for a text that cannot be read, an [*UnknownServerError], and an error
// for YAML.
func Wrap(name string, text []byte, servers []string, prefix func(server string) []string) (*Edit, error) {
	return edit(name, text, servers, func(e *editor, server string, c commandLine) (after []string, skipped string) {
		switch words := prefix(server); {
		case c.tapped() >= 0:
			return nil, "it is recorded already"
		case len(words) == 0:
			return nil, "there is no prefix"
		default:
			e.wrap(c, words)
			return append(words, c.words...), ""
		}
	})
}

// Unwrap removes the prefix that [Wrap] added, also with other flags than today's. Like Wrap, it
// changes nothing else. Where Wrap had to add a list of arguments, an empty list remains.
func Unwrap(name string, text []byte, servers []string) (*Edit, error) {
	return edit(name, text, servers, func(e *editor, _ string, c commandLine) (after []string, skipped string) {
		n := c.tapped()
		if n < 0 {
			return nil, "it is not recorded"
		}
		e.unwrap(c, n)
		return c.words[n:], ""
	})
}

// Tapped returns the words that [Wrap] put in front of the commands in text, by the names of their
// servers. It returns nil for a text that cannot be read.
func Tapped(name string, text []byte) map[string][]string {
	language := languageOf(name, text)
	root, problem := language.parseStrictly(text)
	if problem != nil {
		return nil
	}
	found := make(map[string][]string)
	e := &editor{}
	for _, m := range serversOf(root) {
		if c, ok := e.commandLine(m.value); ok && c.tapped() > 0 {
			found[m.name] = c.words[:c.tapped()]
		}
	}
	return found
}

// Error makes a Problem an error.
func (p Problem) Error() string { return p.String() }

var (
	errYAML   = errors.New("files in YAML cannot be edited: change the command by hand")
	errEdited = errors.New("the edited file would differ in more than the commands: nothing was changed")
)

func withoutBOM(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

// edit calls change for the command of each selected server, applies the edits, and checks the
// result.
func edit(name string, text []byte, servers []string, change func(e *editor, server string, c commandLine) (after []string, skipped string)) (*Edit, error) {
	language := languageOf(name, text)
	if language == inYAML {
		return nil, errYAML
	}
	root, problem := language.parseStrictly(text)
	if problem != nil {
		return nil, *problem
	}
	plain := withoutBOM(text)
	e := &editor{text: plain, toml: language == inTOML}
	all := serversOf(root)
	for _, s := range servers {
		if !slices.ContainsFunc(all, func(m member) bool { return m.name == s }) {
			return nil, &UnknownServerError{s, namesOf(all)}
		}
	}
	out := &Edit{}
	for _, m := range all {
		if len(servers) > 0 && !slices.Contains(servers, m.name) {
			continue
		}
		c, ok := e.commandLine(m.value)
		done := Change{Server: m.name, Before: c.words, After: c.words}
		switch {
		case ok:
			after, skipped := change(e, m.name, c)
			if done.Skipped = skipped; skipped == "" {
				done.After = after
			}
		case m.value.get("command") != nil:
			done.Skipped = "its command is not a text"
		default:
			done.Skipped = "it has an address and no command"
		}
		out.Changes = append(out.Changes, done)
	}
	out.Text = append(text[:len(text)-len(plain):len(text)-len(plain)], e.apply()...)
	return out, verify(out, language, root)
}

// verify reads the edited text and compares it with the original: the changed commands must be as
// announced, and everything else must be equal.
func verify(out *Edit, language language, before *node) error {
	after, problem := language.parseStrictly(out.Text)
	if problem != nil {
		return errEdited
	}
	was, is := serversOf(before), serversOf(after)
	if len(was) != len(is) {
		return errEdited
	}
	e := &editor{}
	for i := range was {
		at := slices.IndexFunc(out.Changes, func(c Change) bool { return c.Server == was[i].name && c.Skipped == "" })
		if at < 0 {
			continue
		}
		c, ok := e.commandLine(is[i].value)
		if !ok || is[i].name != was[i].name || !slices.Equal(c.words, out.Changes[at].After) {
			return errEdited
		}
		c.forget()
		if c, ok = e.commandLine(was[i].value); ok {
			c.forget()
		}
	}
	if !equal(before, after) {
		return errEdited
	}
	return nil
}

// equal compares two values without their positions. Members with an empty list are ignored,
// because Unwrap may leave one.
func equal(a, b *node) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.kind != b.kind || a.text != b.text || len(a.items) != len(b.items) {
		return false
	}
	for i := range a.items {
		if !equal(a.items[i], b.items[i]) {
			return false
		}
	}
	x, y := slices.DeleteFunc(slices.Clone(a.members), emptyList), slices.DeleteFunc(slices.Clone(b.members), emptyList)
	return slices.EqualFunc(x, y, func(m, n member) bool { return m.name == n.name && equal(m.value, n.value) })
}

func emptyList(m member) bool {
	return m.value != nil && m.value.kind == isList && len(m.value.items) == 0
}

// serversOf returns the servers of a file, each name once: those of the project that contains the
// working directory, and those that belong to no project.
func serversOf(root *node) (list []member) {
	for _, t := range tablesOf(root, (*Options)(nil).project()) {
		if t.node.kind != isMap {
			continue
		}
		for _, m := range t.node.members {
			if m.value == nil || m.value.kind != isMap || slices.ContainsFunc(list, func(x member) bool { return x.name == m.name }) {
				continue
			}
			list = append(list, m)
		}
	}
	return list
}

func namesOf(list []member) (names []string) {
	for _, m := range list {
		names = append(names, m.name)
	}
	return names
}

// A commandLine is the command of a server with its arguments, as it is in a file.
type commandLine struct {
	words []string
	head  member // the command, or its path; without a value if list has all words (opencode)
	list  *node  // the arguments; nil without them
	owner *node  // the mapping that contains both
}

// forget removes the words, so that the rest of two files can be compared.
func (c *commandLine) forget() {
	if c.head.value != nil {
		c.head.value.text = ""
	}
	if c.list != nil {
		c.list.items = nil
	}
}

// tapped returns the number of words in front of the server's own command: the path of parley,
// "tap", flags and "--". It returns -1 if they are not there.
func (c *commandLine) tapped() int {
	if len(c.words) < 2 || c.words[1] != "tap" {
		return -1
	}
	program := strings.ToLower(path.Base(strings.ReplaceAll(c.words[0], `\`, "/")))
	end := slices.Index(c.words, "--") + 1
	if !strings.Contains(program, "parley") || end == 0 || end == len(c.words) {
		return -1
	}
	return end
}

// An editor collects changes of a text.
type editor struct {
	text    []byte
	toml    bool
	splices []splice
}

// A splice replaces the bytes from start to end.
type splice struct {
	start, end int
	text       string
}

// commandLine returns the command of a server. ok is false if it has none that can be edited.
func (e *editor) commandLine(server *node) (c commandLine, ok bool) {
	c.owner = server
	at := slices.IndexFunc(server.members, func(m member) bool { return m.name == "command" })
	if at < 0 {
		return c, false
	}
	c.head = server.members[at]
	switch command := c.head.value; command.kind {
	case isList:
		c.head, c.list = member{}, command
	case isMap: // older Zed
		at := slices.IndexFunc(command.members, func(m member) bool { return m.name == "path" })
		if at < 0 {
			return c, false
		}
		c.owner, c.head, c.list = command, command.members[at], command.get("args")
	default:
		c.list = server.get("args")
	}
	if c.head.value != nil {
		if c.head.value.kind != isText {
			return c, false
		}
		c.words = append(c.words, c.head.value.text)
	}
	if c.list != nil {
		if c.list.kind != isList {
			return c, false
		}
		for _, n := range c.list.items {
			if n.kind != isText {
				return c, false
			}
			c.words = append(c.words, n.text)
		}
	}
	return c, len(c.words) > 0
}

// wrap puts words in front of c.
func (e *editor) wrap(c commandLine, words []string) {
	var added []string // as they are in the text
	for _, w := range words {
		added = append(added, e.quote(w))
	}
	if c.head.value != nil {
		value := c.head.value
		added = append(added, string(e.text[value.start:value.end]))
		e.replace(value.start, value.end, added[0])
		added = added[1:]
	}
	switch {
	case c.list == nil:
		e.addArgs(c, "["+strings.Join(added, ", ")+"]")
	case len(c.list.items) == 0:
		e.replace(c.list.start+1, c.list.start+1, strings.Join(added, ", "))
	default:
		// One per line, if the others are.
		at, before := c.list.start+1, ""
		if space := e.text[at:c.list.items[0].start]; len(bytes.TrimSpace(space)) == 0 && bytes.IndexByte(space, '\n') >= 0 {
			before = string(space)
		}
		text := ""
		for _, word := range added {
			text += before + word + ","
			if before == "" {
				text += " "
			}
		}
		e.replace(at, at, text)
	}
}

// addArgs adds a member with arguments after the command.
func (e *editor) addArgs(c commandLine, list string) {
	value := c.head.value
	from := bytes.LastIndexByte(e.text[:c.head.start], '\n') + 1
	start := c.head.start - len(c.head.prefix)
	indent := string(e.text[from:max(from, start)])
	alone := strings.TrimSpace(indent) == ""
	newline := "\n"
	if from > 1 && e.text[from-2] == '\r' {
		newline = "\r\n"
	}
	switch {
	case e.toml && !c.owner.inline: // on the next line, after a comment
		end := len(e.text)
		if i := bytes.IndexByte(e.text[value.end:], '\n'); i >= 0 {
			end = value.end + i
		}
		if end > value.end && e.text[end-1] == '\r' {
			end--
			newline = "\r\n"
		}
		e.replace(end, end, newline+indent+c.head.prefix+"args = "+list)
	case e.toml:
		e.replace(value.end, value.end, ", "+c.head.prefix+"args = "+list)
	case alone && from > 0:
		e.replace(value.end, value.end, ","+newline+indent+`"args": `+list)
	default:
		e.replace(value.end, value.end, `, "args": `+list)
	}
}

// unwrap removes the first n words of c.
func (e *editor) unwrap(c commandLine, n int) {
	items := c.list.items
	gone := n // the number of items to remove
	if c.head.value != nil {
		command := items[n-1]
		e.replace(c.head.value.start, c.head.value.end, string(e.text[command.start:command.end]))
	}
	if gone < len(items) {
		e.replace(items[0].start, items[gone].start, "")
		return
	}
	end := items[gone-1].end
	rest := bytes.TrimLeft(e.text[end:c.list.end], " \t\r\n")
	if bytes.HasPrefix(rest, []byte(",")) {
		end = c.list.end - len(rest) + 1
	}
	e.replace(items[0].start, end, "")
}

func (e *editor) replace(start, end int, text string) {
	e.splices = append(e.splices, splice{start, end, text})
}

// quote returns a string as JSON, which is also valid TOML.
func (e *editor) quote(word string) string {
	return strings.ReplaceAll(string(jsonrpc.AppendString(nil, word)), "\x7f", `\u007F`)
}

// apply returns the text with all changes.
func (e *editor) apply() []byte {
	slices.SortStableFunc(e.splices, func(a, b splice) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, s := range e.splices {
		out = append(append(out, e.text[at:s.start]...), s.text...)
		at = s.end
	}
	return append(out, e.text[at:]...)
}
