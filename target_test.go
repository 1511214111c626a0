package parley

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

func TestParseTarget(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Target
		back string // the result of String; if "", the same as in
	}{
		{"http://127.0.0.1:3000/rpc", Target{Scheme: "http", Address: "127.0.0.1:3000", Path: "/rpc"}, ""},
		{"https://rpc.example/v1?key=a%20b&x", Target{Scheme: "https", Address: "rpc.example", Path: "/v1?key=a%20b&x"}, ""},
		{"HTTP://h:1/", Target{Scheme: "http", Address: "h:1", Path: "/"}, "http://h:1/"},
		{"http://[::1]:3000", Target{Scheme: "http", Address: "[::1]:3000"}, ""},
		{":3000/rpc", Target{Scheme: "http", Address: "127.0.0.1:3000", Path: "/rpc"}, "http://127.0.0.1:3000/rpc"},
		{":3000", Target{Scheme: "http", Address: "127.0.0.1:3000"}, "http://127.0.0.1:3000"},
		{"localhost:3000/rpc", Target{Scheme: "http", Address: "localhost:3000", Path: "/rpc"}, "http://localhost:3000/rpc"},
		{"localhost:3000", Target{Scheme: "http", Address: "localhost:3000"}, "http://localhost:3000"},
		{"127.0.0.1:3000", Target{Scheme: "http", Address: "127.0.0.1:3000"}, "http://127.0.0.1:3000"},
		{"[::1]:3000/a?b=c", Target{Scheme: "http", Address: "[::1]:3000", Path: "/a?b=c"}, "http://[::1]:3000/a?b=c"},
		{"rpc.example:443/v1?jsonrpc=1.0", Target{Scheme: "http", Address: "rpc.example:443", Path: "/v1", Version: jsonrpc.Version1}, "http://rpc.example:443/v1?jsonrpc=1.0"},
		{"my_host:80?x", Target{Scheme: "http", Address: "my_host:80", Path: "?x"}, "http://my_host:80?x"},
		{"unix:3000", Target{Scheme: "unix", Address: "3000"}, ""},
		{"http://h/a%2Fb", Target{Scheme: "http", Address: "h", Path: "/a%2Fb"}, ""},
		{"sse+http://h:1/sse", Target{Scheme: "sse+http", Address: "h:1", Path: "/sse"}, ""},
		{"ws://h:1/rpc?jsonrpc=1.0", Target{Scheme: "ws", Address: "h:1", Path: "/rpc", Version: jsonrpc.Version1}, ""},
		{"wss://h/rpc?a=1&jsonrpc=1.0", Target{Scheme: "wss", Address: "h", Path: "/rpc?a=1", Version: jsonrpc.Version1}, ""},
		{"tcp://127.0.0.1:3001", Target{Scheme: "tcp", Address: "127.0.0.1:3001"}, ""},
		{"tcp://:3001", Target{Scheme: "tcp", Address: "127.0.0.1:3001"}, "tcp://127.0.0.1:3001"},
		{"tcp://h:1/?framing=header", Target{Scheme: "tcp", Address: "h:1", Framing: stream.Header}, "tcp://h:1?framing=header"},
		{"tls://h:1?framing=header&jsonrpc=1.0", Target{Scheme: "tls", Address: "h:1", Framing: stream.Header, Version: jsonrpc.Version1}, ""},
		{"tcp://h:1?framing=line&jsonrpc=2.0", Target{Scheme: "tcp", Address: "h:1"}, "tcp://h:1"},
		{"unix:/run/a b.sock", Target{Scheme: "unix", Address: "/run/a b.sock"}, ""},
		{"unix:./x.sock?framing=header", Target{Scheme: "unix", Address: "./x.sock", Framing: stream.Header}, ""},
		{"unix:///run/x.sock", Target{Scheme: "unix", Address: "/run/x.sock"}, "unix:/run/x.sock"},
		{"unix:/a%20b", Target{Scheme: "unix", Address: "/a%20b"}, ""},
		{"stdio:", Target{Scheme: "stdio"}, ""},
		{"stdio:?framing=header", Target{Scheme: "stdio", Framing: stream.Header}, ""},
		{"nats://h:4222/service", Target{Scheme: "nats", Address: "h:4222", Path: "/service"}, ""},
		{"other+x://h", Target{Scheme: "other+x", Address: "h"}, ""},
	} {
		got, err := ParseTarget(c.in)
		if err != nil {
			t.Errorf("ParseTarget(%q) = %v", c.in, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("ParseTarget(%q): (-want +got)\n%s", c.in, diff)
		}
		back := c.back
		if back == "" {
			back = c.in
		}
		if got.String() != back {
			t.Errorf("ParseTarget(%q).String() = %q, want %q", c.in, got.String(), back)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for _, c := range []struct{ in, reason string }{
		{"", "empty"},
		{"subtract", "no scheme"},
		{"localhost", "no scheme"},
		{"localhost:rpc", "missing // after localhost:"},
		{"localhost:99999999", "up to 65535"},
		{"localhost:3000/rpc#x", "must not have a fragment"},
		{"u:3000@h", "missing //"},
		{"tcp:3000", "missing // after tcp:"},
		{"HTTP:3000/rpc", "missing // after HTTP:"},
		{"@demo", "configuration file"},
		{"http:/h", "missing //"},
		{"http://", "missing host"},
		{"http:///rpc", "missing host"},
		{"http://h:99999999/", "up to 65535"},
		{"http://h:port/", ""},
		{"http://u:secret@h/", "token or a header"},
		{"http://h/#x", "must not have a fragment"},
		{"http://h/?framing=header", "needs no framing"},
		{"http://h/?jsonrpc=3", "1.0 or 2.0"},
		{"tcp://h", "missing port"},
		{"tcp://h:1/path", "has no path"},
		{"tcp://h:1?framing=lines", "line or header"},
		{"tcp://h:1?x=1", `unknown option "x"`},
		{"tcp://:", "missing port"},
		{"unix:", "missing socket path"},
		{"unix:?framing=header", "missing socket path"},
		{"unix:/x?mode=1", `unknown option "mode"`},
		{"stdio:x", "stdio: must not be followed"},
	} {
		got, err := ParseTarget(c.in)
		bad, ok := errors.AsType[*TargetError](err)
		if !ok {
			t.Errorf("ParseTarget(%q) = %+v, %v; want a *TargetError", c.in, got, err)
			continue
		}
		if !strings.Contains(bad.Reason, c.reason) {
			t.Errorf("ParseTarget(%q) = %v, want a reason with %q", c.in, err, c.reason)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseTarget(%q) repeats the password: %v", c.in, err)
		}
	}
}

func TestTargetSet(t *testing.T) {
	child := Command("server", "--stdio")
	if err := child.Set("header", "1.0"); err != nil || child.Framing != stream.Header || child.Version != jsonrpc.Version1 {
		t.Errorf(`Set("header", "1.0") = %v, %+v`, err, child)
	}
	if err := child.Set("", ""); err != nil || child.Framing != stream.Header {
		t.Errorf(`Set("", "") = %v, %+v; want no change`, err, child)
	}
	web := Target{Scheme: "http", Address: "h:1"}
	if err := web.Set("header", ""); err == nil {
		t.Error(`Set("header", "") on http = nil, want an error`)
	}
}

// FuzzParseTarget checks that the String of a parsed target parses to the same target.
func FuzzParseTarget(f *testing.F) {
	for _, seed := range []string{
		":3000/rpc", "localhost:3000/rpc", "[::1]:80?a", "tcp:3000", "http://h:1/a?b=c&jsonrpc=1.0", "unix:/a b?framing=header", "stdio:?jsonrpc=1.0", "tcp://[::1]:1",
		"tls://h:1/", "@x", "http://%zz", "unix:///..//x", "ws://h?&&=", "x://y?framing=line",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := ParseTarget(text)
		if err != nil {
			return
		}
		again, err := ParseTarget(first.String())
		if err != nil {
			t.Fatalf("%q is read as %+v and written as %q, which is rejected: %v", text, first, first.String(), err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("%q, written as %q, reads differently: (-first +again)\n%s", text, first.String(), diff)
		}
	})
}
