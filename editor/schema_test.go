package editor_test

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

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// The vendored schema validates every message that the tests of this package send over [pair], in
// both directions, and the fields of every type.

func TestSchemaIsUnchanged(t *testing.T) {
	sum, err := os.ReadFile("testdata/schema/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	want, name, _ := strings.Cut(strings.TrimSpace(string(sum)), "  ")
	text, err := os.ReadFile("testdata/schema/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if got := sha256.Sum256(text); hex.EncodeToString(got[:]) != want {
		t.Errorf("%s is not what was vendored", name)
	}
}

// A definition is the part of a schema definition that the tests use.
type definition struct {
	Side       string                     `json:"x-side"`
	Method     string                     `json:"x-method"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	OneOf      []json.RawMessage          `json:"oneOf"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
}

// A book is the schema, compiled on demand.
type book struct {
	defs     map[string]definition
	params   map[string]string // definitions by method
	results  map[string]string
	compiler *jsonschema.Compiler

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema
}

const schemaURL = "https://example.com/v1.json"

var schema = sync.OnceValues(func() (*book, error) {
	text, err := os.ReadFile("testdata/schema/v1.json")
	if err != nil {
		return nil, err
	}
	var in struct {
		Defs map[string]definition `json:"$defs"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	b := &book{defs: in.Defs, params: map[string]string{}, results: map[string]string{}, compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	for name, d := range in.Defs {
		switch {
		case d.Method == "":
		case strings.HasSuffix(name, "Response"):
			b.results[d.Method] = name
		default:
			b.params[d.Method] = name
		}
	}
	return b, b.compiler.AddResource(schemaURL, doc)
})

func schemaOf(t testing.TB) *book {
	t.Helper()
	b, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// check validates a value against a definition.
func (b *book) check(name string, text []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.compiled[name]
	if s == nil {
		var err error
		if s, err = b.compiler.Compile(schemaURL + "#/$defs/" + name); err != nil {
			return err
		}
		b.compiled[name] = s
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// TestMethods checks that every method of the schema has a constant here, and vice versa.
func TestMethods(t *testing.T) {
	b := schemaOf(t)
	own := []string{editor.MethodInitialize, editor.MethodAuthenticate, editor.MethodLogout, editor.MethodNewSession, editor.MethodLoadSession,
		editor.MethodResumeSession, editor.MethodCloseSession, editor.MethodDeleteSession, editor.MethodListSessions, editor.MethodPrompt, editor.MethodSetMode,
		editor.MethodSetConfigOption, editor.MethodRequestPermission, editor.MethodReadTextFile, editor.MethodWriteTextFile, editor.MethodCreateTerminal,
		editor.MethodTerminalOutput, editor.MethodWaitForExit, editor.MethodKillTerminal, editor.MethodReleaseTerminal, editor.MethodElicit,
		editor.NotifyCancel, editor.NotifyUpdate, editor.NotifyElicitationDone, editor.NotifyCancelRequest}
	for _, m := range own {
		if b.params[m] == "" {
			t.Errorf("the schema has no %s", m)
		}
	}
	for m := range b.params {
		if !slices.Contains(own, m) {
			t.Errorf("%s has no constant", m)
		}
	}
}

// types maps definitions to the Go types that must have exactly their members.
var types = map[string]any{
	"InitializeRequest": editor.InitializeParams{}, "InitializeResponse": editor.InitializeResult{}, "ClientCapabilities": editor.ClientCapabilities{},
	"FileSystemCapabilities": editor.FileSystemCapabilities{}, "ClientSessionCapabilities": editor.ClientSessionCapabilities{},
	"SessionConfigOptionsCapabilities": editor.ConfigOptionCapabilities{}, "AuthCapabilities": editor.ClientAuthCapabilities{},
	"ElicitationCapabilities": editor.ElicitationCapabilities{}, "AgentCapabilities": editor.AgentCapabilities{}, "PromptCapabilities": editor.PromptCapabilities{},
	"McpCapabilities": editor.MCPCapabilities{}, "SessionCapabilities": editor.SessionCapabilities{}, "AgentAuthCapabilities": editor.AgentAuthCapabilities{},
	"AuthenticateRequest": editor.AuthenticateParams{}, "AuthenticateResponse": editor.Empty{}, "LogoutRequest": editor.Empty{}, "Implementation": editor.Implementation{},
	"Annotations": editor.Annotations{}, "ResourceLink": editor.ResourceLink{}, "ToolCall": editor.ToolCall{}, "ToolCallUpdate": editor.ToolCall{},
	"ToolCallLocation": editor.ToolLocation{}, "Diff": editor.Diff{}, "PermissionOption": editor.PermissionOption{}, "RequestPermissionRequest": editor.PermissionParams{},
	"RequestPermissionResponse": editor.PermissionResult{}, "ContentChunk": editor.Chunk{}, "Plan": editor.Plan{}, "PlanEntry": editor.PlanEntry{},
	"AvailableCommandsUpdate": editor.Commands{}, "AvailableCommand": editor.Command{}, "UnstructuredCommandInput": editor.CommandInput{}, "CurrentModeUpdate": editor.CurrentMode{},
	"ConfigOptionUpdate": editor.Options{}, "SessionInfoUpdate": editor.Info{}, "UsageUpdate": editor.Usage{}, "Cost": editor.Cost{}, "Notice": editor.Notice{},
	"CompactionUpdate": editor.Compaction{}, "CompactionSummaryChunk": editor.CompactionContent{}, "SessionNotification": editor.UpdateParams{},
	"NewSessionRequest": editor.NewSessionParams{}, "NewSessionResponse": editor.NewSessionResult{}, "LoadSessionRequest": editor.LoadSessionParams{},
	"LoadSessionResponse": editor.LoadSessionResult{}, "ResumeSessionRequest": editor.LoadSessionParams{}, "ResumeSessionResponse": editor.LoadSessionResult{},
	"CloseSessionRequest": editor.SessionParams{}, "DeleteSessionRequest": editor.SessionParams{}, "CancelNotification": editor.SessionParams{},
	"ListSessionsRequest": editor.ListSessionsParams{}, "ListSessionsResponse": editor.ListSessionsResult{}, "SessionInfo": editor.SessionInfo{},
	"SessionModeState": editor.Modes{}, "SessionMode": editor.Mode{}, "SetSessionModeRequest": editor.SetModeParams{}, "SessionConfigSelectOption": editor.ConfigValue{},
	"SessionConfigSelectGroup": editor.ConfigGroup{}, "SetSessionConfigOptionResponse": editor.SetConfigOptionResult{}, "PromptRequest": editor.PromptParams{},
	"PromptResponse": editor.PromptResult{}, "ReadTextFileRequest": editor.ReadTextFileParams{}, "ReadTextFileResponse": editor.ReadTextFileResult{},
	"WriteTextFileRequest": editor.WriteTextFileParams{}, "CreateTerminalRequest": editor.CreateTerminalParams{}, "CreateTerminalResponse": editor.CreateTerminalResult{},
	"TerminalOutputRequest": editor.TerminalParams{}, "WaitForTerminalExitRequest": editor.TerminalParams{}, "KillTerminalRequest": editor.TerminalParams{},
	"ReleaseTerminalRequest": editor.TerminalParams{}, "TerminalOutputResponse": editor.TerminalOutputResult{}, "TerminalExitStatus": editor.ExitStatus{},
	"WaitForTerminalExitResponse": editor.ExitStatus{}, "EnvVariable": editor.Variable{}, "HttpHeader": editor.Variable{}, "ElicitationSchema": editor.Form{},
	"EnumOption": editor.EnumOption{}, "CompleteElicitationNotification": editor.ElicitDoneParams{},
}

func TestTypesHaveTheMembersOfTheSchema(t *testing.T) {
	b := schemaOf(t)
	for name, value := range types {
		d, ok := b.defs[name]
		if !ok {
			t.Errorf("the schema has no %s", name)
			continue
		}
		own := map[string]bool{}
		for f := range fieldsOf(reflect.TypeOf(value)) {
			own[f] = true
			if d.Properties[f] == nil {
				t.Errorf("%s: the schema has no %s", name, f)
			}
		}
		for f := range d.Properties {
			if !own[f] {
				t.Errorf("%T has no %s of %s", value, f, name)
			}
		}
	}
}

// fieldsOf yields the JSON names of a struct's fields, and whether each is optional.
func fieldsOf(typ reflect.Type) func(yield func(string, bool) bool) {
	return func(yield func(string, bool) bool) {
		for f := range typ.Fields() {
			tag := f.Tag.Get("json")
			name, rest, _ := strings.Cut(tag, ",")
			if name == "" || !f.IsExported() {
				continue
			}
			if !yield(name, strings.Contains(rest, "omit")) {
				return
			}
		}
	}
}

// TestRequiredMembersAreAlwaysThere checks that members that the schema requires are never omitted.
func TestRequiredMembersAreAlwaysThere(t *testing.T) {
	b := schemaOf(t)
	for name, value := range types {
		// The title is added where it is required; resume may have more members.
		if name == "ToolCall" || name == "ResumeSessionRequest" {
			continue
		}
		for f, optional := range fieldsOf(reflect.TypeOf(value)) {
			if optional && slices.Contains(b.defs[name].Required, f) {
				t.Errorf("%T may leave out %s, which %s requires", value, f, name)
			}
		}
	}
}

// TestKinds checks that every kind in the schema's unions has a constant here.
func TestKinds(t *testing.T) {
	b := schemaOf(t)
	for def, own := range map[string][]string{
		"SessionUpdate": {editor.UserMessageChunk, editor.AgentMessageChunk, editor.AgentThoughtChunk, editor.ToolCallStarted, editor.ToolCallChanged, editor.PlanChanged,
			editor.CommandsChanged, editor.ModeChanged, editor.OptionsChanged, editor.InfoChanged, editor.UsageChanged, editor.Noticed, editor.CompactionChanged, editor.CompactionChunk},
		"ContentBlock":         {editor.KindText, editor.KindImage, editor.KindAudio, editor.KindLink, editor.KindResource},
		"ToolCallContent":      {editor.ShowContent, editor.ShowDiff, editor.ShowTerminal},
		"StopReason":           {string(editor.EndTurn), string(editor.MaxTokens), string(editor.MaxTurnRequests), string(editor.Refusal), string(editor.Cancelled)},
		"PermissionOptionKind": {string(editor.AllowOnce), string(editor.AllowAlways), string(editor.RejectOnce), string(editor.RejectAlways)},
		"ToolCallStatus":       {string(editor.StatusPending), string(editor.StatusInProgress), string(editor.StatusCompleted), string(editor.StatusFailed)},
		"ToolKind": {string(editor.ToolRead), string(editor.ToolEdit), string(editor.ToolDelete), string(editor.ToolMove), string(editor.ToolSearch), string(editor.ToolExecute),
			string(editor.ToolThink), string(editor.ToolFetch), string(editor.ToolSwitchMode), string(editor.ToolOther)},
		"RequestPermissionOutcome": {editor.OutcomeSelected, editor.OutcomeCancelled},
	} {
		var kinds []string
		for _, variant := range append(b.defs[def].OneOf, b.defs[def].AnyOf...) {
			var v struct {
				Const      string `json:"const"`
				Properties map[string]struct {
					Const string `json:"const"`
				} `json:"properties"`
			}
			if err := json.Unmarshal(variant, &v); err != nil {
				t.Fatal(err)
			}
			if v.Const != "" {
				kinds = append(kinds, v.Const)
			}
			for _, p := range v.Properties {
				if p.Const != "" {
					kinds = append(kinds, p.Const)
				}
			}
		}
		slices.Sort(kinds)
		slices.Sort(own)
		if !slices.Equal(kinds, own) {
			t.Errorf("%s: the schema has %q, this package %q", def, kinds, own)
		}
	}
}

// A tap is a transport that validates its messages.
type tap struct {
	jsonrpc.Transport
	t testing.TB

	mu  sync.Mutex
	log []tapped
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

// TryWrite reports false, so that Write is called, which records the message.
func (p *tap) TryWrite(jsonrpc.Burst) bool { return false }

func (p *tap) note(out bool, payload []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, tapped{out, bytes.Clone(payload)})
}

// judge validates all recorded messages against the schema.
func (p *tap) judge() {
	b := schemaOf(p.t)
	p.mu.Lock()
	defer p.mu.Unlock()
	type call struct {
		out bool
		id  string
	}
	methods := map[call]string{}
	judged := 0
	for _, m := range p.log {
		_ = jsonrpc.Scan(m.text, func(msg *jsonrpc.Message) {
			var name string
			var text []byte
			switch {
			case msg.Request && strings.HasPrefix(msg.Method, "_"):
				return
			case msg.Request:
				methods[call{m.out, msg.ID.String()}] = msg.Method
				name, text = b.params[msg.Method], msg.Params
			case msg.Error != nil:
				name, text = "Error", msg.Error
			default:
				method := methods[call{!m.out, msg.ID.String()}]
				if strings.HasPrefix(method, "_") {
					return
				}
				name, text = b.results[method], msg.Result
			}
			if name == "" {
				return // the method does not exist
			}
			judged++
			if err := b.check(name, text); err != nil {
				p.t.Errorf("no %s: %s\n%v", name, m.text, err)
			}
		})
	}
	if judged == 0 {
		p.t.Error("nothing was judged")
	}
}
