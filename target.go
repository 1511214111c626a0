package parley

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A Target is where a server is or shall be. The same spelling is taken everywhere:
//
//	http://h:p/path  https://…   JSON-RPC over POST
//	:3000/rpc                    http://127.0.0.1:3000/rpc
//	sse+http://…                 an event stream and POSTs beside it (MCP 2024-11-05)
//	ws://h:p/path    wss://…     WebSocket
//	tcp://h:p        tls://h:p   a newline behind each message
//	unix:/path                   the same, on a Unix socket
//	stdio:                       our own stdin and stdout
//
// A child process is the target that [Command] makes; its arguments are words, never one text.
// All targets take ?jsonrpc=1.0, the streams of bytes also ?framing=header.
type Target struct {
	Scheme  string // lower case; "exec" for a child process
	Address string // host and port, or the path of a Unix socket
	Path    string // what stands behind host and port in a URL, query included; "" for nothing
	Argv    []string

	Framing stream.Framer   // how messages are kept apart on a stream of bytes
	Version jsonrpc.Version // which JSON-RPC is spoken
}

// A TargetError says why a text is no target, or why a target cannot be used as one.
type TargetError struct {
	Target string
	Reason string
}

func (e *TargetError) Error() string { return fmt.Sprintf("target %q: %s", e.Target, e.Reason) }

// Command is the target of a child process that speaks on its stdin and stdout. No shell is involved.
func Command(argv ...string) Target {
	return Target{Scheme: "exec", Argv: slices.Clone(argv)}
}

var schemeForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// ParseTarget reads a target. It touches nothing and looks nothing up; a scheme that nobody serves is found out
// by [Dialer.Dial] and [Listener.Listen]. The error is a *TargetError.
func ParseTarget(text string) (Target, error) {
	t, reason := parseTarget(text)
	if reason != "" {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			text = u.Redacted() // errors end up in logs
		}
		return Target{}, &TargetError{Target: text, Reason: reason}
	}
	return t, nil
}

func parseTarget(text string) (Target, string) {
	switch {
	case text == "":
		return Target{}, "it is empty"
	case strings.HasPrefix(text, "@"):
		return Target{}, "names from a configuration file are not known yet; write the address"
	case strings.HasPrefix(text, ":"):
		text = "http://127.0.0.1" + text
	}
	prefix := schemeForm.FindString(text)
	scheme := strings.ToLower(strings.TrimSuffix(prefix, ":"))
	rest := text[len(prefix):]
	switch {
	case prefix == "":
		return Target{}, "it has no scheme: try http://, ws://, tcp:// or unix: in front, or put the command of a child behind --"
	case scheme == "unix":
		return parseUnix(rest)
	case scheme == "stdio":
		return parseStdio(rest)
	case strings.HasPrefix(rest, "//"):
		return parseURL(text)
	}
	if _, port, err := net.SplitHostPort(text); err == nil && isPort(port) {
		return Target{}, "it has no scheme: try http://" + text + " or tcp://" + text
	}
	return Target{}, "two slashes belong behind " + prefix
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

func parseUnix(rest string) (Target, string) {
	t := Target{Scheme: "unix"}
	file, query, _ := strings.Cut(rest, "?")
	if strings.HasPrefix(file, "//") { // unix:///run/x, as some write it
		file = path.Clean(file)
	}
	if file == "" {
		return Target{}, "the path of the socket is missing, as in unix:/run/parley.sock"
	}
	t.Address = file
	return t, t.takeQuery(query)
}

func parseStdio(rest string) (Target, string) {
	t := Target{Scheme: "stdio"}
	rest, query, _ := strings.Cut(rest, "?")
	if rest != "" && rest != "//" {
		return Target{}, "nothing stands behind stdio: (a child process goes behind --)"
	}
	return t, t.takeQuery(query)
}

func parseURL(text string) (Target, string) {
	u, err := url.Parse(text)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return Target{}, err.Error()
	}
	t := Target{Scheme: u.Scheme, Address: u.Host}
	switch {
	case u.Port() != "" && !isPort(u.Port()):
		return Target{}, "a port is a number up to 65535"
	case u.Fragment != "":
		return Target{}, "what stands behind # never leaves a browser"
	case u.User != nil:
		return Target{}, "a name or password in an address ends up in logs; use a token or a header"
	case u.Hostname() == "" && u.Host != "":
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
		t.Address = u.Host
	case u.Host == "":
		return Target{}, "the host is missing"
	}
	if isStream(t.Scheme) {
		if u.Port() == "" {
			return Target{}, "the port is missing"
		}
		if u.Path != "" && u.Path != "/" {
			return Target{}, t.Scheme + ":// has no path"
		}
		return t, t.takeQuery(u.RawQuery)
	}
	query, reason := t.takeOurs(u.RawQuery)
	t.Path = u.EscapedPath()
	if query != "" {
		t.Path += "?" + query
	}
	return t, reason
}

// isStream reports whether the scheme carries bytes without edges, so that a framing keeps messages apart.
func isStream(scheme string) bool {
	switch scheme {
	case "tcp", "tls", "unix", "stdio", "exec":
		return true
	}
	return false
}

// takeQuery reads the query of a target that has none of its own.
func (t *Target) takeQuery(query string) (reason string) {
	rest, reason := t.takeOurs(query)
	if reason == "" && rest != "" {
		name, _, _ := strings.Cut(rest, "=")
		reason = fmt.Sprintf("%s: has no option %q; there are framing=line|header and jsonrpc=1.0|2.0", t.Scheme, name)
	}
	return reason
}

// takeOurs takes our options out of the query and leaves the peer's as they were written.
func (t *Target) takeOurs(query string) (rest, reason string) {
	var others []string
	for pair := range strings.SplitSeq(query, "&") {
		switch name, value, _ := strings.Cut(pair, "="); {
		case pair == "":
		case name == "framing" && !isStream(t.Scheme):
			return "", t.Scheme + ":// carries whole messages and needs no framing"
		case name == "framing" && value == "line":
			t.Framing = stream.Line
		case name == "framing" && value == "header":
			t.Framing = stream.Header
		case name == "framing":
			return "", fmt.Sprintf("framing is line or header, not %q", value)
		case name == "jsonrpc" && value == "2.0":
			t.Version = jsonrpc.Version2
		case name == "jsonrpc" && value == "1.0":
			t.Version = jsonrpc.Version1
		case name == "jsonrpc":
			return "", fmt.Sprintf("jsonrpc is 1.0 or 2.0, not %q", value)
		default:
			others = append(others, pair)
		}
	}
	return strings.Join(others, "&"), ""
}

// URL is the address without our own options, as a browser or curl would take it. A child process has none.
func (t Target) URL() string {
	switch t.Scheme {
	case "exec":
		return ""
	case "unix", "stdio":
		return t.Scheme + ":" + t.Address
	}
	return t.Scheme + "://" + t.Address + t.Path
}

// String writes the target so that [ParseTarget] reads it again; of a child process it writes the words behind "--".
func (t Target) String() string {
	if t.Scheme == "exec" {
		return "-- " + strings.Join(t.Argv, " ")
	}
	var ours []string
	if t.Framing == stream.Header {
		ours = append(ours, "framing=header")
	}
	if t.Version == jsonrpc.Version1 {
		ours = append(ours, "jsonrpc=1.0")
	}
	if len(ours) == 0 {
		return t.URL()
	}
	separator := "?"
	if strings.Contains(t.Path, "?") {
		separator = "&"
	}
	return t.URL() + separator + strings.Join(ours, "&")
}

// Set overrides framing and version by the names that an address uses for them; an empty name changes nothing. The error is
// a *TargetError.
func (t *Target) Set(framing, version string) error {
	var query []string
	if framing != "" {
		query = append(query, "framing="+framing)
	}
	if version != "" {
		query = append(query, "jsonrpc="+version)
	}
	if _, reason := t.takeOurs(strings.Join(query, "&")); reason != "" {
		return &TargetError{Target: t.String(), Reason: reason}
	}
	return nil
}
