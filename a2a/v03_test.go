package a2a_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]a2a.Version{
		"": a2a.V03, " ": a2a.V03, "0.3": a2a.V03, "0.3.0": a2a.V03, "1.0": a2a.V10, "1.0.1": a2a.V10, " 1.0 ": a2a.V10,
		"1": 0, "1.1": 0, "0.2": 0, "1.0.x": 0, "1.0.": 0, "v1.0": 0, "1.0,0.3": 0,
	} {
		if got := a2a.ParseVersion(text); got != want {
			t.Errorf("ParseVersion(%q) = %v, want %v", text, got, want)
		}
	}
}

// TestEverythingSurvivesTheOlderVersion converts everything that both versions can express to v0.3
// and back, with a client of 0.3 and a server that uses 1.0 internally.
func TestEverythingSurvivesTheOlderVersion(t *testing.T) {
	parts := []a2a.Part{
		a2a.Text("text"), a2a.File("a.txt", "text/plain", []byte("\x00\xffbytes")),
		{Kind: a2a.KindURL, URL: "https://example.com/a", MediaType: "text/plain", Filename: "a"},
		{Kind: a2a.KindData, Data: jsonrpc.Raw(`{"n":9007199254740993}`), Metadata: a2a.Metadata{"k": jsonrpc.Raw(`[1]`)}},
	}
	both(t, func(ctx context.Context, r *a2a.Run) error {
		if diff := cmp.Diff(parts, r.Message.Parts); diff != "" {
			t.Errorf("the agent got %s", diff)
		}
		if err := r.Update(ctx, a2a.StateWorking, a2a.Metadata{"progress": jsonrpc.Raw("0.5")}, r.Message.Parts...); err != nil {
			return err
		}
		return r.Chunk(ctx, a2a.Artifact{ArtifactID: "a", Name: "n", Description: "d", Parts: r.Message.Parts, Metadata: r.Metadata, Extensions: []string{"urn:e"}}, false, true)
	}, nil, func(t *testing.T, c *a2a.Client) {
		r := &a2a.SendRequest{Message: a2a.UserMessage(parts...), Metadata: a2a.Metadata{"m": jsonrpc.Raw(`"v"`)}, Configuration: &a2a.Configuration{HistoryLength: new(5)}}
		r.Message.Extensions, r.Message.ReferenceTaskIDs, r.Message.Metadata = []string{"urn:e"}, []string{"t"}, a2a.Metadata{"x": jsonrpc.Raw(`null`)}
		var task a2a.Task
		for e, err := range c.Stream(t.Context(), r) {
			if err != nil {
				t.Fatal(err)
			}
			task.Apply(e)
		}
		want := a2a.Artifact{ArtifactID: "a", Name: "n", Description: "d", Parts: parts, Metadata: r.Metadata, Extensions: []string{"urn:e"}}
		if diff := cmp.Diff([]a2a.Artifact{want}, task.Artifacts); diff != "" {
			t.Errorf("artifacts: %s", diff)
		}
		sent := task.History[0]
		sent.TaskID, sent.ContextID = "", ""
		if diff := cmp.Diff(*r.Message, sent); diff != "" {
			t.Errorf("history: %s", diff)
		}
		if string(task.Metadata["progress"]) != "0.5" {
			t.Errorf("metadata %v", task.Metadata)
		}
		again, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&task, again); diff != "" {
			t.Errorf("what the stream told is not the task: %s", diff)
		}
	})
}

func TestDataThatIsNoObjectIsWrappedForTheOlderVersion(t *testing.T) {
	c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Data([]int{1, 2})}})
	}), nil), &a2a.ClientOptions{Version: a2a.V03})
	got, err := c.Send(t.Context(), text("x"))
	if err != nil || string(got.Task.Artifacts[0].Parts[0].Data) != `{"value":[1,2]}` {
		t.Errorf("Send = %+v, %v", got.Task, err)
	}
}

func TestParts(t *testing.T) {
	for in, want := range map[string]string{
		`{"text":""}`:                             `{"text":""}`,
		`{"raw":"-_8="}`:                          `{"raw":"+/8="}`, // the URL-safe alphabet
		`{"raw":"aGk"}`:                           `{"raw":"aGk="}`,
		`{"data":null}`:                           `{"data":null}`,
		`{"text":"x","data":null,"metadata":{}}`:  `{"text":"x"}`,
		`{"url":"u","mediaType":"m","unknown":1}`: `{"url":"u","mediaType":"m"}`,
	} {
		var p a2a.Part
		if err := jsonrpc.Raw(in).Decode(&p); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got, err := p.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%s came back as %s, %v", in, got, err)
		}
	}
	for _, in := range []string{`{}`, `{"text":null}`, `{"text":"a","url":"b"}`, `{"raw":"*"}`, `{"raw":7}`, `[]`} {
		if err := jsonrpc.Raw(in).Decode(new(a2a.Part)); err == nil {
			t.Errorf("%s was taken", in)
		}
	}
}

// TestCardsOfBothVersions checks that a v0.3 card is a v0.3 card also where both versions express
// the same with different members.
func TestCardsOfBothVersions(t *testing.T) {
	c := card()
	c.SupportedInterfaces = append(c.SupportedInterfaces, a2a.AgentInterface{URL: "http://127.0.0.1/rest", ProtocolBinding: a2a.BindingREST, ProtocolVersion: "0.3"})
	c.Capabilities.ExtendedAgentCard = true
	c.SecuritySchemes = map[string]a2a.SecurityScheme{
		"key":   {APIKey: &a2a.APIKeyScheme{Location: "header", Name: "X-API-Key"}},
		"http":  {HTTP: &a2a.HTTPAuthScheme{Scheme: "Bearer", BearerFormat: "JWT"}},
		"oauth": {OAuth2: &a2a.OAuth2Scheme{Flows: a2a.OAuthFlows{AuthorizationCode: &a2a.OAuthFlow{AuthorizationURL: "https://a", TokenURL: "https://t", Scopes: map[string]string{"s": "d"}, PKCERequired: true}}}},
		"oidc":  {OpenID: &a2a.OpenIDScheme{URL: "https://o"}},
		"mtls":  {MutualTLS: &a2a.MutualTLSScheme{Description: "d"}},
	}
	c.SecurityRequirements = []a2a.SecurityRequirement{{Schemes: map[string]a2a.StringList{"oauth": {List: []string{"s"}}, "key": {List: []string{}}}}}
	c.Skills[0].SecurityRequirements = []a2a.SecurityRequirement{{Schemes: map[string]a2a.StringList{"oidc": {List: []string{"openid"}}}}}
	if err := check(t, a2a.V10, "AgentCard", a2a.EncodeCard(&c, false)); err != nil {
		t.Errorf("1.0: %v", err)
	}
	union := a2a.EncodeCard(&c, true)
	if err := check(t, a2a.V03, "AgentCard", union); err != nil {
		t.Errorf("0.3: %v\n%s", err, union)
	}
	for name, text := range map[string][]byte{"1.0": a2a.EncodeCard(&c, false), "both": union} {
		got, err := a2a.ParseCard(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&c, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestTheCardOfAnOldAgent parses the card of a server that supports only 0.3.
func TestTheCardOfAnOldAgent(t *testing.T) {
	old := `{"protocolVersion":"0.3.0","name":"n","description":"d","url":"https://x/rpc","preferredTransport":"JSONRPC","version":"1",
		"additionalInterfaces":[{"url":"https://x/rpc","transport":"JSONRPC"},{"url":"https://x/rest","transport":"HTTP+JSON"}],
		"capabilities":{"streaming":true,"stateTransitionHistory":false},"supportsAuthenticatedExtendedCard":true,
		"securitySchemes":{"b":{"type":"http","scheme":"bearer"}},"security":[{"b":[]}],
		"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":null}`
	if err := check(t, a2a.V03, "AgentCard", []byte(strings.Replace(old, "null", "[]", 1))); err != nil {
		t.Fatal(err)
	}
	got, err := a2a.ParseCard([]byte(old)) // a2a-go sends this null
	if err != nil {
		t.Fatal(err)
	}
	want := []a2a.AgentInterface{{URL: "https://x/rpc", ProtocolBinding: "JSONRPC", ProtocolVersion: "0.3"}, {URL: "https://x/rest", ProtocolBinding: "HTTP+JSON", ProtocolVersion: "0.3"}}
	if diff := cmp.Diff(want, got.SupportedInterfaces); diff != "" {
		t.Error(diff)
	}
	if !got.Capabilities.ExtendedAgentCard || got.SecuritySchemes["b"].HTTP == nil || len(got.SecurityRequirements) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestErrorsOfTheEngineGetTheShapeOfTheProtocol(t *testing.T) {
	for in, want := range map[string]string{
		`{"reason":"busy","retryable":true,"retryAfterMs":250}`: `[{"@type":"` + a2a.TypeErrorInfo + `","reason":"BUSY","domain":"github.com/da1ed7bb/parley","metadata":{"retryAfterMs":"250"}}]`,
		`{"pointer":"/a/0","reason":"want string"}`:             `[{"@type":"` + a2a.TypeErrorInfo + `","reason":"INVALID_PARAMS","domain":"a2a-protocol.org"},{"@type":"` + a2a.TypeBadRequest + `","fieldViolations":[{"field":"a[0]","description":"want string"}]}]`,
		`[{"@type":"x"}]`: `[{"@type":"x"}]`,
		``:                ``,
	} {
		if got := a2a.Reshape(&jsonrpc.Error{Code: 1, Data: jsonrpc.Raw(in)}); string(got.Data) != want {
			t.Errorf("%s became %s", in, got.Data)
		}
	}
}

func TestTasksOutliveTheServer(t *testing.T) {
	kept := store.NewMemory(store.Limits{})
	defer kept.Close()
	hold := make(chan struct{})
	agent := a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		switch r.Message.Text() {
		case "ask":
			return r.Status(ctx, a2a.StateInputRequired, a2a.Text("More?"))
		case "hold":
			if err := r.Working(ctx); err != nil {
				return err
			}
			close(hold)
			<-ctx.Done()
			return context.Cause(ctx)
		case "long": // more events than one log may have
			for range 1100 {
				if err := r.Chunk(ctx, a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text("x")}}, true, false); err != nil {
					return err
				}
			}
			return nil
		}
		return echo(ctx, r)
	})
	o := &a2a.ServerOptions{Store: kept, Principal: func(context.Context) string { return "ann/1" }}
	first := a2a.NewServer(card(), agent, o)
	c := connect(t, first, nil)
	done := text("done")
	before, err := c.Send(t.Context(), done)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := c.Send(t.Context(), text("ask"))
	if err != nil {
		t.Fatal(err)
	}
	long, err := c.Send(t.Context(), text("long"))
	if err != nil {
		t.Fatal(err)
	}
	running := text("hold")
	running.Configuration = &a2a.Configuration{ReturnImmediately: true}
	held, err := c.Send(t.Context(), running)
	if err != nil {
		t.Fatal(err)
	}
	<-hold
	heads, err := kept.Heads(t.Context(), "a2a/tasks/ann%2F1/", "", 100)
	if err != nil || len(heads) != 4 {
		t.Fatalf("%d logs, %v", len(heads), err)
	}

	second := a2a.NewServer(card(), agent, o) // simulates a crash: the first server is not closed
	if err := second.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = connect(t, second, nil)
	for _, want := range []a2a.Event{before, asked, long} {
		got, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: want.Task.ID})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Task, got); diff != "" {
			t.Errorf("after the restart: %s", diff)
		}
	}
	if got, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: held.Task.ID}); err != nil || got.Status.State != a2a.StateFailed {
		t.Errorf("what was at work is %+v, %v", got, err)
	}
	if got, err := c.Send(t.Context(), done); err != nil || got.Task.ID != before.Task.ID {
		t.Errorf("the same message again made %+v, %v", got.Task, err)
	}
	more := text("the answer")
	more.Message.TaskID = asked.Task.ID
	if got, err := c.Send(t.Context(), more); err != nil || got.Task.Text() != "the answer" {
		t.Errorf("the answer to a question from before: %+v, %v", got.Task, err)
	}
}

// TestAStoreThatFails checks that a failing store stops the agent, and that the caller receives the
// reason as an error of the protocol.
func TestAStoreThatFails(t *testing.T) {
	kept := store.NewMemory(store.Limits{})
	_ = kept.Close()
	c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(echo), &a2a.ServerOptions{Store: kept}), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := c.Send(ctx, text("x")); err == nil {
		t.Error("Send succeeded")
	}
}

func FuzzEvent03(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"task","id":"T","contextId":"C","status":{"state":"working"},"artifacts":[{"artifactId":"a","parts":[{"kind":"data","data":{}}]}]}`,
		`{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"file","file":{"bytes":"aGk="}}]}`,
		`{"kind":"status-update","taskId":"T","contextId":"C","status":{"state":"input-required"},"final":true}`,
		`{"kind":"artifact-update","taskId":"T","contextId":"C","artifact":{"artifactId":"a","parts":[]},"append":true}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		raw, err := jsonrpc.ParseRaw(in)
		if err != nil {
			return
		}
		e, err := a2a.EventOf03(raw)
		if err != nil {
			return
		}
		again, err := a2a.EventOf03(a2a.EventTo03(e))
		if err != nil {
			t.Fatalf("%s cannot be read again: %v", in, err)
		}
		if !bytes.Equal(a2a.EventTo03(e), a2a.EventTo03(again)) {
			t.Errorf("%s changes: %s, then %s", in, a2a.EventTo03(e), a2a.EventTo03(again))
		}
	})
}

func FuzzParams(f *testing.F) {
	for _, seed := range []string{
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]},"configuration":{"historyLength":0}}`,
		`{"message":{"message_id":"m","context_id":"c","role":"ROLE_USER","parts":[{"raw":"","media_type":"a/b"}],"metadata":{"task_id":1}}}`,
		`{"id":"x","history_length":1}`, `{"taskId":"x","url":"https://a","authentication":{"scheme":"b"}}`, `{"pageSize":1,"statusTimestampAfter":"2026-01-01T00:00:00Z"}`,
		`{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"x"}]}}`, `[]`, `{"id":"a","id":"b"}`,
	} {
		f.Add(seed)
	}
	s := a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error { return r.Reply(ctx, r.Message.Parts...) }), nil)
	f.Cleanup(s.Close)
	var a jsonrpc.Answerer
	s.Configure(&a)
	methods := []string{a2a.MethodSend, a2a.MethodGetTask, a2a.MethodListTasks, a2a.MethodCancelTask, a2a.MethodCreatePush, a2a.MethodListPush,
		a2a.MethodSend03, a2a.MethodGetTask03, a2a.MethodCreatePush03, a2a.MethodGetPush03, a2a.MethodExtendedCard}
	f.Fuzz(func(t *testing.T, params string) {
		if _, err := jsonrpc.ParseRaw([]byte(params)); err != nil {
			return
		}
		for _, method := range methods {
			payload := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
			out, fault := a.Answer(t.Context(), nil, []byte(payload), &jsonrpc.Exchange{})
			if _, err := jsonrpc.ParseRaw(out); err != nil {
				t.Errorf("%s is answered %s: %v", payload, out, err)
			}
			if fault != nil && fault.Code == jsonrpc.CodeInternalError {
				t.Errorf("%s is answered %s", payload, out)
			}
		}
	})
}

func FuzzCard(f *testing.F) {
	f.Add([]byte(`{"name":"n","supportedInterfaces":[{"url":"u","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"securitySchemes":{"a":{"type":"apiKey"}}}`))
	f.Add([]byte(`{"protocolVersion":"0.3.0","url":"u","skills":null,"security":[{"a":["b"]}],"additionalInterfaces":[{"url":"v","transport":"GRPC"}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := a2a.ParseCard(in)
		if err != nil {
			return
		}
		for _, union := range []bool{false, true} {
			text := a2a.EncodeCard(c, union)
			again, err := a2a.ParseCard(text)
			if err != nil {
				t.Fatalf("%s cannot be read again: %v", text, err)
			}
			if !bytes.Equal(a2a.EncodeCard(again, union), text) {
				t.Errorf("%s changes: %s, then %s", in, text, a2a.EncodeCard(again, union))
			}
		}
	})
}
