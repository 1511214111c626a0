// Package copyas converts a message to a command line or a program that runs unchanged and sends
// the same message.
package copyas

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A Message is a message to be copied. Its methods return it as a command line or a program.
type Message struct {
	to      Target
	text    []byte
	headers [][2]string
	secrets bool

	target parley.Target // zero if the address is invalid
	one    bool          // one JSON-RPC 2.0 request or notification without additional members
	id     string        // the request's ID as JSON; "" for a notification
	method string
	params jsonrpc.Raw
}

// A Target is where a message is sent: an address or a program.
type Target struct {
	Address string
	Command []string
	Dir     string   // the folder in which the program starts; "" for the current one
	Secrets []string // texts that are not shown
	Plain   bool     // plain JSON-RPC, to which a client may be dialled
}

// New parses a message and its target. headers have a secret value replaced by "$" and the name of
// an environment variable, unless secrets is set.
func New(t Target, text []byte, headers [][2]string, secrets bool) *Message {
	m := &Message{to: t, text: text, headers: headers, secrets: secrets}
	m.parse()
	return m
}

// parse sets the fields that depend on the text and the target.
func (m *Message) parse() {
	if len(m.to.Command) == 0 {
		m.target, _ = parley.ParseTarget(m.to.Address) // the zero value means an invalid address
	}
	object, err := jsonrpc.ParseRaw(m.text)
	if err != nil || schemaview.KindOf(object) != "object" {
		return
	}
	version := false
	m.one = true
	seen := make(map[string]bool)
	for member, value := range object.Members() {
		name := string(member)
		switch name {
		case "jsonrpc":
			version = string(value) == `"2.0"`
		case "id":
			m.id = string(value)
		case "method":
			_ = value.Decode(&m.method) // "" if it is not a string
		case "params":
			m.params = value
		default:
			m.one = false
		}
		m.one = m.one && !seen[name]
		seen[name] = true
	}
	kind := schemaview.KindOf(m.params)
	id := schemaview.KindOf(jsonrpc.Raw(m.id))
	m.one = m.one && version && m.method != "" && (kind == "" || kind == "object" || kind == "array") && id != "object" && id != "array" && id != "boolean"
}

// isHTTP reports whether a message is sent by POST.
func (m *Message) isHTTP() bool { return m.target.Scheme == "http" || m.target.Scheme == "https" }

// own returns the headers that a JSON-RPC client does not send by default.
func (m *Message) own() (list [][2]string) {
	for _, h := range m.headers {
		if h[0] != "Content-Type" && h[0] != "Accept" {
			list = append(list, h)
		}
	}
	return list
}

// hidden returns the environment variable that replaces a secret, or "" if the header is not
// secret.
func (m *Message) hidden(h [2]string) string {
	name, ok := strings.CutPrefix(h[1], "$")
	if m.secrets || !ok || !secret.Header(h[0]) {
		return ""
	}
	return name
}

// shellHeader returns a header as a shell word, which expands the variable of a secret.
func (m *Message) shellHeader(h [2]string) string {
	if m.hidden(h) != "" {
		return shellWord(h[0]+": ") + `"` + h[1] + `"`
	}
	return shellWord(h[0] + ": " + h[1])
}

// masked replaces a word that is not shown.
const masked = "•••"

// argv returns the target's program and its arguments. Secrets are masked unless requested.
func (m *Message) argv() []string {
	if m.secrets {
		return m.to.Command
	}
	hide := secret.New(nil)
	hide.Add(m.to.Secrets...)
	var words []string
	command, err := jsonrpc.AppendValue(nil, m.to.Command)
	if err != nil {
		command = jsonrpc.Raw("null") // not valid UTF-8: all words are hidden
	}
	if err := jsonrpc.Raw(hide.JSON(command)).Decode(&words); err != nil || len(words) != len(m.to.Command) {
		words = nil
		for range m.to.Command {
			words = append(words, masked) // a word that cannot be decoded hides all of them
		}
	}
	for i, w := range words {
		words[i] = hide.Text(w) // --key=… as one word
	}
	return words
}

// program returns the command line of argv as shell words.
func (m *Message) program() string {
	var words []string
	for _, w := range m.argv() {
		words = append(words, shellWord(w))
	}
	return strings.Join(words, " ")
}

// address returns the target's address with secrets removed unless requested.
func (m *Message) address(text string) string {
	if m.secrets {
		return text
	}
	hide := secret.New(nil)
	hide.Add(m.to.Secrets...)
	return hide.Text(text)
}

// Curl returns a curl command, or for a target that is not HTTP a command of the shell that says so
// and a parley call command.
func (m *Message) Curl() string {
	if !m.isHTTP() {
		what := m.address(m.to.Address)
		if len(m.to.Command) > 0 {
			what = strings.Join(m.argv(), " ")
		}
		// Not a comment: some shells treat a pasted "#" as an ordinary word.
		return ": " + shellWord("curl supports only HTTP; this target is "+strings.Join(strings.Fields(what), " ")) + "\n" + m.Parley()
	}
	var b strings.Builder
	data := " \\\n  --data-binary " + shellWord(string(m.text))
	switch {
	case !isShellText(m.text):
		fmt.Fprintf(&b, "printf %s | ", shellBytes(m.text))
		data = " \\\n  --data-binary @-"
	case len(m.text) > 0 && m.text[0] == '@': // otherwise curl would read a file of that name
		data = " \\\n  --data-raw " + shellWord(string(m.text))
	}
	address := m.address(m.target.URL())
	b.WriteString("curl -sS -N ")
	if strings.ContainsAny(address, "[]{}") {
		b.WriteString("-g ") // the brackets and braces are not patterns
	}
	b.WriteString(shellWord(address))
	for _, h := range m.headers {
		word := m.shellHeader(h)
		if h[1] == "" {
			word = shellWord(h[0] + ";") // with a colon, curl would omit the header
		}
		fmt.Fprintf(&b, " \\\n  -H %s", word)
	}
	for _, name := range []string{"Content-Type", "Accept"} {
		if !slices.ContainsFunc(m.headers, func(h [2]string) bool { return h[0] == name }) {
			fmt.Fprintf(&b, " \\\n  -H '%s:'", name) // removes curl's default header
		}
	}
	return b.String() + data
}

// paramName matches the parameter names that parley call accepts before "=".
var paramName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// Parley returns a parley call command. A program is started in the same folder in which the page
// starts it.
func (m *Message) Parley() string {
	line := m.parleyLine()
	if len(m.to.Command) > 0 && m.to.Dir != "" {
		return "(cd " + shellWord(m.to.Dir) + " && " + line + ")"
	}
	return line
}

func (m *Message) parleyLine() string {
	words := []string{"parley", "call"}
	behind := ""
	if len(m.to.Command) == 0 {
		words = append(words, shellWord(m.address(m.to.Address)))
	} else {
		behind = " -- " + m.program()
	}
	for _, h := range m.own() {
		if len(m.to.Command) == 0 {
			words = append(words, "-H", m.shellHeader(h))
		}
	}
	if !m.one || strings.HasPrefix(m.method, "-") {
		line := strings.Join(append(words, "--raw", "-d", "-"), " ") + behind
		if !isShellText(m.text) {
			return "printf " + shellBytes(m.text) + " | " + line
		}
		return "printf %s " + shellWord(string(m.text)) + " | " + line
	}
	switch m.id {
	case "":
		words = append(words, "-n")
	case "1": // the default ID
	default:
		words = append(words, "--id", shellWord(m.id))
	}
	words = append(words, shellWord(m.method))
	params, ok := m.paramWords()
	if !ok {
		params = []string{"-d", shellWord(string(m.params))}
	}
	return strings.Join(append(words, params...), " ") + behind
}

// paramWords returns params as arguments of parley call. ok is false if they cannot be written so.
func (m *Message) paramWords() (words []string, ok bool) {
	ok = true
	switch schemaview.KindOf(m.params) {
	case "array":
		for e := range m.params.Elements() {
			words = append(words, shellWord(string(e)))
		}
	case "object":
		seen := make(map[string]bool)
		for member, value := range m.params.Members() {
			name := string(member)
			ok = ok && paramName.MatchString(name) && !seen[name]
			seen[name] = true
			words = append(words, shellWord(name+":="+string(value)))
		}
	default:
		return nil, true
	}
	return words, ok && len(words) > 0
}

// Go returns a Go program. A single plain JSON-RPC call uses Call; any other message is sent
// byte for byte.
func (m *Message) Go() string {
	imports := map[string]bool{"context": true, "log": true}
	var b strings.Builder
	check := "\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n"
	header := func(list [][2]string) string {
		var h strings.Builder
		imports["net/http"] = true
		h.WriteString("http.Header{")
		for i, x := range list {
			if i > 0 {
				h.WriteString(", ")
			}
			value := goText(x[1])
			if name := m.hidden(x); name != "" {
				imports["os"] = true
				value = "os.Getenv(" + strconv.Quote(name) + ")"
			}
			fmt.Fprintf(&h, "%q: {%s}", x[0], value)
		}
		return h.String() + "}"
	}
	module := "github.com/da1ed7bb/parley"
	dial := func(verb, to string) {
		imports[module] = true
		options := ""
		if own := m.own(); len(own) > 0 && len(m.to.Command) == 0 {
			options = "Header: " + header(own)
		}
		fmt.Fprintf(&b, "\tdialer := parley.Dialer{%s}\n", options)
		if len(m.to.Command) > 0 {
			argv := make([]string, 0, len(m.to.Command))
			for _, w := range m.argv() {
				argv = append(argv, goText(w))
			}
			fmt.Fprintf(&b, "\t%s, err := dialer.%s(ctx, parley.Command(%s))\n%s", to, verb, strings.Join(argv, ", "), check)
		} else {
			fmt.Fprintf(&b, "\ttarget, err := parley.ParseTarget(%q)\n%s\t%s, err := dialer.%s(ctx, target)\n%s", m.address(m.to.Address), check, to, verb, check)
		}
		fmt.Fprintf(&b, "\tdefer %s.Close()\n\n", to)
	}
	params := "nil"
	if len(m.params) > 0 {
		params = "jsonrpc.Raw(" + goText(string(m.params)) + ")"
		imports[module+"/jsonrpc"] = true
	}
	switch {
	case m.one && m.to.Plain && m.id == "":
		dial("Dial", "client")
		fmt.Fprintf(&b, "\tif err := client.Notify(ctx, %q, %s); err != nil {\n\t\tlog.Fatal(err)\n\t}\n", m.method, params)
	case m.one && m.to.Plain:
		dial("Dial", "client")
		imports[module+"/jsonrpc"], imports["fmt"] = true, true
		fmt.Fprintf(&b, "\tresult, err := jsonrpc.Call[jsonrpc.Raw](ctx, client, %q, %s)\n%s\tfmt.Printf(\"%%s\\n\", result)\n", m.method, params, check)
	case m.isHTTP():
		imports["net/http"], imports["strings"], imports["io"], imports["os"] = true, true, true, true
		delete(imports, module+"/jsonrpc")
		fmt.Fprintf(&b, "\tbody := %s\n\trequest, err := http.NewRequestWithContext(ctx, http.MethodPost, %q, strings.NewReader(body))\n%s", goText(string(m.text)), m.address(m.target.URL()), check)
		fmt.Fprintf(&b, "\trequest.Header = %s\n\tresponse, err := http.DefaultClient.Do(request)\n%s\tdefer response.Body.Close()\n", header(m.headers), check)
		fmt.Fprintf(&b, "\tif _, err := io.Copy(os.Stdout, response.Body); err != nil {\n\t\tlog.Fatal(err)\n\t}\n")
	default:
		dial("Open", "transport")
		imports[module+"/jsonrpc"], imports["fmt"] = true, true
		fmt.Fprintf(&b, "\tvar burst jsonrpc.Burst\n\tburst.Add([]byte(%s))\n\tif err := transport.Write(burst); err != nil {\n\t\tlog.Fatal(err)\n\t}\n", goText(string(m.text)))
		fmt.Fprintf(&b, "\tanswer, _, err := transport.Read()\n%s\tfmt.Printf(\"%%s\\n\", answer)\n", check)
	}
	var standard, ours []string
	for path := range imports {
		if strings.HasPrefix(path, module) {
			ours = append(ours, "\t"+strconv.Quote(path)+"\n")
		} else {
			standard = append(standard, "\t"+strconv.Quote(path)+"\n")
		}
	}
	slices.Sort(standard)
	slices.Sort(ours)
	if len(ours) > 0 {
		standard = append(standard, "\n")
	}
	return "package main\n\nimport (\n" + strings.Join(standard, "") + strings.Join(ours, "") + ")\n\nfunc main() {\n\tctx := context.Background()\n" + b.String() + "}\n"
}

// goText returns a string literal in Go with as few escapes as possible.
func goText(text string) string {
	if strconv.CanBackquote(text) && (strings.Contains(text, `"`) || strings.Contains(text, `\`)) {
		return "`" + text + "`"
	}
	return strconv.Quote(text)
}

// Python returns a program that uses Python's standard library. It runs parley for transports that
// the library lacks.
func (m *Message) Python() string {
	var b strings.Builder
	switch u, err := url.Parse(m.to.Address); {
	case m.isHTTP():
		for _, h := range m.headers {
			if m.hidden(h) != "" {
				b.WriteString("import os\n")
				break
			}
		}
		fmt.Fprintf(&b, "import urllib.error\nimport urllib.request\n\nbody = %s\nrequest = urllib.request.Request(%s, body, {", pythonBytes(m.text), pythonText(m.address(m.target.URL())))
		for i, h := range m.headers {
			if i > 0 {
				b.WriteString(", ")
			}
			value := strconv.QuoteToASCII(h[1])
			if name := m.hidden(h); name != "" {
				value = "os.environ[" + strconv.QuoteToASCII(name) + "]"
			}
			b.WriteString(strconv.QuoteToASCII(h[0]) + ": " + value)
		}
		b.WriteString("})\ntry:\n    with urllib.request.urlopen(request) as answer:\n        print(answer.read().decode())\nexcept urllib.error.HTTPError as error:\n    print(error.read().decode())\n")
	case err == nil && (m.target.Scheme == "tcp" || m.target.Scheme == "unix") && m.target.Framing != stream.Header:
		b.WriteString("import socket\n\n")
		if m.target.Scheme == "tcp" {
			fmt.Fprintf(&b, "connection = socket.create_connection((%s, %s))\n", strconv.QuoteToASCII(u.Hostname()), cmp.Or(u.Port(), "0"))
		} else {
			fmt.Fprintf(&b, "connection = socket.socket(socket.AF_UNIX)\nconnection.connect(%s)\n", strconv.QuoteToASCII(m.target.Address))
		}
		fmt.Fprintf(&b, "with connection, connection.makefile(\"rb\") as lines:\n    connection.sendall(%s + b\"\\n\")\n    print(lines.readline().decode())\n", pythonBytes(m.text))
	default:
		fmt.Fprintf(&b, "# Python's standard library does not support this transport; parley does.\nimport subprocess\n\nsubprocess.run(%s, shell=True, check=True)\n", pythonText(m.Parley()))
	}
	return b.String()
}

// pythonBytes returns a bytes literal in Python.
func pythonBytes(b []byte) string {
	if utf8.Valid(b) {
		return pythonText(string(b)) + ".encode()"
	}
	var s strings.Builder
	s.WriteString(`b"`)
	for _, c := range b {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&s, `\x%02x`, c)
		} else {
			s.WriteByte(c)
		}
	}
	return s.String() + `"`
}

// pythonText returns a string literal in Python with as few escapes as possible.
func pythonText(text string) string {
	plain := !strings.Contains(text, `"""`) && !strings.HasPrefix(text, `"`) && !strings.HasSuffix(text, `"`) && !strings.HasSuffix(text, `\`)
	for _, r := range text {
		plain = plain && (r == '\n' || r >= ' ' && unicode.IsPrint(r))
	}
	if plain && strings.ContainsAny(text, "\"\\\n") {
		return `r"""` + text + `"""`
	}
	return strconv.QuoteToASCII(text)
}

// isShellText reports whether b is safe to paste into a terminal as a shell word. A control
// character could act as a key.
func isShellText(b []byte) bool {
	return utf8.Valid(b) && !slices.ContainsFunc([]rune(string(b)), isKey)
}

// isKey reports whether a character has an effect in a terminal when pasted, or is invisible there.
func isKey(r rune) bool {
	return unicode.Is(unicode.C, r) && r != '\n' && r != '\t' || r == '\u2028' || r == '\u2029'
}

// shellBytes returns bytes as an argument of the shell's printf.
func shellBytes(b []byte) string {
	var s strings.Builder
	s.WriteByte('\'')
	for i, c := range b {
		if c < ' ' || c > '~' || c == '\'' || c == '\\' || c == '%' || c == '-' && i == 0 {
			fmt.Fprintf(&s, `\%03o`, c)
		} else {
			s.WriteByte(c)
		}
	}
	return s.String() + "'"
}

// shellWord quotes a word for a POSIX shell. Bytes that cannot be pasted are written with printf.
func shellWord(word string) string {
	if word != "" && !isShellText([]byte(word)) {
		rest := strings.TrimRight(word, "\n") // $(…) removes trailing newlines
		quoted := `"$(printf ` + shellBytes([]byte(rest)) + `)"`
		if rest != word {
			quoted += "'" + word[len(rest):] + "'"
		}
		return quoted
	}
	plain := word != ""
	for _, r := range word {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,", r) {
			plain = false
		}
	}
	if plain && word[0] != '=' {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ShellPath quotes a file name. A leading "~/" stays unquoted, so that the shell expands it.
func ShellPath(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok && rest != "" {
		return "~/" + shellWord(rest)
	}
	if strings.HasPrefix(name, "-") {
		name = "./" + name // so that it is not read as a flag
	}
	return shellWord(name)
}
