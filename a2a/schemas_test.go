package a2a_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// The vendored schemas validate every message that the tests of this package send over [connect],
// in both directions.

func TestSchemasAreUnchanged(t *testing.T) {
	sums, err := os.ReadFile("testdata/schema/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(sums)), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d checksums", len(lines))
	}
	for _, line := range lines {
		want, name, _ := strings.Cut(line, "  ")
		text, err := os.ReadFile(filepath.Join("testdata/schema", name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not what was vendored", name)
		}
	}
}

// A judge holds the schemas of both versions.
type judge struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

var judges = sync.OnceValues(func() (*judge, error) {
	j := &judge{compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	old, err := read("testdata/schema/a2a-v0.3.schema.json")
	if err != nil {
		return nil, err
	}
	if err := j.compiler.AddResource("https://example.com/v0.3", old); err != nil {
		return nil, err
	}
	doc, err := read("testdata/schema/a2a-v1.0.schema.json")
	if err != nil {
		return nil, err
	}
	for title, def := range doc.(map[string]any)["definitions"].(map[string]any) {
		// The bundle stores each definition under its title, but the definitions refer to each
		// other by file name.
		name := "lf.a2a.v1." + strings.ReplaceAll(title, " ", "")
		switch title {
		case "Struct", "Timestamp", "Value":
			name = "google.protobuf." + title
		}
		if err := j.compiler.AddResource("https://example.com/v1/"+name+".jsonschema.json", def); err != nil {
			return nil, err
		}
	}
	return j, nil
})

func read(name string) (any, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}

// check validates a value against a definition and returns the error.
func check(t testing.TB, v a2a.Version, name string, text []byte) error {
	t.Helper()
	j, err := judges()
	if err != nil {
		t.Fatal(err)
	}
	url := "https://example.com/v1/lf.a2a.v1." + name + ".jsonschema.json"
	if v == a2a.V03 {
		url = "https://example.com/v0.3#/definitions/" + name
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.compiled[url]
	if s == nil {
		if s, err = j.compiler.Compile(url); err != nil {
			t.Fatal(err)
		}
		j.compiled[url] = s
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// params10 and results10 hold the names of the v1.0 definitions.
var params10 = map[string]string{
	a2a.MethodSend: "SendMessageRequest", a2a.MethodStreamSend: "SendMessageRequest", a2a.MethodGetTask: "GetTaskRequest",
	a2a.MethodListTasks: "ListTasksRequest", a2a.MethodCancelTask: "CancelTaskRequest", a2a.MethodSubscribe: "SubscribeToTaskRequest",
	a2a.MethodCreatePush: "TaskPushNotificationConfig", a2a.MethodGetPush: "GetTaskPushNotificationConfigRequest",
	a2a.MethodListPush: "ListTaskPushNotificationConfigsRequest", a2a.MethodDeletePush: "DeleteTaskPushNotificationConfigRequest",
	a2a.MethodExtendedCard: "GetExtendedAgentCardRequest",
}

var results10 = map[string]string{
	a2a.MethodSend: "SendMessageResponse", a2a.MethodStreamSend: "StreamResponse", a2a.MethodGetTask: "Task",
	a2a.MethodListTasks: "ListTasksResponse", a2a.MethodCancelTask: "Task", a2a.MethodSubscribe: "StreamResponse",
	a2a.MethodCreatePush: "TaskPushNotificationConfig", a2a.MethodGetPush: "TaskPushNotificationConfig",
	a2a.MethodListPush: "ListTaskPushNotificationConfigsResponse", a2a.MethodExtendedCard: "AgentCard", a2a.MethodCard: "AgentCard",
}

// requests03 and responses03 hold the names of the v0.3 definitions, which describe whole messages.
var requests03 = map[string]string{
	a2a.MethodSend03: "SendMessageRequest", a2a.MethodStreamSend03: "SendStreamingMessageRequest", a2a.MethodGetTask03: "GetTaskRequest",
	a2a.MethodCancelTask03: "CancelTaskRequest", a2a.MethodSubscribe03: "TaskResubscriptionRequest",
	a2a.MethodCreatePush03: "SetTaskPushNotificationConfigRequest", a2a.MethodGetPush03: "GetTaskPushNotificationConfigRequest",
	a2a.MethodListPush03: "ListTaskPushNotificationConfigRequest", a2a.MethodDeletePush03: "DeleteTaskPushNotificationConfigRequest",
	a2a.MethodExtendedCard03: "GetAuthenticatedExtendedCardRequest",
}

var responses03 = map[string]string{
	a2a.MethodSend03: "SendMessageResponse", a2a.MethodStreamSend03: "SendStreamingMessageResponse", a2a.MethodGetTask03: "GetTaskResponse",
	a2a.MethodCancelTask03: "CancelTaskResponse", a2a.MethodSubscribe03: "SendStreamingMessageResponse",
	a2a.MethodCreatePush03: "SetTaskPushNotificationConfigResponse", a2a.MethodGetPush03: "GetTaskPushNotificationConfigResponse",
	a2a.MethodListPush03: "ListTaskPushNotificationConfigResponse", a2a.MethodDeletePush03: "DeleteTaskPushNotificationConfigResponse",
	a2a.MethodExtendedCard03: "GetAuthenticatedExtendedCardResponse",
}

// A tap is a transport that validates its messages.
type tap struct {
	jsonrpc.Transport
	t testing.TB

	mu      sync.Mutex
	methods map[string]string // of requests, by id
}

func (p *tap) Read() ([]byte, bool, error) {
	payload, more, err := p.Transport.Read()
	if err == nil {
		p.judge(payload)
	}
	return payload, more, err
}

func (p *tap) Write(b jsonrpc.Burst) error {
	for payload := range b.All() {
		p.judge(payload)
	}
	return p.Transport.Write(b)
}

func (p *tap) TryWrite(b jsonrpc.Burst) bool {
	for payload := range b.All() {
		p.judge(payload)
	}
	return p.Transport.TryWrite(b)
}

var metaMember = regexp.MustCompile(`"_meta":\{[^}]*\},?`)

func (p *tap) judge(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = jsonrpc.Scan(text, func(m *jsonrpc.Message) {
		id := strings.Clone(m.ID.String())
		switch {
		case m.Request && m.Method == a2a.MethodStream:
			p.judgeEvent(m)
		case m.Request && m.Method == a2a.Cancellation.Method:
		case m.Request:
			p.methods[id] = strings.Clone(m.Method)
			p.judgeRequest(m, text)
		case m.Error == nil:
			p.judgeResult(p.methods[id], m, text)
		}
	})
}

func (p *tap) judgeRequest(m *jsonrpc.Message, text []byte) {
	if name, old := requests03[m.Method]; old {
		p.report(a2a.V03, name, text)
	} else if name := params10[m.Method]; name != "" {
		// _meta is our extension, not in the schema.
		p.report(a2a.V10, name, bytes.ReplaceAll(metaMember.ReplaceAll(m.Params, nil), []byte(",}"), []byte("}")))
	}
}

func (p *tap) judgeEvent(m *jsonrpc.Message) {
	var in struct {
		RequestID jsonrpc.ID  `json:"request_id"`
		Response  jsonrpc.Raw `json:"response"`
	}
	if err := m.Params.Decode(&in); err != nil {
		p.t.Errorf("%v in %s", err, m.Params)
		return
	}
	method := p.methods[in.RequestID.String()]
	text, _ := jsonrpc.AppendResult(nil, jsonrpc.Version2, in.RequestID, in.Response)
	p.judgeResult(method, &jsonrpc.Message{Result: in.Response}, text)
}

func (p *tap) judgeResult(method string, m *jsonrpc.Message, text []byte) {
	if name, old := responses03[method]; old {
		p.report(a2a.V03, name, text)
	} else if name := results10[method]; name != "" {
		p.report(a2a.V10, name, m.Result)
	} else if method != a2a.MethodDeletePush {
		p.t.Errorf("no definition for the answer to %q: %s", method, text)
	}
}

func (p *tap) report(v a2a.Version, name string, text []byte) {
	if err := check(p.t, v, name, text); err != nil {
		p.t.Errorf("%v: no %s: %s\n%v", v, name, text, err)
	}
}
