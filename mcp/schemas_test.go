package mcp_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// TestSchemasAreUnchanged checks the checksums of the vendored schemas. The schemas validate every
// message that the tests of this package send over [serve], in both directions.

func TestSchemasAreUnchanged(t *testing.T) {
	sums, err := os.ReadFile("testdata/schema/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(sums)), "\n")
	if len(lines) != len(mcp.Versions()) {
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

// A judge validates messages with the schema of one version.
type judge struct {
	version  mcp.Version
	compiler *jsonschema.Compiler
	url      string
	defs     string // "definitions" or "$defs"
	names    map[string]bool
	byMethod map[string]string // requests and notifications, by method

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
}

var judges = sync.OnceValues(func() (map[mcp.Version]*judge, error) {
	all := map[mcp.Version]*judge{}
	for _, v := range mcp.Versions() {
		text, err := os.ReadFile("testdata/schema/" + v.String() + ".json")
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		j := &judge{version: v, compiler: jsonschema.NewCompiler(), url: "https://example.com/" + v.String(), defs: "$defs",
			names: map[string]bool{}, byMethod: map[string]string{}, compiled: map[string]*jsonschema.Schema{}}
		if err := j.compiler.AddResource(j.url, doc); err != nil {
			return nil, err
		}
		root := doc.(map[string]any)
		if _, ok := root["$defs"]; !ok {
			j.defs = "definitions"
		}
		for name, def := range root[j.defs].(map[string]any) {
			j.names[name] = true
			props, _ := def.(map[string]any)["properties"].(map[string]any)
			method, _ := props["method"].(map[string]any)
			if constant, ok := method["const"].(string); ok {
				j.byMethod[constant] = name
			}
		}
		all[v] = j
	}
	return all, nil
})

func judgeOf(t testing.TB, v mcp.Version) *judge {
	t.Helper()
	all, err := judges()
	if err != nil {
		t.Fatal(err)
	}
	return all[v]
}

// check validates a value with a definition and returns the problems.
func (j *judge) check(name string, text []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.compiled[name]
	if s == nil {
		var err error
		if s, err = j.compiler.Compile(j.url + "#/" + j.defs + "/" + name); err != nil {
			return err
		}
		j.compiled[name] = s
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// results maps a method to the definition of its result.
var results = map[string]string{
	mcp.MethodInitialize: "InitializeResult", mcp.MethodPing: "EmptyResult", mcp.MethodDiscover: "DiscoverResult",
	mcp.MethodToolsList: "ListToolsResult", mcp.MethodToolsCall: "CallToolResult", mcp.MethodResourcesList: "ListResourcesResult",
	mcp.MethodResourceTemplatesList: "ListResourceTemplatesResult", mcp.MethodResourcesRead: "ReadResourceResult",
	mcp.MethodResourcesSubscribe: "EmptyResult", mcp.MethodResourcesUnsubscribe: "EmptyResult", mcp.MethodPromptsList: "ListPromptsResult",
	mcp.MethodPromptsGet: "GetPromptResult", mcp.MethodComplete: "CompleteResult", mcp.MethodSetLevel: "EmptyResult",
	mcp.MethodListen: "SubscriptionsListenResult", mcp.MethodRootsList: "ListRootsResult", mcp.MethodCreateMessage: "CreateMessageResult",
	mcp.MethodElicit: "ElicitResult", mcp.MethodTasksGet: "GetTaskResult", mcp.MethodTasksCancel: "CancelTaskResult",
	mcp.MethodTasksList: "ListTasksResult", mcp.MethodTasksResult: "GetTaskPayloadResult",
}

// extensions are the methods that the core schemas do not have in the modern era.
var extensions = []string{mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel, mcp.NotifyTask, mcp.MethodTasksResult}

// skillMethods are the methods that no schema has.
var skillMethods = []string{mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodDirectoryRead}

// A tap is a transport that records its messages for validation.
type tap struct {
	jsonrpc.Transport
	t testing.TB

	mu      sync.Mutex
	log     []tapped
	methods map[string]string // of requests, by direction and ID
}

type tapped struct {
	out  bool
	text []byte
}

func (p *tap) Read() ([]byte, bool, error) {
	payload, more, err := p.Transport.Read()
	if err == nil {
		p.note(false, payload)
	}
	return payload, more, err
}

func (p *tap) Write(b jsonrpc.Burst) error {
	for payload := range b.All() {
		p.note(true, payload)
	}
	return p.Transport.Write(b)
}

// TryWrite sends nothing, so that Write records all payloads.
func (p *tap) TryWrite(jsonrpc.Burst) bool { return false }

func (p *tap) note(out bool, payload []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, tapped{out, bytes.Clone(payload)})
}

// judge validates all recorded messages with the schemas. The version of legacy messages is the
// negotiated one.
func (p *tap) judge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.methods = map[string]string{}
	var legacy mcp.Version
	for _, m := range p.log {
		_ = jsonrpc.Scan(m.text, func(msg *jsonrpc.Message) {
			if msg.Request && !msg.ID.IsZero() {
				p.methods[direction(m.out)+msg.ID.String()] = msg.Method
			}
			var in struct {
				ProtocolVersion string `json:"protocolVersion"`
			}
			if !msg.Request && p.methods[direction(!m.out)+msg.ID.String()] == mcp.MethodInitialize && msg.Result != nil && msg.Result.Decode(&in) == nil {
				legacy = mcp.ParseVersion(in.ProtocolVersion)
			}
		})
	}
	modern := map[string]bool{}
	for _, m := range p.log {
		_ = jsonrpc.Scan(m.text, func(msg *jsonrpc.Message) {
			key := direction(m.out) + msg.ID.String()
			back := direction(!m.out) + msg.ID.String()
			if msg.Request {
				_, own := mcp.Envelope(&jsonrpc.Request{Method: msg.Method, Params: msg.Params})
				if !msg.ID.IsZero() {
					modern[key] = own
				} else {
					own = legacy == 0 || bytes.Contains(msg.Params, []byte(mcp.MetaSubscriptionID))
				}
				p.judgeRequest(msg, m.text, own, legacy)
				return
			}
			v := legacy
			if modern[back] {
				v = mcp.V20260728
			}
			p.judgeResponse(msg, m.text, p.methods[back], v)
		})
	}
}

func direction(out bool) string {
	if out {
		return "> "
	}
	return "< "
}

func (p *tap) judgeRequest(msg *jsonrpc.Message, text []byte, modern bool, legacy mcp.Version) {
	v := legacy
	if modern {
		v = mcp.V20260728
	}
	if v == 0 || v.Modern() && slices.Contains(extensions, msg.Method) || slices.Contains(skillMethods, msg.Method) {
		return
	}
	j := judgeOf(p.t, v)
	name := j.byMethod[msg.Method]
	if name == "" {
		p.t.Errorf("%v has no method %s: %s", v, msg.Method, text)
		return
	}
	if err := j.check(name, text); err != nil {
		p.t.Errorf("%v: no %s: %s\n%v", v, name, text, err)
	}
}

func (p *tap) judgeResponse(msg *jsonrpc.Message, text []byte, method string, v mcp.Version) {
	if v == 0 {
		return
	}
	j := judgeOf(p.t, v)
	if msg.Error != nil {
		name := "JSONRPCErrorResponse"
		if !j.names[name] {
			name = "JSONRPCError"
		}
		for code, own := range map[string]string{"-32020": "HeaderMismatchError", "-32021": "MissingRequiredClientCapabilityError", "-32022": "UnsupportedProtocolVersionError"} {
			if v.Modern() && bytes.Contains(msg.Error, []byte(`"code":`+code+`,`)) {
				name = own
			}
		}
		if err := j.check(name, text); err != nil {
			p.t.Errorf("%v: no %s: %s\n%v", v, name, text, err)
		}
		return
	}
	var kind struct {
		ResultType string          `json:"resultType"`
		Task       json.RawMessage `json:"task"`
	}
	_ = json.Unmarshal(msg.Result, &kind)
	name := results[method]
	switch {
	case slices.Contains(skillMethods, method):
		name = "Result"
	case kind.ResultType == mcp.ResultTask, v.Modern() && slices.Contains(extensions, method):
		name = "Result"
	case kind.ResultType == mcp.ResultInputRequired:
		name = "InputRequiredResult"
	case kind.Task != nil && method == mcp.MethodToolsCall:
		name = "CreateTaskResult"
	}
	if name == "" || !j.names[name] {
		p.t.Errorf("%v: no definition for the answer to %s", v, method)
		return
	}
	if err := j.check(name, msg.Result); err != nil {
		p.t.Errorf("%v: no %s: %s\n%v", v, name, text, err)
	}
}
