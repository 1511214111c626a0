package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// shelf is a Source with fixed lists.
type shelf struct {
	lists    map[mcp.ListKind][]mcp.Entry
	snapshot atomic.Pointer[string]
	call     func(ctx context.Context, r *mcp.Request) (jsonrpc.Raw, error)

	mu      sync.Mutex // guards the fields below
	updated map[string][]func()
	stopped int
}

func newShelf(call func(ctx context.Context, r *mcp.Request) (jsonrpc.Raw, error)) *shelf {
	s := &shelf{lists: map[mcp.ListKind][]mcp.Entry{}, call: call, updated: map[string][]func(){}}
	s.snapshot.Store(new("s1"))
	for i := range 5 {
		s.lists[mcp.ListOfTools] = append(s.lists[mcp.ListOfTools], mcp.Entry{Name: fmt.Sprint("t", i),
			Text: jsonrpc.Raw(fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))})
	}
	s.lists[mcp.ListOfPrompts] = []mcp.Entry{{Name: "p", Text: jsonrpc.Raw(`{"name":"p","arguments":[{"name":"a"}]}`)}}
	s.lists[mcp.ListOfResources] = []mcp.Entry{{Name: "x://r", Text: jsonrpc.Raw(`{"name":"r","uri":"x://r"}`)}}
	s.lists[mcp.ListOfTemplates] = []mcp.Entry{{Name: "x://{id}", Text: jsonrpc.Raw(`{"name":"t","uriTemplate":"x://{id}"}`)}}
	return s
}

func (s *shelf) List(_ context.Context, _ *mcp.Request, kind mcp.ListKind, snapshot string) (*mcp.Listing, error) {
	now := *s.snapshot.Load()
	if snapshot != "" && snapshot != now {
		return nil, mcp.ErrCursor
	}
	return &mcp.Listing{Entries: s.lists[kind], Snapshot: now, Caching: mcp.Caching{TTLMs: 5000},
		Meta: mcp.Meta{"parley/unavailable": jsonrpc.Raw(`["down"]`)}}, nil
}

func (s *shelf) Find(_ context.Context, _ *mcp.Request, kind mcp.ListKind, name string) (*mcp.Entry, bool) {
	for i := range s.lists[kind] {
		if s.lists[kind][i].Name == name {
			return &s.lists[kind][i], true
		}
	}
	return nil, false
}

func (s *shelf) Call(ctx context.Context, r *mcp.Request) (jsonrpc.Raw, error) {
	if s.call != nil {
		return s.call(ctx, r)
	}
	switch r.Method {
	case mcp.MethodPromptsGet:
		return jsonrpc.Raw(`{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`), nil
	case mcp.MethodResourcesRead:
		return jsonrpc.Raw(`{"contents":[{"uri":"x://r","text":"hello"}],"ttlMs":7,"cacheScope":"public"}`), nil
	case mcp.MethodComplete:
		return jsonrpc.Raw(`{"completion":{"values":["one"]}}`), nil
	}
	return jsonrpc.Raw(`{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up","version":"1"},"own":1},` +
		`"content":[{"type":"text","text":` + string(jsonrpc.AppendString(nil, string(r.Params()))) + `}]}`), nil
}

func (s *shelf) Subscribe(_ context.Context, _ *mcp.Request, uri string, updated func()) (func(), error) {
	if uri == "x://none" {
		return nil, mcp.NoResource()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updated[uri] = append(s.updated[uri], updated)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stopped++
	}, nil
}

func (s *shelf) changed(uri string) {
	s.mu.Lock()
	all := s.updated[uri]
	s.mu.Unlock()
	for _, f := range all {
		f()
	}
}

func (s *shelf) server(o mcp.ServerOptions) *mcp.Server {
	o.Source, o.Tools, o.Prompts, o.Resources = s, true, true, true
	return mcp.NewServer(mcp.Implementation{Name: "gate", Version: "1"}, &o)
}

func TestSourceInEveryVersion(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		s := newShelf(nil)
		c := connect(t, s.server(mcp.ServerOptions{PageSize: 2}), mcp.ClientOptions{}, v)
		var names []string
		for tool, err := range c.Tools(t.Context()) {
			must(t, err)
			names = append(names, tool.Name)
		}
		if got := fmt.Sprint(names); got != "[t0 t1 t2 t3 t4]" {
			t.Errorf("tools %s", got)
		}
		page, err := c.ListPrompts(t.Context(), nil)
		must(t, err)
		if len(page.Prompts) != 1 || string(page.Meta["parley/unavailable"]) != `["down"]` {
			t.Errorf("prompts %+v", page)
		}
		if v.Modern() && (page.TTLMs != 5000 || page.CacheScope != mcp.CachePrivate) {
			t.Errorf("caching %+v", page.Caching)
		}
		got, err := c.CallTool(t.Context(), "t1", map[string]int{"n": 1}, &mcp.CallOptions{Meta: mcp.Meta{"own": jsonrpc.Raw("2")}})
		must(t, err)
		if got.Text() != `{"name":"t1","arguments":{"n":1}}` || string(got.Meta["own"]) != "1" {
			t.Errorf("call: %+v", got)
		}
		if v.Modern() != strings.Contains(string(got.Meta[mcp.MetaServerInfo]), `"gate"`) {
			t.Errorf("the result names %s", got.Meta[mcp.MetaServerInfo])
		}
		if p, err := c.GetPrompt(t.Context(), "p", nil, nil); err != nil || len(p.Messages) != 1 {
			t.Errorf("prompt: %+v, %v", p, err)
		}
		r, err := c.ReadResource(t.Context(), "x://r", nil)
		must(t, err)
		if r.Contents[0].Text != "hello" || v.Modern() && (r.TTLMs != 7 || r.CacheScope != mcp.CachePublic) {
			t.Errorf("resource: %+v", r)
		}
		if v.HasAudio() {
			done, err := c.Complete(t.Context(), &mcp.CompleteParams{Ref: mcp.Reference{Type: mcp.RefPrompt, Name: "p"}, Argument: mcp.CompleteArgument{Name: "a", Value: "o"}})
			if err != nil || fmt.Sprint(done.Values) != "[one]" {
				t.Errorf("completion: %+v, %v", done, err)
			}
		}
	})
}

// TestSourceCursor checks that a cursor is valid for its list, its caller and its snapshot only.
func TestSourceCursor(t *testing.T) {
	who := "ann"
	s := newShelf(nil)
	c := connect(t, s.server(mcp.ServerOptions{PageSize: 2, Principal: func(context.Context) string { return who }}), mcp.ClientOptions{}, mcp.V20251125)
	first, err := c.ListTools(t.Context(), nil)
	must(t, err)
	list := func(f func(*mcp.ListParams) error, cursor string, want bool) {
		t.Helper()
		if err := f(&mcp.ListParams{Cursor: &cursor}); want != (err == nil) || err != nil && !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("got %v", err)
		}
	}
	tools := func(p *mcp.ListParams) error { _, err := c.ListTools(t.Context(), p); return err }
	list(tools, *first.NextCursor, true)
	list(func(p *mcp.ListParams) error { _, err := c.ListPrompts(t.Context(), p); return err }, *first.NextCursor, false)
	list(tools, "", false)
	list(tools, (*first.NextCursor)[1:]+"A", false)
	who = "bob"
	list(tools, *first.NextCursor, false)
	who = "ann"
	list(tools, *first.NextCursor, true)
	s.snapshot.Store(new("s2"))
	list(tools, *first.NextCursor, false)
}

// TestSourceResults checks that a result reaches each version in a form that it has, with members
// that this package does not know.
func TestSourceResults(t *testing.T) {
	const array = `{"content":[],"structuredContent":[1,2],"resultType":"complete"}`
	const audio = `{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}],"structuredContent":{"n":9007199254740993},"future":{"a":1}}`
	each(t, func(t *testing.T, v mcp.Version) {
		s := newShelf(func(_ context.Context, r *mcp.Request) (jsonrpc.Raw, error) {
			return jsonrpc.Raw(map[string]string{"array": array, "audio": audio, "nothing": `7`}[r.Name]), nil
		})
		var reported atomic.Int32
		s.lists[mcp.ListOfTools] = []mcp.Entry{{Name: "array", Text: jsonrpc.Raw(`{"name":"array","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`)}}
		c := connect(t, s.server(mcp.ServerOptions{Report: func(string, error) { reported.Add(1) }}), mcp.ClientOptions{}, v)
		var raw jsonrpc.Raw
		must(t, c.Call(t.Context(), mcp.MethodToolsList, nil, &raw))
		wrapped := strings.Contains(string(raw), `"outputSchema":{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}`)
		if wrapped == v.HasAnyStructure() {
			t.Errorf("list: %s", raw)
		}
		must(t, c.Call(t.Context(), mcp.MethodToolsCall, map[string]string{"name": "array"}, &raw))
		want := map[bool]string{true: `"structuredContent":[1,2]`, false: `"structuredContent":{"result":[1,2]}`}[v.HasAnyStructure()]
		if v.HasStructuredContent() != strings.Contains(string(raw), want) || v.Modern() != strings.Contains(string(raw), `"resultType"`) {
			t.Errorf("array: %s", raw)
		}
		must(t, c.Call(t.Context(), mcp.MethodToolsCall, map[string]string{"name": "audio"}, &raw))
		if v.HasStructuredContent() != strings.Contains(string(raw), `"structuredContent":{"n":9007199254740993},"future":{"a":1}`) {
			t.Errorf("audio: %s", raw)
		}
		if v.HasAudio() != strings.Contains(string(raw), `"type":"audio"`) {
			t.Errorf("audio: %s", raw)
		}
		if _, err := c.CallTool(t.Context(), "nothing", nil, nil); !errors.Is(err, jsonrpc.ErrInternal) || reported.Load() != 1 {
			t.Errorf("a result that is no object: %v", err)
		}
	})
}

// TestAskRaw checks that questions and answers pass unchanged in both eras, that the same question
// is asked again in a later round, and what is kept in between.
func TestAskRaw(t *testing.T) {
	const form = `{"type":"object","properties":{"n":{"type":"integer"}}}`
	each(t, func(t *testing.T, v mcp.Version) {
		s := newShelf(func(ctx context.Context, r *mcp.Request) (jsonrpc.Raw, error) {
			// As a relay does: what was asked is kept, and asked again when the handler runs again.
			var got []string
			if kept := r.Kept("answers"); kept != nil {
				must(t, kept.Decode(&got))
			}
			for len(got) < 2 {
				answers, err := r.AskRaw(ctx, map[string]mcp.InputRequest{"q": {Method: mcp.MethodElicit,
					Params: jsonrpc.Raw(`{"mode":"form","message":"How many?","requestedSchema":` + form + `,"_meta":{"progressToken":7,"own":1},"task":{}}`)}})
				if err != nil {
					return nil, err
				}
				got = append(got, string(answers["q"]))
				kept, _ := jsonrpc.AppendValue(nil, got)
				r.Keep("answers", kept)
			}
			return jsonrpc.AppendValue(nil, map[string]any{"content": []any{map[string]string{"type": "text", "text": strings.Join(got, " ")}}})
		})
		asked := 0
		c := connect(t, s.server(mcp.ServerOptions{}), mcp.ClientOptions{Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
			asked++
			if len(e.Meta) != 1 || string(e.Meta["own"]) != "1" || e.Task != nil || string(e.RequestedSchema) != form {
				t.Errorf("asked %+v", e)
			}
			return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(fmt.Sprintf(`{"n":%d}`, asked))}, nil
		}}, v)
		got, err := c.CallTool(t.Context(), "t0", nil, nil)
		must(t, err)
		if !v.HasElicitation() {
			if !got.IsError || asked != 0 {
				t.Errorf("got %+v", got)
			}
			return
		}
		if want := `{"action":"accept","content":{"n":1}} {"action":"accept","content":{"n":2}}`; got.Text() != want || asked != 2 {
			t.Errorf("got %s after %d questions", got.Text(), asked)
		}
	})
}

// TestAskRawRefused checks a client that cannot be asked, and one that answers with an error.
func TestAskRawRefused(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		s := newShelf(func(ctx context.Context, r *mcp.Request) (jsonrpc.Raw, error) {
			_, err := r.AskRaw(ctx, map[string]mcp.InputRequest{
				"a": {Method: mcp.MethodCreateMessage, Params: jsonrpc.Raw(`{"messages":[],"maxTokens":1}`)},
				"b": {Method: mcp.MethodRootsList},
			})
			if answer, ok := errors.AsType[*mcp.AnswerError](err); ok {
				return nil, answer.Err
			}
			return nil, err
		})
		c := connect(t, s.server(mcp.ServerOptions{}), mcp.ClientOptions{Roots: func(context.Context) ([]mcp.Root, error) { return nil, nil }}, v)
		got, err := c.CallTool(t.Context(), "t0", nil, nil)
		if v.Modern() != errors.Is(err, mcp.ErrMissingCapability) || !v.Modern() && !got.IsError {
			t.Errorf("no model: %+v, %v", got, err)
		}
		if v.Modern() {
			return
		}
		refuse := func(context.Context, *mcp.SamplingRequest) (*mcp.SamplingResult, error) {
			return nil, &jsonrpc.Error{Code: mcp.CodeRejected, Message: "no"}
		}
		c = connect(t, s.server(mcp.ServerOptions{}), mcp.ClientOptions{Sample: refuse, Roots: func(context.Context) ([]mcp.Root, error) { return nil, nil }}, v)
		_, err = c.CallTool(t.Context(), "t0", nil, nil)
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != mcp.CodeRejected {
			t.Errorf("rejected: %v", err)
		}
	})
}

// TestSourceSubscriptions checks that an update reaches its subscriber only, and that each
// subscription ends once.
func TestSourceSubscriptions(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		s := newShelf(nil)
		server := s.server(mcp.ServerOptions{})
		c := connect(t, server, mcp.ClientOptions{}, v)
		var heard []string
		err := c.Listen(t.Context(), mcp.Filter{ToolsListChanged: true, ResourceSubscriptions: []string{"x://a"}}, func(ch mcp.Change) error {
			heard = append(heard, ch.Method+ch.URI)
			switch len(heard) {
			case 1:
				s.changed("x://b")
				server.Changed(mcp.ListOfPrompts) // not in the filter
				server.ChangedFor(mcp.ListOfTools, func(string) bool { return false })
				s.changed("x://a")
			case 2:
				server.ChangedFor(mcp.ListOfTools, func(who string) bool { return who == "" })
			case 3:
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
		if got := fmt.Sprint(heard); got != fmt.Sprint([]string{mcp.NotifyAcknowledged, mcp.NotifyResourceUpdated + "x://a", mcp.NotifyToolsChanged}) {
			t.Errorf("heard %s", got)
		}
		c.Close()
		server.Close()
	})
	t.Run("ends", func(t *testing.T) {
		s := newShelf(nil)
		ended := make(chan *mcp.Session, 1)
		here, stop := pipe(t, s.server(mcp.ServerOptions{OnEnd: func(n *mcp.Session) { ended <- n }}))
		c, err := mcp.Connect(t.Context(), here, mcp.Implementation{Name: "c"}, &mcp.ClientOptions{Versions: []mcp.Version{mcp.V20250618}})
		must(t, err)
		subscribe := func(method, uri string) error { return c.Call(t.Context(), method, mcp.SubscribeParams{URI: uri}, nil) }
		for range 2 {
			must(t, subscribe(mcp.MethodResourcesSubscribe, "x://a"))
			must(t, subscribe(mcp.MethodResourcesSubscribe, "x://b"))
		}
		if err := subscribe(mcp.MethodResourcesSubscribe, "x://none"); !errors.Is(err, mcp.ErrResourceNotFound) {
			t.Errorf("no such resource: %v", err)
		}
		for range 2 {
			must(t, subscribe(mcp.MethodResourcesUnsubscribe, "x://a"))
		}
		if s.stopped != 3 { // the second ones of both, and the first of x://a
			t.Errorf("%d have stopped", s.stopped)
		}
		c.Close()
		stop()
		if n := eventually(t, ended); n.Version() != mcp.V20250618 || s.stopped != 4 {
			t.Errorf("%d have stopped after the session", s.stopped)
		}
	})
}

// TestSourceHeaders checks that header parameters come from the entries of the Source.
func TestSourceHeaders(t *testing.T) {
	s := newShelf(nil)
	s.lists[mcp.ListOfTools] = []mcp.Entry{{Name: "t", Headers: []mcp.HeaderParam{{Path: []string{"region"}, Header: "Region", Type: "string"}}}}
	server := s.server(mcp.ServerOptions{})
	req := &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: mcp.MethodToolsCall, Params: jsonrpc.Raw(`{"name":"t","arguments":{"region":"eu"},` + modernMeta + `}`)}
	for region, want := range map[string]bool{"eu": true, "us": false, "": false} {
		fields := map[string][]string{mcp.HeaderProtocolVersion: {"2026-07-28"}, mcp.HeaderMethod: {mcp.MethodToolsCall}, mcp.HeaderName: {"t"}}
		if region != "" {
			fields["Mcp-Param-Region"] = []string{region}
		}
		if err := server.CheckHeadersFor(t.Context(), req, func(name string) []string { return fields[name] }); (err == nil) != want {
			t.Errorf("%q: %v", region, err)
		}
	}
}
