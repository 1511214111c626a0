package playground_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
)

// A server's question waits for a person, and the answer goes where it belongs: in an MCP session over HTTP, and on a socket.
func TestQuestions(t *testing.T) {
	web, tcp := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{
		{Name: "@tcp", Address: tcp}, {Name: "@table", Address: web + "/mcp", Protocol: playground.ProtocolMCP},
	}})
	for _, c := range []struct{ target, text, method, draft, result string }{
		{"@tcp", `{"jsonrpc":"2.0","id":"q","method":"ask","params":["tea?"]}`, "answer", `"result":""`, `"result":""`},
		{"@table", `{"jsonrpc":"2.0","id":"q","method":"tools/call","params":{"name":"book-table","arguments":{"restaurant":"Zur Linde","guests":4,"time":"2026-03-14T19:30"}}}`,
			"elicitation/create", `"action":"accept"`, `"content"`},
	} {
		t.Run(c.target, func(t *testing.T) {
			b.TB = t
			var s sent
			b.call("send", obj{"target": c.target, "text": c.text}, &s)
			q := b.question(c.method)
			if !strings.Contains(q.Draft, c.draft) || len(q.Choices) < 2 || q.Target != c.target {
				t.Errorf("the question is %+v", q)
			}
			var a sent
			b.call("answer", obj{"ref": q.Ref, "text": q.Draft}, &a)
			if got := b.text(a.Ref); got != q.Draft {
				t.Errorf("the answer on the wire is %s, want %s", got, q.Draft)
			}
			if got := b.answerTo(s.Ref); !strings.Contains(got, c.result) {
				t.Errorf("the call is answered with %s", got)
			}
			if e := b.try("answer", obj{"ref": q.Ref, "choice": 0}, nil); e == nil {
				t.Error("the question can be answered twice")
			}
		})
	}
}

type asked struct {
	Ref     string           `json:"ref"`
	Target  string           `json:"target"`
	Method  string           `json:"method"`
	Draft   string           `json:"draft"`
	Choices []map[string]any `json:"choices"`
	Rest    map[string]any   `json:",embed"`
}

// question waits for a question by following what is new, as the page does.
func (b *browser) question(method string) (found asked) {
	b.Helper()
	b.follow(func(name string, params jsonrpc.Raw) bool {
		var in struct {
			Questions []asked `json:"questions"`
		}
		if name != "questions" || json.Unmarshal(params, &in) != nil {
			return false
		}
		for _, q := range in.Questions {
			if q.Method == method {
				found = q
				return true
			}
		}
		return false
	})
	return found
}

// answerTo waits for the response to a request.
func (b *browser) answerTo(ref string) (text string) {
	b.Helper()
	at, err := capture.ParseRef(ref)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	log := b.page.Recorder()
	for {
		rev := log.Rev()
		if row, ok := log.Row(at); ok && !row.Answer.IsZero() {
			return b.text(row.Answer.String())
		}
		if err := log.Wait(ctx, rev); err != nil {
			b.Fatalf("#%s is not answered: %v", ref, err)
		}
	}
}
