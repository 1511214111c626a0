package copyas

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestCopied checks that a copy sends the same message, and no name, value or byte escapes its
// quotes.
func TestCopied(t *testing.T) {
	web := Target{Address: "http://127.0.0.1:1/rpc"}
	tcp := Target{Address: "tcp://127.0.0.1:2"}
	own := [][2]string{{"Content-Type", "application/json"}, {"X-A", "it's"}, {"X-Api-Key`id`", "$X_API_KEY_ID_"}}
	for _, c := range []struct {
		name, as string
		spec     Target
		headers  [][2]string
		text     string
		want     []string
	}{
		{"by name", "parley", web, nil, `{"jsonrpc":"2.0","id":1,"method":"subtract","params":{"minuend":42,"b":"x y"}}`, []string{`parley call http://127.0.0.1:1/rpc subtract minuend:=42 'b:="x y"'`}},
		{"an id", "parley", web, nil, `{"jsonrpc":"2.0","id":"s\"1","method":"ping"}`, []string{`--id '"s\"1"' ping`}},
		{"a notification", "parley", tcp, nil, `{"jsonrpc":"2.0","method":"update","params":[1,null]}`, []string{`parley call tcp://127.0.0.1:2 -n update 1 null`}},
		{"empty params", "parley", web, nil, `{"jsonrpc":"2.0","id":1,"method":"x","params":[]}`, []string{`x -d '[]'`}},
		{"a name that is no word", "parley", web, nil, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a b":1}}`, []string{`x -d '{"a b":1}'`}},
		{"a batch", "parley", web, nil, `[1]`, []string{`printf %s '[1]' | parley call http://127.0.0.1:1/rpc --raw -d -`}},
		{"one more member", "parley", web, nil, `{"jsonrpc":"2.0","id":1,"method":"x","more":1}`, []string{`--raw -d -`}},
		{"an id that is none", "parley", web, nil, `{"jsonrpc":"2.0","id":[],"method":"x"}`, []string{`--raw -d -`}},
		{"the same member twice", "parley", web, nil, `{"jsonrpc":"2.0","id":1,"method":"x","params":[],"params":[1]}`, []string{`--raw -d -`}},
		{"a method like a flag", "parley", web, nil, `{"jsonrpc":"2.0","id":1,"method":"--raw"}`, []string{`printf %s`}},
		{"headers", "parley", web, own, `{"jsonrpc":"2.0","id":1,"method":"x"}`, []string{`-H 'X-A: it'\''s' -H 'X-Api-Key` + "`id`" + `: '"$X_API_KEY_ID_" x`}},
		{"a program", "parley", Target{Command: []string{"srv", "--all the"}}, nil, `{"jsonrpc":"2.0","id":1,"method":"x"}`, []string{`parley call x -- srv '--all the'`}},
		{"headers", "curl", web, own, `{"a":"it's"}`, []string{`-H 'X-A: it'\''s'`, `'X-Api-Key` + "`id`" + `: '"$X_API_KEY_ID_"`, `-H 'Accept:'`, `--data-binary '{"a":"it'\''s"}'`}},
		{"like a file", "curl", web, nil, `@/etc/passwd`, []string{`--data-raw @/etc/passwd`}},
		{"no text", "curl", web, nil, "\xff%'\x00a", []string{`printf '\377\045\047\000a' | curl`, `--data-binary @-`}},
		{"another carrier", "curl", tcp, nil, `[1]`, []string{": 'curl supports only HTTP; this target is tcp://127.0.0.1:2'\nprintf %s '[1]' | parley call"}},
		{"a call", "go", web, nil, `{"jsonrpc":"2.0","id":1,"method":"x","params":["` + "`" + `"]}`, []string{`parley.ParseTarget("http://127.0.0.1:1/rpc")`, `client, "x", jsonrpc.Raw("[\"` + "`" + `\"]"))`}},
		{"a notification", "go", tcp, nil, `{"jsonrpc":"2.0","method":"x"}`, []string{`client.Notify(ctx, "x", nil)`}},
		{"a batch", "go", web, own, `[1]`, []string{`body := "[1]"`, `"X-A": {"it's"}`, `os.Getenv("X_API_KEY_ID_")`}},
		{"a batch over TCP", "go", tcp, nil, "[\xff]", []string{`burst.Add([]byte("[\xff]"))`, `dialer.Open(ctx, target)`}},
		{"a program", "go", Target{Command: []string{"srv", `a"b`}}, nil, `{"jsonrpc":"2.0","id":1,"method":"x"}`, []string{"parley.Command(\"srv\", `a\"b`)"}},
		{"a request", "python", web, own, `{"a":"\n"}`, []string{`r"""{"a":"\n"}""".encode()`, `os.environ["X_API_KEY_ID_"]`, `"X-A": "it's"`}},
		{"no text", "python", web, nil, "\xff\"", []string{`b"\xff\x22"`}},
		{"a text with three quotes", "python", web, nil, `["""]`, []string{`"[\"\"\"]".encode()`}},
		{"over TCP", "python", tcp, nil, `[1]`, []string{`socket.create_connection(("127.0.0.1", 2))`, `"[1]".encode() + b"\n"`}},
		{"over a Unix socket", "python", Target{Address: "unix:/tmp/a b"}, nil, `[1]`, []string{`connection.connect("/tmp/a b")`}},
		{"over a WebSocket", "python", Target{Address: "ws://127.0.0.1:1/rpc"}, nil, `[1]`, []string{`subprocess.run("printf %s '[1]' | parley call ws://127.0.0.1:1/rpc --raw -d -"`}},
	} {
		t.Run(c.as+" "+c.name, func(t *testing.T) {
			c.spec.Plain = true
			m := New(c.spec, []byte(c.text), c.headers, false)
			got := map[string]func() string{"curl": m.Curl, "parley": m.Parley, "go": m.Go, "python": m.Python}[c.as]()
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q as %s is\n%s\nwant in it\n%s", c.text, c.as, got, want)
				}
			}
			if c.as == "go" {
				if _, err := parser.ParseFile(token.NewFileSet(), "main.go", got, parser.AllErrors); err != nil {
					t.Errorf("%v:\n%s", err, got)
				}
			}
		})
	}
}
