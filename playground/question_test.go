package playground_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
)

// TestQuestions checks that a server's request waits for a person, and the response is sent to the
// right place: in an MCP session over HTTP, and on a socket.
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

// TestQuestionsOfTabs checks that a question belongs to the tab that made the call. Another tab
// cannot answer it without taking it over, and it cannot be answered twice.
func TestQuestionsOfTabs(t *testing.T) {
	web, tcp := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{
		{Name: "@tcp", Address: tcp}, {Name: "@table", Address: web + "/mcp", Protocol: playground.ProtocolMCP},
	}})
	for _, c := range []struct{ target, text, method string }{
		{"@tcp", `{"jsonrpc":"2.0","id":"q","method":"ask","params":["tea?"]}`, "answer"},
		{"@table", `{"jsonrpc":"2.0","id":"q","method":"tools/call","params":{"name":"book-table","arguments":{"restaurant":"Zur Linde","guests":4,"time":"2026-03-14T19:30"}}}`, "elicitation/create"},
	} {
		for _, taken := range []bool{false, true} {
			var s sent
			b.call("send", obj{"target": c.target, "text": c.text, "page": "one"}, &s)
			q := b.question(c.method)
			owner := "one"
			for _, page := range []string{"two", ""} {
				if e := b.try("answer", obj{"ref": q.Ref, "choice": 0, "page": page}, nil); e == nil || !strings.Contains(e.Message, "another tab") {
					t.Errorf("%s: tab %q answers the question of tab one: %v", c.target, page, e)
				}
			}
			if taken {
				owner = "two"
				b.call("questions/take", obj{"ref": q.Ref, "page": "two"}, nil)
				if e := b.try("answer", obj{"ref": q.Ref, "choice": 0, "page": "one"}, nil); e == nil {
					t.Errorf("%s: tab one answers what tab two has taken over", c.target)
				}
			}
			// Of many concurrent answers, exactly one is sent.
			var right atomic.Int32
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if b.try("answer", obj{"ref": q.Ref, "text": q.Draft, "page": owner}, nil) == nil {
						right.Add(1)
					}
				})
			}
			wg.Wait()
			if n := right.Load(); n != 1 {
				t.Errorf("%s: %d of 8 answers were sent, want one", c.target, n)
			}
			b.answerTo(s.Ref)
			for _, page := range []string{"one", "two", ""} {
				if e := b.try("answer", obj{"ref": q.Ref, "choice": 0, "page": page}, nil); e == nil || !strings.Contains(e.Message, "not an open question") {
					t.Errorf("%s: answered twice: %v", c.target, e)
				}
				if e := b.try("questions/take", obj{"ref": q.Ref, "page": page}, nil); e == nil {
					t.Errorf("%s: a closed question is taken over", c.target)
				}
			}
		}
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

// question waits for a question by following changes, as the page does.
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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

// TestQuestionsThatWaitAreWeighed checks that a server cannot make the page hold more than 8 MiB of
// questions, and that smaller ones are still shown.
func TestQuestionsThatWaitAreWeighed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		long := strings.Repeat("x", 1<<20)
		for i := range 10 {
			if _, err := fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%d,"method":"long","params":[%q]}`+"\n", i, long); err != nil {
				return
			}
		}
		if _, err := io.WriteString(c, `{"jsonrpc":"2.0","id":"s","method":"short"}`+"\n"); err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, c) // until the page is closed
	}()
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@tcp", Address: "tcp://" + l.Addr().String()}}})
	b.call("send", obj{"target": "@tcp", "text": `{"jsonrpc":"2.0","method":"x"}`}, nil)
	shown := 0
	b.follow(func(name string, params jsonrpc.Raw) bool {
		var in struct {
			Questions []asked `json:"questions"`
		}
		if name != "questions" || json.Unmarshal(params, &in) != nil {
			return false
		}
		shown = len(in.Questions)
		return slices.ContainsFunc(in.Questions, func(q asked) bool { return q.Method == "short" })
	})
	if shown != 8 {
		t.Errorf("%d questions are shown", shown)
	}
}
