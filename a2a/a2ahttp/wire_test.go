package a2ahttp_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// volatile matches ids and times, which differ with each run.
var volatile = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)

func steady(s string) string {
	return volatile.ReplaceAllStringFunc(s, func(m string) string {
		if strings.HasSuffix(m, "Z") {
			return "TIME"
		}
		return "ID"
	})
}

const (
	send10   = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"M","role":"ROLE_USER","contextId":"C","parts":[{"text":"hi"}]}}}`
	send03   = `{"jsonrpc":"2.0","id":"x","method":"message/send","params":{"message":{"kind":"message","messageId":"M","role":"user","contextId":"C","parts":[{"kind":"text","text":"hi"}]},"configuration":{"blocking":true}}}`
	task10   = `{"id":"ID","contextId":"C","status":{"state":"TASK_STATE_COMPLETED","timestamp":"TIME"},"artifacts":[{"artifactId":"a","parts":[{"text":"hi"}]}],"history":[{"messageId":"M","contextId":"C","taskId":"ID","role":"ROLE_USER","parts":[{"text":"hi"}]}]}`
	task03   = `{"kind":"task","id":"ID","contextId":"C","status":{"state":"completed","timestamp":"TIME"},"artifacts":[{"artifactId":"a","parts":[{"kind":"text","text":"hi"}]}],"history":[{"kind":"message","messageId":"M","contextId":"C","taskId":"ID","role":"user","parts":[{"kind":"text","text":"hi"}]}]}`
	info     = `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"`
	domain   = `","domain":"a2a-protocol.org"`
	badVers  = `{"code":-32009,"message":"This protocol version is not supported; supported: 1.0, 0.3","data":[` + info + `VERSION_NOT_SUPPORTED` + domain + `,"metadata":{"supported":"1.0, 0.3"}}]}`
	notFound = `{"code":-32001,"message":"Task not found","data":[` + info + `TASK_NOT_FOUND` + domain + `,"metadata":{"taskId":"nope"}}]}`
)

func badField(field, why string) string {
	return `{"code":-32602,"message":"Invalid params","data":[` + info + `INVALID_PARAMS` + domain + `},` +
		`{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"` + field + `","description":"` + why + `"}]}]}`
}

func failure(id, e string) string { return `{"jsonrpc":"2.0","error":` + e + `,"id":` + id + `}` }

func TestWire(t *testing.T) {
	ok := func(id, result string) string { return `{"jsonrpc":"2.0","result":` + result + `,"id":` + id + `}` }
	for _, one := range []struct {
		name, version, in string
		status            int
		want              string
	}{
		{"send, 1.0", "1.0", send10, 200, ok("1", `{"task":`+task10+`}`)},
		{"a patch part counts for nothing", "1.0.1", send10, 200, ok("1", `{"task":`+task10+`}`)},
		{"no version, but a name of 1.0", "", send10, 200, ok("1", `{"task":`+task10+`}`)},
		{"send, 0.3", "", send03, 200, ok(`"x"`, task03)},
		{"send, 0.3 by name", "0.3", send03, 200, ok(`"x"`, task03)},
		{"a name of 0.3 in 1.0", "1.0", send03, 200, failure(`"x"`, `{"code":-32601,"message":"Method not found"}`)},
		{"a name of 1.0 in 0.3", "0.3", send10, 200, failure("1", `{"code":-32601,"message":"Method not found"}`)},
		{"a version from elsewhere", "9.9", send10, 200, failure("1", badVers)},
		{"0.3 has no list", "", `{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{}}`, 200, failure("1", `{"code":-32601,"message":"Method not found"}`)},
		{"an unknown task", "1.0", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"nope"}}`, 200, failure("1", notFound)},
		{"the original name of a field", "1.0", `{"jsonrpc":"2.0","id":1,"method":"ListTaskPushNotificationConfigs","params":{"task_id":"nope"}}`, 200,
			failure("1", `{"code":-32003,"message":"Push Notification is not supported","data":[`+info+`PUSH_NOTIFICATION_NOT_SUPPORTED`+domain+`}]}`)},
		{"no params", "1.0", `{"jsonrpc":"2.0","id":1,"method":"SendMessage"}`, 200, failure("1", badField("message", "is required"))},
		{"params by position", "1.0", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":[1]}`, 200, failure("1", badField("", "params must be an object"))},
		{"no parts", "1.0", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"M","role":"ROLE_USER","parts":[]}}}`, 200,
			failure("1", badField("message.parts", "must have at least one part"))},
		{"a part of two contents", "1.0", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"M","role":"ROLE_USER","parts":[{"text":"a","url":"b"}]}}}`, 200,
			failure("1", badField("message.parts[0]", "a part must have exactly one of text, raw, url and data"))},
		{"a wrong kind", "", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"M","role":"user","parts":[{"kind":"text"}]}}}`, 200,
			failure("1", `{"code":-32602,"message":"Invalid params","data":[`+info+`INVALID_PARAMS`+domain+`},{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"message.parts[0]","description":"a part must have the kind \"text\", \"file\" or \"data\", and the members of that kind"}]}]}`)},
		{"an agent's role", "1.0", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"M","role":"ROLE_AGENT","parts":[{"text":"a"}]}}}`, 200,
			failure("1", badField("message.role", "must be ROLE_USER"))},
		{"the wrong type", "1.0", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":7}}`, 200, failure("1", badField("id", "wrong value"))},
		{"a member twice", "1.0", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"a","id":"b"}}`, 200, failure("1", badField("id", "duplicate member"))},
		{"a page too large", "1.0", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"pageSize":101}}`, 200, failure("1", badField("pageSize", "must be from 1 to 100"))},
		{"no such state", "1.0", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"status":"TASK_STATE_LAZY"}}`, 200, failure("1", badField("status", "is not a task state"))},
		{"not JSON", "1.0", `{"jsonrpc":`, 200, failure("null", `{"code":-32700,"message":"Parse error"}`)},
		{"an empty body", "1.0", ``, 200, failure("null", `{"code":-32700,"message":"Parse error"}`)},
		{"an empty batch", "1.0", `[]`, 200, failure("null", `{"code":-32600,"message":"Invalid Request"}`)},
		{"not a request", "1.0", `1`, 200, failure("null", `{"code":-32600,"message":"Invalid Request"}`)},
		{"a method that is no text", "", `{"jsonrpc":"2.0","id":1,"method":{}}`, 200, failure("1", `{"code":-32600,"message":"Invalid Request"}`)},
		{"a notification is not answered", "", `{"jsonrpc":"2.0","method":"message/ssend","params":{}}`, 204, ``},
		{"a batch", "1.0", `[{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"nope"}},{"jsonrpc":"2.0","id":2,"method":"ListTasks","params":{"contextId":"none"}}]`, 200,
			`[` + failure("1", notFound) + `,` + ok("2", `{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}`) + `]`},
		{"no stream in a batch", "1.0", `[{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"nope"}}]`, 200,
			`[` + failure("1", `{"code":-32004,"message":"Streams are not supported in a batch","data":[`+info+`UNSUPPORTED_OPERATION`+domain+`}]}`) + `]`},
		{"an error before the first event is plain", "1.0", `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"nope"}}`, 200, failure("1", notFound)},
	} {
		t.Run(one.name, func(t *testing.T) {
			s := serve(t, card(), echo, nil)
			got := s.ask(t, http.MethodPost, "/rpc", one.in, "A2A-Version", one.version, "Content-Type", "application/json")
			if got.status != one.status || steady(got.body) != one.want {
				t.Errorf("sent %s\ngot  %d %s\nwant %d %s", one.in, got.status, steady(got.body), one.status, one.want)
			}
			if kind := got.header.Get("Content-Type"); one.want != "" && kind != "application/json" {
				t.Errorf("Content-Type is %q", kind)
			}
		})
	}
}

func TestStreamsRepeatTheResponse(t *testing.T) {
	s := serve(t, card(), words, nil)
	got := s.ask(t, http.MethodPost, "/rpc", strings.Replace(send10, "SendMessage", "SendStreamingMessage", 1), "A2A-Version", "1.0")
	want := []string{
		`{"jsonrpc":"2.0","result":{"task":{"id":"ID","contextId":"C","status":{"state":"TASK_STATE_SUBMITTED","timestamp":"TIME"},"history":[{"messageId":"M","contextId":"C","taskId":"ID","role":"ROLE_USER","parts":[{"text":"hi"}]}]}},"id":1}`,
		`{"jsonrpc":"2.0","result":{"artifactUpdate":{"taskId":"ID","contextId":"C","artifact":{"artifactId":"a","parts":[{"text":"hi"}]}}},"id":1}`,
		`{"jsonrpc":"2.0","result":{"statusUpdate":{"taskId":"ID","contextId":"C","status":{"state":"TASK_STATE_COMPLETED","timestamp":"TIME"}}},"id":1}`,
	}
	if lines := steady(strings.Join(got.data(), "\n")); lines != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", lines, strings.Join(want, "\n"))
	}
	if !strings.HasPrefix(got.body, "id: 1\n") || !strings.Contains(got.body, "\nid: 3\n") || got.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%v %s", got.header, got.body)
	}

	old := s.ask(t, http.MethodPost, "/rpc", strings.NewReplacer("message/send", "message/stream", `"M"`, `"M2"`).Replace(send03))
	if lines := steady(strings.Join(old.data(), "\n")); !strings.HasSuffix(lines, `{"jsonrpc":"2.0","result":{"kind":"status-update","taskId":"ID","contextId":"C","status":{"state":"completed","timestamp":"TIME"},"final":true},"id":"x"}`) {
		t.Errorf("got\n%s", lines)
	}

	rest := s.ask(t, http.MethodPost, "/rest/message:stream", `{"message":{"messageId":"M3","role":"ROLE_USER","contextId":"C","parts":[{"text":"hi"}]}}`)
	if lines := steady(rest.data()[1]); lines != `{"artifactUpdate":{"taskId":"ID","contextId":"C","artifact":{"artifactId":"a","parts":[{"text":"hi"}]}}}` {
		t.Errorf("got\n%s", lines)
	}
}

// TestWhatIsAStreamEvenWithOneEvent covers the JavaScript SDKs: 0.3.14 accepts only a stream as the
// response to tasks/resubscribe, and 1.3.0 requires a stream for a single message too.
func TestWhatIsAStreamEvenWithOneEvent(t *testing.T) {
	s := serve(t, card(), echo, nil)
	got := s.ask(t, http.MethodPost, "/rpc", `{"jsonrpc":"2.0","id":1,"method":"tasks/resubscribe","params":{"id":"nope"}}`)
	if got.header.Get("Content-Type") != "text/event-stream" || len(got.data()) != 1 || got.data()[0] != failure("1", notFound) {
		t.Errorf("%v %s", got.header, got.body)
	}
	again := strings.Replace(send10, "SendMessage", "SendStreamingMessage", 1)
	s.ask(t, http.MethodPost, "/rpc", again)
	got = s.ask(t, http.MethodPost, "/rpc", again) // joins the finished task
	if got.header.Get("Content-Type") != "text/event-stream" || len(got.data()) != 1 || !strings.Contains(got.data()[0], "TASK_STATE_COMPLETED") {
		t.Errorf("%v %s", got.header, got.body)
	}
}

func TestREST(t *testing.T) {
	s := serve(t, card(), echo, nil)
	first := s.ask(t, http.MethodPost, "/rest/message:send", `{"message":{"messageId":"M","role":"ROLE_USER","contextId":"C","parts":[{"text":"hi"}]}}`, "A2A-Version", "1.0", "Content-Type", "application/a2a+json")
	if want := `{"task":` + task10 + `}`; first.status != 200 || steady(first.body) != want || first.header.Get("Content-Type") != "application/a2a+json" {
		t.Fatalf("got %d %v %s\nwant %s", first.status, first.header, steady(first.body), want)
	}
	id := volatile.FindString(first.body)
	bad := func(code, status, rest string) string {
		return `{"error":{"code":` + code + `,"status":"` + status + `",` + rest + `}}`
	}
	details := func(reason, more string) string { return `"details":[` + info + reason + domain + more + `}]` }
	for _, one := range []struct {
		name, method, path, body, version string
		status                            int
		want                              string
	}{
		{"get", "GET", "/tasks/" + id, "", "1.0", 200, task10},
		{"get for a tenant", "GET", "/acme/tasks/" + id, "", "", 200, task10},
		{"without history", "GET", "/tasks/" + id + "?historyLength=0", "", "", 200, task10[:strings.Index(task10, `,"history"`)] + "}"},
		{"list", "GET", "/tasks?contextId=C&pageSize=1&status=completed", "", "1.0", 200,
			`{"tasks":[{"id":"ID","contextId":"C","status":{"state":"TASK_STATE_COMPLETED","timestamp":"TIME"}}],"nextPageToken":"","pageSize":1,"totalSize":1}`},
		{"an unknown task", "GET", "/tasks/nope", "", "", 404, bad("404", "NOT_FOUND", `"message":"Task not found",`+details("TASK_NOT_FOUND", `,"metadata":{"taskId":"nope"}`))},
		{"cancel what is over", "POST", "/tasks/" + id + ":cancel", "null", "", 400, bad("400", "FAILED_PRECONDITION",
			`"message":"Task cannot be canceled",`+details("TASK_NOT_CANCELABLE", `,"metadata":{"state":"TASK_STATE_COMPLETED","taskId":"ID"}`))},
		{"subscribe to what is over", "GET", "/tasks/" + id + ":subscribe", "", "", 400, bad("400", "FAILED_PRECONDITION",
			`"message":"The task has ended; use GetTask instead",`+details("UNSUPPORTED_OPERATION", `,"metadata":{"state":"TASK_STATE_COMPLETED","taskId":"ID"}`))},
		{"another version", "GET", "/tasks", "", "0.3", 400, bad("400", "FAILED_PRECONDITION",
			`"message":"This protocol version is not supported here; supported: 1.0",`+details("VERSION_NOT_SUPPORTED", `,"metadata":{"supported":"1.0"}`))},
		{"not a number", "GET", "/tasks?pageSize=x", "", "", 400, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"Invalid params","details":[` + info + `INVALID_PARAMS` + domain + `},{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"pageSize","description":"want an integer"}]}]}}`},
		{"not JSON", "POST", "/message:send", "{", "", 400, bad("400", "INVALID_ARGUMENT", `"message":"Parse error","details":[]`)},
		{"nothing there", "GET", "/nothing", "", "", 404, "not found\n"},
		{"another verb", "PUT", "/tasks", "", "", 405, "allowed methods: GET\n"},
	} {
		t.Run(one.name, func(t *testing.T) {
			got := s.ask(t, one.method, "/rest"+one.path, one.body, "A2A-Version", one.version)
			if got.status != one.status || steady(got.body) != one.want {
				t.Errorf("got  %d %s\nwant %d %s", got.status, steady(got.body), one.status, one.want)
			}
		})
	}
	if got := s.ask(t, "GET", "/rest/tasks", "", "Accept", "application/json"); got.header.Get("Content-Type") != "application/json" {
		t.Errorf("Accept: application/json got %s", got.header.Get("Content-Type"))
	}
}

func TestWrongContentType(t *testing.T) {
	s := serve(t, card(), echo, nil)
	got := s.ask(t, http.MethodPost, "/rpc", send10, "Content-Type", "text/plain")
	if got.status != 415 || !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","error":{"code":-32005,`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	got = s.ask(t, http.MethodPost, "/rest/message:send", "{}", "Content-Type", "text/plain")
	if got.status != 415 || !strings.HasPrefix(got.body, `{"error":{"code":415,"status":"INVALID_ARGUMENT",`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := s.ask(t, http.MethodGet, "/rpc", ""); got.status != 405 || got.header.Get("Allow") != "POST" {
		t.Errorf("%d %v", got.status, got.header)
	}
	if got := s.ask(t, http.MethodPost, "/rpc", `"`+strings.Repeat("x", 5<<20)+`"`); got.status != 413 {
		t.Errorf("%d for a large body", got.status)
	}
}
