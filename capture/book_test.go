package capture_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/capture"
)

// story makes events from a short notation: "> text" and "< text" are messages on connection 1;
// "open" and "close" are its start and end. "#n > text" is a message on HTTP exchange n; "#n POST",
// "#n 200" and "#n end" are its request head, response head and end.
func story(t *testing.T, lines string) []capture.Event {
	t.Helper()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	waited := time.Duration(0)
	events := []capture.Event{{Time: at, Kind: capture.KindOpen, Wire: &capture.WireInfo{Target: "@demo"}}}
	for text := range strings.Lines(strings.TrimSpace(lines)) {
		text = strings.TrimSpace(text)
		var e capture.Event
		if rest, ok := strings.CutPrefix(text, "#"); ok {
			if _, err := fmt.Sscan(rest, &e.Exchange); err != nil {
				t.Fatal(text, err)
			}
			_, text, _ = strings.Cut(rest, " ")
		}
		word, rest, _ := strings.Cut(text, " ")
		switch {
		case word == ">" || word == "<":
			e.Kind, e.Dir, e.Data = capture.KindMessage, capture.Out, []byte(rest)
			if word == "<" {
				e.Dir = capture.In
			}
		case word == "POST" || word == "GET":
			e.Kind, e.Dir, e.Method, e.URL, e.Header = capture.KindRequest, capture.Out, word, "/mcp", http.Header{}
			if rest != "" {
				e.Header.Set("Mcp-Session-Id", rest)
			}
		case word == "end":
			e.Kind = capture.KindEnd
		case word == "close":
			e.Kind, e.Text = capture.KindClose, rest
		case word == "wait":
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			waited = d
			continue
		default:
			e.Kind, e.Dir, e.Header = capture.KindResponse, capture.In, http.Header{}
			if _, err := fmt.Sscan(word, &e.Status); err != nil {
				t.Fatal(text, err)
			}
			if rest != "" {
				e.Header.Set("Mcp-Session-Id", rest)
			}
		}
		at = at.Add(time.Millisecond + waited)
		e.Time, waited = at, 0
		events = append(events, e)
	}
	for i := range events {
		e := &events[i]
		e.Seq, e.Conn, e.Size = int64(i+1), 1, len(e.Data)
	}
	return events
}

// told returns the final state of each row that a Book makes from a story, in short form.
func told(events []capture.Event, judges ...capture.Judge) string {
	b := capture.NewBook(judges...)
	rows := map[capture.Ref]capture.Row{}
	var order []capture.Ref
	for i := range events {
		for _, r := range b.Add(&events[i]) {
			if _, known := rows[r.Ref]; !known {
				order = append(order, r.Ref)
			}
			rows[r.Ref] = r
		}
	}
	var out strings.Builder
	for _, ref := range order {
		r := rows[ref]
		if r.Kind == capture.RowOpen || r.Kind == capture.RowClose {
			continue
		}
		fmt.Fprintf(&out, "%s %s", r.Ref, r.Kind)
		for _, p := range []struct{ name, value string }{
			{"", r.Method}, {"id=", r.ID}, {"under ", r.Parent.String()}, {"to ", r.Call.String()}, {"by ", r.Answer.String()}, {"", r.State},
		} {
			if p.value != "" {
				fmt.Fprintf(&out, " %s%s", p.name, p.value)
			}
		}
		if r.Count > 1 {
			fmt.Fprintf(&out, " x%d", r.Count)
		}
		for _, f := range r.Findings {
			mark := "!"
			if f.Doubt {
				mark = "?"
			}
			fmt.Fprintf(&out, " %s%s", mark, f.Rule)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func TestBook(t *testing.T) {
	repeats := func(l *capture.Look) {
		if l.Row.Kind == capture.RowRequest && l.Row.Method == "message/stream" {
			l.Repeats()
		}
	}
	for _, c := range []struct{ name, lines, want string }{
		{"a call", `
			> {"jsonrpc":"2.0","id":7,"method":"a"}
			< {"jsonrpc":"2.0","id":7,"result":1}`, `
			2 request a id=7 by 3 done
			3 result a id=7 under 2 to 2`},
		{"the same id both ways", `
			> {"jsonrpc":"2.0","id":1,"method":"ask"}
			< {"jsonrpc":"2.0","id":1,"method":"answer"}
			> {"jsonrpc":"2.0","id":1,"result":"tea"}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`, `
			2 request ask id=1 by 5 error
			3 request answer id=1 under 2 by 4 done
			4 result answer id=1 under 3 to 3
			5 error ask id=1 under 2 to 2`},
		{"ids that look alike are four", `
			> {"jsonrpc":"2.0","id":1,"method":"a"}
			> {"jsonrpc":"2.0","id":"1","method":"b"}
			> {"jsonrpc":"2.0","id":1.0,"method":"c"}
			< {"jsonrpc":"2.0","id":"1","result":0}
			< {"jsonrpc":"2.0","id":1.0,"result":0}
			< {"jsonrpc":"2.0","id":1,"result":0}`, `
			2 request a id=1 by 7 done
			3 request b id="1" by 5 done
			4 request c id=1.0 by 6 done
			5 result b id="1" under 3 to 3
			6 result c id=1.0 under 4 to 4
			7 result a id=1 under 2 to 2`},
		{"an id in use, an answer twice, an answer to nothing", `
			> {"jsonrpc":"2.0","id":1,"method":"a"}
			> {"jsonrpc":"2.0","id":1,"method":"b"}
			< {"jsonrpc":"2.0","id":1,"result":0}
			< {"jsonrpc":"2.0","id":1,"result":0}
			< {"jsonrpc":"2.0","id":1,"result":0}
			< {"jsonrpc":"2.0","id":2,"result":0}`, `
			2 request a id=1 by 4 done
			3 request b id=1 by 5 done !id-in-use
			4 result a id=1 under 2 to 2
			5 result b id=1 under 3 to 3
			6 result id=1 !answered-twice
			7 result id=2 !answers-nothing`},
		{"a batch with one bad member", `
			> [{"jsonrpc":"2.0","method":"sum","params":[1],"id":"1"},{"jsonrpc":"2.0","method":"n"},{"foo":"boo"}]
			< [{"jsonrpc":"2.0","id":"1","result":7},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}]`, `
			2 batch by 3 done
			2.1 request sum id="1" under 2 by 3.1 done
			2.2 notification n under 2
			2.3 request id=null under 2 by 3.2 error !envelope
			3 batch under 2 to 2
			3.1 result sum id="1" under 2.1 to 2.1
			3.2 error id=null under 2.3 to 2.3`},
		{"what is no JSON is answered with null", `
			> {"jsonrpc":
			< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}
			< Server listening
			< []`, `
			2 junk by 3 error !parse
			3 error id=null under 2 to 2
			4 junk !parse
			5 batch !envelope`},
		{"the connection ends, and one was late", `
			> {"jsonrpc":"2.0","id":1,"method":"a"}
			> {"jsonrpc":"2.0","id":2,"method":"b"}
			wait 75s
			< {"jsonrpc":"2.0","id":1,"result":0}
			close`, `
			2 request a id=1 by 4 done
			3 request b id=2 unanswered !unanswered
			4 result a id=1 under 2 to 2 ?late`},
		{"the client closes the connection", `
			> {"jsonrpc":"2.0","id":1,"method":"a"}
			< {"jsonrpc":"2.0","id":"q","method":"ask"}
			close closed by the client`, `
			2 request a id=1 cancelled
			3 request ask id="q" under 2 cancelled`},
		{"a notification under the only call that waits", `
			> {"jsonrpc":"2.0","id":1,"method":"a"}
			< {"jsonrpc":"2.0","method":"tick"}
			> {"jsonrpc":"2.0","id":2,"method":"b"}
			< {"jsonrpc":"2.0","method":"tick"}`, `
			2 request a id=1 waiting
			3 notification tick under 2
			4 request b id=2 waiting
			5 notification tick`},
		{"two callers over HTTP use the same id", `
			#1 POST
			#1 > {"jsonrpc":"2.0","id":1,"method":"a"}
			#2 POST
			#2 > {"jsonrpc":"2.0","id":1,"method":"b"}
			#2 200
			#2 < {"jsonrpc":"2.0","id":1,"result":0}
			#2 end
			#1 200
			#1 end`, `
			2 http POST under 3 done
			3 request a id=1 unanswered !unanswered
			4 http POST under 5 done
			5 request b id=1 by 7 done
			7 result b id=1 under 5 to 5`},
		{"a document that is JSON is not under itself", `
			#1 GET
			#1 200
			#1 < {"name":"courier","skills":[]}
			#1 end`, `
			2 http GET done
			4 request id=null !envelope`},
		{"a question on a stream is answered by another POST", `
			#1 POST s1
			#1 > {"jsonrpc":"2.0","id":1,"method":"tools/call"}
			#1 200
			#1 < {"jsonrpc":"2.0","method":"progress"}
			#1 < {"jsonrpc":"2.0","id":1,"method":"elicit"}
			#2 POST s1
			#2 > {"jsonrpc":"2.0","id":1,"result":{}}
			#2 202
			#2 end
			#1 < {"jsonrpc":"2.0","id":1,"result":{}}
			#1 end`, `
			2 http POST under 3 done
			3 request tools/call id=1 by 11 done
			5 notification progress under 3
			6 request elicit id=1 under 3 by 8 done
			7 http POST under 8 done
			8 result elicit id=1 under 6 to 6
			11 result tools/call id=1 under 3 to 3`},
		{"the answer comes on the other stream", `
			#1 GET
			#1 200
			#2 POST
			#2 > {"jsonrpc":"2.0","id":1,"method":"a"}
			#2 202
			#2 end
			#1 < {"jsonrpc":"2.0","id":1,"result":0}`, `
			2 http GET waiting
			4 http POST under 5 done
			5 request a id=1 by 8 done
			8 result a id=1 under 5 to 5`},
		{"HTTP says no", `
			#1 POST
			#1 > {"jsonrpc":"2.0","id":1,"method":"a"}
			#1 401
			#1 end`, `
			2 http POST under 3 error
			3 request a id=1 error`},
		{"one request, many responses", `
			#1 POST
			#1 > {"jsonrpc":"2.0","id":1,"method":"message/stream"}
			#1 200
			#1 < {"jsonrpc":"2.0","id":1,"result":0}
			#1 < {"jsonrpc":"2.0","id":1,"result":1}
			#1 end
			close`, `
			2 http POST under 3 done
			3 request message/stream id=1 by 6 done x2
			5 result message/stream id=1 under 3 to 3
			6 result message/stream id=1 under 3 to 3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.ReplaceAll(strings.TrimSpace(c.want), "\t", "") + "\n"
			if diff := cmp.Diff(want, told(story(t, c.lines), repeats)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
