package playground

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// This file writes a message as a command line or a program that can be run as it stands, and that sends the same.

// A copied is a message on its way to the clipboard.
type copied struct {
	spec    Target
	text    []byte
	headers [][2]string // a secret is the name of a variable of the environment, after a $
	secrets bool

	target parley.Target // zero for what is no address
	one    bool          // the message is one request of JSON-RPC 2.0 or one notification, with no member beside the four
	id     string        // of the request, as JSON; "" for a notification
	method string
	params jsonrpc.Raw
}

// read finds out what there is to copy.
func (m *copied) read() {
	if len(m.spec.Command) == 0 {
		m.target, _ = parley.ParseTarget(m.spec.Address) // the zero value is no address
	}
	object, err := jsonrpc.ParseRaw(m.text)
	if err != nil || kindOf(object) != "object" {
		return
	}
	version := false
	m.one = true
	seen := make(map[string]bool)
	members(object, func(name string, value jsonrpc.Raw) {
		switch name {
		case "jsonrpc":
			version = string(value) == `"2.0"`
		case "id":
			m.id = string(value)
		case "method":
			_ = value.Decode(&m.method) // "" if it is none
		case "params":
			m.params = value
		default:
			m.one = false
		}
		m.one = m.one && !seen[name]
		seen[name] = true
	})
	kind := kindOf(m.params)
	id := kindOf(jsonrpc.Raw(m.id))
	m.one = m.one && version && m.method != "" && (kind == "" || kind == "object" || kind == "array") && id != "object" && id != "array" && id != "boolean"
}

// isHTTP reports whether a message goes by POST.
func (m *copied) isHTTP() bool { return m.target.Scheme == "http" || m.target.Scheme == "https" }

// own are the headers that a JSON-RPC client does not send by itself.
func (m *copied) own() (list [][2]string) {
	for _, h := range m.headers {
		if h[0] != "Content-Type" && h[0] != "Accept" {
			list = append(list, h)
		}
	}
	return list
}

// hidden is the name of the variable that stands for a secret, "" for a header that is none.
func (m *copied) hidden(h [2]string) string {
	name, ok := strings.CutPrefix(h[1], "$")
	if m.secrets || !ok || !isSecretHeader(h[0]) {
		return ""
	}
	return name
}

// shellHeader is a header as a word of a shell, which fills in the variable for a secret.
func (m *copied) shellHeader(h [2]string) string {
	if m.hidden(h) != "" {
		return shellWord(h[0]+": ") + `"` + h[1] + `"`
	}
	return shellWord(h[0] + ": " + h[1])
}

func (m *copied) curl() string {
	if !m.isHTTP() {
		return "# curl speaks HTTP; this target is " + strings.Join(strings.Fields(m.spec.show()), " ") + "\n" + m.parley()
	}
	var b strings.Builder
	data := " \\\n  --data-binary " + shellWord(string(m.text))
	switch {
	case !isShellText(m.text):
		fmt.Fprintf(&b, "printf %s | ", shellBytes(m.text))
		data = " \\\n  --data-binary @-"
	case len(m.text) > 0 && m.text[0] == '@': // not the name of a file
		data = " \\\n  --data-raw " + shellWord(string(m.text))
	}
	fmt.Fprintf(&b, "curl -sS -N %s", shellWord(m.target.URL()))
	for _, h := range m.headers {
		fmt.Fprintf(&b, " \\\n  -H %s", m.shellHeader(h))
	}
	for _, name := range []string{"Content-Type", "Accept"} {
		if !slices.ContainsFunc(m.headers, func(h [2]string) bool { return h[0] == name }) {
			fmt.Fprintf(&b, " \\\n  -H '%s:'", name) // curl has one of its own
		}
	}
	return b.String() + data
}

// paramName is a name of a parameter that parley call takes before "=".
var paramName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

func (m *copied) parley() string {
	words := []string{"parley", "call"}
	behind := ""
	switch {
	case len(m.spec.Command) == 0:
		words = append(words, shellWord(m.spec.Address))
	case !m.secrets && m.spec.Show != "":
		behind = " -- " + strings.Join(strings.Fields(m.spec.Show), " ")
	default:
		for _, w := range m.spec.Command {
			behind += " " + shellWord(w)
		}
		behind = " --" + behind
	}
	for _, h := range m.own() {
		if len(m.spec.Command) == 0 {
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
	case "1": // what it takes by itself
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

// paramWords are params as words of parley call, if they can be that.
func (m *copied) paramWords() (words []string, ok bool) {
	ok = true
	switch kindOf(m.params) {
	case "array":
		for _, e := range elements(m.params) {
			words = append(words, shellWord(string(e)))
		}
	case "object":
		seen := make(map[string]bool)
		members(m.params, func(name string, value jsonrpc.Raw) {
			ok = ok && paramName.MatchString(name) && !seen[name]
			seen[name] = true
			words = append(words, shellWord(name+":="+string(value)))
		})
	default:
		return nil, true
	}
	return words, ok && len(words) > 0
}

// golang is a program. One call of plain JSON-RPC is a call of it; all else goes out byte for byte.
func (m *copied) golang() string {
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
		if own := m.own(); len(own) > 0 && len(m.spec.Command) == 0 {
			options = "Header: " + header(own)
		}
		fmt.Fprintf(&b, "\tdialer := parley.Dialer{%s}\n", options)
		if len(m.spec.Command) > 0 {
			argv := make([]string, 0, len(m.spec.Command))
			for _, w := range m.spec.Command {
				argv = append(argv, goText(w))
			}
			if !m.secrets && m.spec.Show != "" {
				argv = []string{goText(m.spec.Show)}
			}
			fmt.Fprintf(&b, "\t%s, err := dialer.%s(ctx, parley.Command(%s))\n%s", to, verb, strings.Join(argv, ", "), check)
		} else {
			fmt.Fprintf(&b, "\ttarget, err := parley.ParseTarget(%q)\n%s\t%s, err := dialer.%s(ctx, target)\n%s", m.spec.Address, check, to, verb, check)
		}
		fmt.Fprintf(&b, "\tdefer %s.Close()\n\n", to)
	}
	params := "nil"
	if len(m.params) > 0 {
		params = "jsonrpc.Raw(" + goText(string(m.params)) + ")"
		imports[module+"/jsonrpc"] = true
	}
	switch {
	case m.one && m.spec.protocol() == ProtocolJSONRPC && m.id == "":
		dial("Dial", "client")
		fmt.Fprintf(&b, "\tif err := client.Notify(ctx, %q, %s); err != nil {\n\t\tlog.Fatal(err)\n\t}\n", m.method, params)
	case m.one && m.spec.protocol() == ProtocolJSONRPC:
		dial("Dial", "client")
		imports[module+"/jsonrpc"], imports["fmt"] = true, true
		fmt.Fprintf(&b, "\tresult, err := jsonrpc.Call[jsonrpc.Raw](ctx, client, %q, %s)\n%s\tfmt.Printf(\"%%s\\n\", result)\n", m.method, params, check)
	case m.isHTTP():
		imports["net/http"], imports["strings"], imports["io"], imports["os"] = true, true, true, true
		delete(imports, module+"/jsonrpc")
		fmt.Fprintf(&b, "\tbody := %s\n\trequest, err := http.NewRequestWithContext(ctx, http.MethodPost, %q, strings.NewReader(body))\n%s", goText(string(m.text)), m.target.URL(), check)
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

// goText is a text as Go source, with as few escapes as possible.
func goText(text string) string {
	if strconv.CanBackquote(text) && (strings.Contains(text, `"`) || strings.Contains(text, `\`)) {
		return "`" + text + "`"
	}
	return strconv.Quote(text)
}

// python is a program for Python's standard library. What that cannot speak, parley speaks for it.
func (m *copied) python() string {
	var b strings.Builder
	switch u, err := url.Parse(m.spec.Address); {
	case m.isHTTP():
		for _, h := range m.headers {
			if m.hidden(h) != "" {
				b.WriteString("import os\n")
				break
			}
		}
		fmt.Fprintf(&b, "import urllib.error\nimport urllib.request\n\nbody = %s\nrequest = urllib.request.Request(%s, body, {", pythonBytes(m.text), strconv.QuoteToASCII(m.target.URL()))
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
			fmt.Fprintf(&b, "connection = socket.create_connection((%s, %s))\n", strconv.QuoteToASCII(u.Hostname()), orDefault(u.Port(), "0"))
		} else {
			fmt.Fprintf(&b, "connection = socket.socket(socket.AF_UNIX)\nconnection.connect(%s)\n", strconv.QuoteToASCII(m.target.Address))
		}
		fmt.Fprintf(&b, "with connection, connection.makefile(\"rb\") as lines:\n    connection.sendall(%s + b\"\\n\")\n    print(lines.readline().decode())\n", pythonBytes(m.text))
	default:
		fmt.Fprintf(&b, "# Python's standard library does not speak this; parley does.\nimport subprocess\n\nsubprocess.run(%s, shell=True, check=True)\n", pythonText(m.parley()))
	}
	return b.String()
}

// pythonBytes are bytes as Python source.
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

// pythonText is a text as Python source, with as few escapes as possible.
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

// isShellText reports whether bytes can be a word of a shell.
func isShellText(b []byte) bool {
	return utf8.Valid(b) && !slices.Contains(b, 0)
}

// shellBytes are bytes as the shell's printf takes them.
func shellBytes(b []byte) string {
	var s strings.Builder
	s.WriteByte('\'')
	for _, c := range b {
		if c < ' ' || c > '~' || c == '\'' || c == '\\' || c == '%' {
			fmt.Fprintf(&s, `\%03o`, c)
		} else {
			s.WriteByte(c)
		}
	}
	return s.String() + "'"
}

// shellWord quotes a word for a POSIX shell.
func shellWord(word string) string {
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
