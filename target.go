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

// A Target is the address of a server to dial or to listen on. The same syntax is accepted
// everywhere:
//
//	http://h:p/path  https://…   JSON-RPC over POST
//	localhost:3000/rpc           http://localhost:3000/rpc; any host and port, with or without a path
//	:3000/rpc                    http://127.0.0.1:3000/rpc
//	sse+http://…                 an event stream, and POSTs (MCP 2024-11-05)
//	ws://h:p/path    wss://…     WebSocket
//	tcp://h:p        tls://h:p   a newline after each message
//	unix:/path                   the same, on a Unix socket
//	stdio:                       this process's stdin and stdout
//
// A child process is a target that [Command] creates; its arguments are separate words, never one
// string. All targets accept ?jsonrpc=1.0, and byte streams also ?framing=header.
type Target struct {
	Scheme  string // lower case; "exec" for a child process
	Address string // host and port, or the path of a Unix socket
	Path    string // everything after host and port in a URL, including the query; may be ""
	Argv    []string

	// Env is the whole environment of a child process, as "NAME=value" each, and Dir its working
	// directory. If nil or empty, the child has those of this process.
	Env []string
	Dir string

	Framing stream.Framer   // how messages are delimited on a byte stream
	Version jsonrpc.Version // version of JSON-RPC
}

// A TargetError is the reason why a text is not a target, or why a target cannot be used.
type TargetError struct {
	Target string
	Reason string
}

func (e *TargetError) Error() string { return fmt.Sprintf("target %q: %s", e.Target, e.Reason) }

// Command returns the target of a child process that uses its stdin and stdout. No shell is
// involved.
func Command(argv ...string) Target {
	return Target{Scheme: "exec", Argv: slices.Clone(argv)}
}

var schemeForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// ParseTarget parses a target. It opens no connection and does no lookup; [Dialer.Dial] and
// [Listener.Listen] detect an unsupported scheme. The error is a *TargetError.
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
		return Target{}, "it is a name of a configuration file, not an address"
	case strings.HasPrefix(text, ":"):
		text = "http://127.0.0.1" + text
	case isHostPort(text):
		text = "http://" + text
	}
	prefix := schemeForm.FindString(text)
	scheme := strings.ToLower(strings.TrimSuffix(prefix, ":"))
	rest := text[len(prefix):]
	switch {
	case prefix == "":
		return Target{}, "it has no scheme: add http://, ws://, tcp:// or unix:, or put a command after --"
	case scheme == "unix":
		return parseUnix(rest)
	case scheme == "stdio":
		return parseStdio(rest)
	case strings.HasPrefix(rest, "//"):
		return parseURL(text)
	}
	return Target{}, "missing // after " + prefix
}

// hostPort matches a host and a port without a scheme, which may be followed by a path.
var hostPort = regexp.MustCompile(`^([^/?#@:\[\]\s]+|\[[0-9A-Fa-f:.%]+\]):[0-9]+($|[/?#])`)

// isHostPort reports whether text starts with a host and a port. A scheme without its slashes, as
// in tcp:3000, is not a host.
func isHostPort(text string) bool {
	parts := hostPort.FindStringSubmatch(text)
	return parts != nil && !slices.Contains(reserved, strings.ToLower(parts[1]))
}

// reserved are the names of schemes, which are not names of hosts.
var reserved = []string{"http", "https", "sse+http", "sse+https", "ws", "wss", "tcp", "tls", "unix", "stdio", "exec", "nats"}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

func parseUnix(rest string) (Target, string) {
	t := Target{Scheme: "unix"}
	file, query, _ := strings.Cut(rest, "?")
	if strings.HasPrefix(file, "//") { // unix:///run/x is a common spelling
		file = path.Clean(file)
	}
	if file == "" {
		return Target{}, "missing socket path, as in unix:/run/parley.sock"
	}
	t.Address = file
	return t, t.takeQuery(query)
}

func parseStdio(rest string) (Target, string) {
	t := Target{Scheme: "stdio"}
	rest, query, _ := strings.Cut(rest, "?")
	if rest != "" && rest != "//" {
		return Target{}, "stdio: must not be followed by text (put a command after --)"
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
		return Target{}, "a port must be a number up to 65535"
	case u.Fragment != "":
		return Target{}, "an address must not have a fragment (#…)"
	case u.User != nil:
		return Target{}, "an address must not have a user name or password, which would appear in logs; use a token or a header"
	case u.Hostname() == "" && u.Host != "":
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
		t.Address = u.Host
	case u.Host == "":
		return Target{}, "missing host"
	}
	if isStream(t.Scheme) {
		if u.Port() == "" {
			return Target{}, "missing port"
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

// isStream reports whether the scheme is a byte stream without message boundaries, which requires a
// framing.
func isStream(scheme string) bool {
	switch scheme {
	case "tcp", "tls", "unix", "stdio", "exec":
		return true
	}
	return false
}

// takeQuery parses the query of a target whose scheme has no query for the peer.
func (t *Target) takeQuery(query string) (reason string) {
	rest, reason := t.takeOurs(query)
	if reason == "" && rest != "" {
		name, _, _ := strings.Cut(rest, "=")
		reason = fmt.Sprintf("%s: unknown option %q; the options are framing=line|header and jsonrpc=1.0|2.0", t.Scheme, name)
	}
	return reason
}

// takeOurs removes parley's options from the query and leaves the peer's options unchanged.
func (t *Target) takeOurs(query string) (rest, reason string) {
	var others []string
	for pair := range strings.SplitSeq(query, "&") {
		switch name, value, _ := strings.Cut(pair, "="); {
		case pair == "":
		case name == "framing" && !isStream(t.Scheme):
			return "", t.Scheme + ":// transports whole messages and needs no framing"
		case name == "framing" && value == "line":
			t.Framing = stream.Line
		case name == "framing" && value == "header":
			t.Framing = stream.Header
		case name == "framing":
			return "", fmt.Sprintf("framing must be line or header, not %q", value)
		case name == "jsonrpc" && value == "2.0":
			t.Version = jsonrpc.Version2
		case name == "jsonrpc" && value == "1.0":
			t.Version = jsonrpc.Version1
		case name == "jsonrpc":
			return "", fmt.Sprintf("jsonrpc must be 1.0 or 2.0, not %q", value)
		default:
			others = append(others, pair)
		}
	}
	return strings.Join(others, "&"), ""
}

// URL returns the address without parley's options, in the form that a browser or curl accepts. A
// child process has no URL.
func (t Target) URL() string {
	switch t.Scheme {
	case "exec":
		return ""
	case "unix", "stdio":
		return t.Scheme + ":" + t.Address
	}
	return t.Scheme + "://" + t.Address + t.Path
}

// String returns the target in the syntax of [ParseTarget]. For a child process it returns "--" and
// the arguments.
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

// Set sets framing and version by the names used in addresses; an empty name changes nothing. The
// error is a *TargetError.
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
