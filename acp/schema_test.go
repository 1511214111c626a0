package acp_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// The vendored description validates the types, and every run, event and session in the tests of
// this package.

const schemaFile = "testdata/schema/openapi-0.2.0.yaml"

func TestSchemaIsUnchanged(t *testing.T) {
	sums, err := os.ReadFile("testdata/schema/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := strings.Cut(string(sums), " ")
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
		t.Errorf("%s is not what was vendored", schemaFile)
	}
}

// description is the vendored file, with OpenAPI's "nullable" converted to JSON Schema.
var description = sync.OnceValues(func() (map[string]any, error) {
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		return nil, err
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	nullable(doc)
	return doc.(map[string]any), nil
})

// nullable converts "nullable: true" to a choice with null.
func nullable(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			nullable(one)
		}
	case map[string]any:
		for _, one := range v {
			nullable(one)
		}
		if v["nullable"] != true {
			return
		}
		copied := map[string]any{}
		for key, value := range v {
			if key != "nullable" {
				copied[key] = value
				delete(v, key)
			}
		}
		delete(v, "nullable")
		v["anyOf"] = []any{copied, map[string]any{"type": "null"}}
	}
}

var compiled struct {
	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
}

// judge validates a text against a schema of the description and returns the error.
func judge(name string, text []byte) error {
	doc, err := description()
	if err != nil {
		return err
	}
	compiled.mu.Lock()
	defer compiled.mu.Unlock()
	s := compiled.schemas[name]
	if s == nil {
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		if err := c.AddResource("https://example.com/acp", doc); err != nil {
			return err
		}
		if s, err = c.Compile("https://example.com/acp#/components/schemas/" + name); err != nil {
			return err
		}
		if compiled.schemas == nil {
			compiled.schemas = map[string]*jsonschema.Schema{}
		}
		compiled.schemas[name] = s
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// mustFit fails unless the schema accepts the text. One exception is what the description forbids
// but its own servers send: the message that has just begun, which has no parts and null as its
// end.
func mustFit(t testing.TB, name string, text []byte) {
	t.Helper()
	judged := bytes.Replace(text, []byte(`"parts":[],`), []byte(`"parts":[{"content_type":"text/plain"}],`), 1)
	judged = bytes.Replace(judged, []byte(`,"completed_at":null`), nil, 1)
	if err := judge(name, judged); err != nil {
		t.Errorf("no %s: %s\n%v", name, text, err)
	}
}

// TestTypesHaveTheMembersOfTheSchema checks that each Go type has the members of its schema, and
// always writes the required ones.
func TestTypesHaveTheMembersOfTheSchema(t *testing.T) {
	doc, err := description()
	if err != nil {
		t.Fatal(err)
	}
	schemas := doc["components"].(map[string]any)["schemas"].(map[string]any)
	at := func(path ...string) map[string]any {
		v := schemas
		for _, step := range path {
			v = v[step].(map[string]any)
		}
		return v
	}
	tests := []struct {
		name   string
		schema map[string]any
		value  any
		more   []string // members not in the description, and why
	}{
		{"Error", at("Error"), acp.Error{}, nil},
		{"Message", at("Message"), acp.Message{}, nil},
		{"MessagePart", at("MessagePart"), acp.MessagePart{}, nil},
		{"RunCreateRequest", at("RunCreateRequest"), acp.RunCreateRequest{}, nil},
		{"RunResumeRequest", at("RunResumeRequest"), acp.RunResumeRequest{}, nil},
		{"Run", at("Run"), acp.Run{}, nil},
		{"Session", at("Session"), acp.Session{}, nil},
		{"AgentManifest", at("AgentManifest"), acp.AgentManifest{}, nil},
		{"Status", at("Status"), acp.Status{}, nil},
		{"Metadata", at("Metadata"), acp.Metadata{}, nil},
		{"Capability", at("Metadata", "properties", "capabilities", "items"), acp.Capability{}, nil},
		{"Link", at("Link"), acp.AgentLink{}, nil},
		{"Person", at("Person"), acp.Person{}, nil},
		{"AgentDependency", at("AgentDependency"), acp.AgentDependency{}, nil},
		{"AgentsListResponse", at("AgentsListResponse"), acp.AgentsListResponse{}, nil},
		{"RunEventsListResponse", at("RunEventsListResponse"), acp.RunEventsListResponse{}, nil},
		{"CitationMetadata", at("CitationMetadata"), acp.PartMetadata{}, []string{"message", "tool_name", "tool_input", "tool_output"}},
		{"TrajectoryMetadata", at("TrajectoryMetadata"), acp.PartMetadata{}, []string{"start_index", "end_index", "url", "title", "description"}},
	}
	for _, tt := range tests {
		var have, always []string
		for field := range reflect.TypeOf(tt.value).Fields() {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			have = append(have, name)
			if !strings.Contains(options, "omit") {
				always = append(always, name)
			}
		}
		var want []string
		for name := range tt.schema["properties"].(map[string]any) {
			want = append(want, name)
		}
		want = append(want, tt.more...)
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("%s has\n%v, the schema\n%v", tt.name, have, want)
		}
		required, _ := tt.schema["required"].([]any)
		for _, name := range required {
			if name == "run_id" && tt.name == "RunResumeRequest" {
				continue // it is in the path, and clients omit it
			}
			if !slices.Contains(always, name.(string)) {
				t.Errorf("%s: %s is required, and may be left out", tt.name, name)
			}
		}
	}
}

// TestWordsOfTheSchema checks that each enumeration value has a constant.
func TestWordsOfTheSchema(t *testing.T) {
	for name, words := range map[string][]any{
		"RunStatus": {acp.RunCreated, acp.RunInProgress, acp.RunAwaiting, acp.RunCancelling, acp.RunCancelled, acp.RunCompleted, acp.RunFailed},
		"RunMode":   {acp.ModeSync, acp.ModeAsync, acp.ModeStream},
	} {
		doc, err := description()
		if err != nil {
			t.Fatal(err)
		}
		want := doc["components"].(map[string]any)["schemas"].(map[string]any)[name].(map[string]any)["enum"].([]any)
		if len(words) != len(want) {
			t.Errorf("%s: %v, the schema has %v", name, words, want)
		}
		for _, word := range words {
			text, err := json.Marshal(word)
			if err != nil {
				t.Fatal(err)
			}
			mustFit(t, name, text)
		}
	}
}

// TestFullValuesFit validates a value of each type with all its members.
func TestFullValuesFit(t *testing.T) {
	at := time.Date(2026, 11, 20, 14, 0, 0, 5e6, time.UTC)
	n, f := 3, 1.5
	citation := &acp.PartMetadata{Kind: acp.KindCitation, StartIndex: &n, EndIndex: &n, URL: "https://a.example", Title: "t", Description: "d"}
	trajectory := &acp.PartMetadata{Kind: acp.KindTrajectory, Message: "m", ToolName: "n", ToolInput: jsonrpc.Raw(`{}`), ToolOutput: jsonrpc.Raw(`{"a":1}`)}
	message := acp.Message{Role: "agent/a_B-1", CreatedAt: at, CompletedAt: at, Parts: []acp.MessagePart{
		{Name: "x", ContentType: "image/png", Content: "AA==", ContentEncoding: acp.EncodingBase64, Metadata: citation},
		{ContentType: "text/plain", ContentURL: "https://a.example/x", Metadata: trajectory},
	}}
	person := acp.Person{Name: "Ada", Email: "ada@a.example", URL: "https://a.example"}
	values := map[string]any{
		"Message": message,
		"AgentManifest": acp.AgentManifest{Name: "a", Description: "", InputContentTypes: []string{"*/*"}, OutputContentTypes: []string{"text/plain"},
			Status: &acp.Status{AvgRunTokens: &f, AvgRunTimeSeconds: &f, SuccessRate: &f},
			Metadata: &acp.Metadata{Annotations: acp.Extra{"x": jsonrpc.Raw("1")}, Documentation: "d", License: "Apache-2.0", ProgrammingLanguage: "Go",
				NaturalLanguages: []string{"en"}, Framework: "none", Capabilities: []acp.Capability{{Name: "c", Description: "d"}}, Domains: []string{"d"},
				Tags: []string{"Chat"}, CreatedAt: at, UpdatedAt: at, Author: &person, Contributors: []acp.Person{person},
				Links: []acp.AgentLink{{Type: "homepage", URL: "https://a.example"}}, Dependencies: []acp.AgentDependency{{Type: "tool", Name: "t"}},
				RecommendedModels: []string{"m"}}},
		"RunCreateRequest": acp.RunCreateRequest{AgentName: "a", Input: []acp.Message{message}, Mode: acp.ModeStream, SessionID: uuid1,
			Session: &acp.Session{ID: uuid1, History: []string{"https://a.example/1"}, State: "https://a.example/s"}},
		"RunResumeRequest": acp.RunResumeRequest{RunID: uuid1, AwaitResume: acp.Answer(acp.Text("yes")), Mode: acp.ModeSync},
		"Run": acp.Run{ID: uuid1, AgentName: "a", SessionID: uuid1, Status: acp.RunFailed, AwaitRequest: &acp.AwaitRequest{Type: "message", Message: &message},
			Output: []acp.Message{message}, Error: &acp.Error{Code: acp.CodeServerError, Message: "m", Data: jsonrpc.Raw(`{}`)}, CreatedAt: at, FinishedAt: at},
	}
	for name, value := range values {
		text, err := jsonrpc.AppendResult(nil, jsonrpc.Version2, jsonrpc.IntID(1), value)
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(text, &body); err != nil {
			t.Fatal(err)
		}
		mustFit(t, name, body.Result)
		// The encoded value decodes to an equal one.
		back := reflect.New(reflect.TypeOf(value))
		if err := jsonrpc.Raw(body.Result).Decode(back.Interface()); err != nil || !reflect.DeepEqual(back.Elem().Interface(), value) {
			t.Errorf("%s came back as %+v, %v", name, back.Elem().Interface(), err)
		}
	}
}

const uuid1 = "5f1ffb71-29a6-4b8c-8ae1-2d2a37a35f20"
