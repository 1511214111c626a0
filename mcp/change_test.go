package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

var errEnough = errors.New("heard enough")

func textResource(text *string) mcp.ResourceFunc {
	return func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		out := mcp.TextResource(r, "text/plain", *text)
		out.TTLMs = 3_600_000
		return out, nil
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestListenInBothEras(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		s := calculator(&mcp.ServerOptions{Prompts: true})
		text := "one"
		must(t, s.AddResource(mcp.Resource{URI: "test://a", Name: "a"}, textResource(&text)))
		must(t, s.AddResource(mcp.Resource{URI: "test://b", Name: "b"}, textResource(&text)))
		c := connect(t, s, mcp.ClientOptions{}, v)
		var heard []string
		err := c.Listen(t.Context(), mcp.Filter{ToolsListChanged: true, ResourceSubscriptions: []string{"test://a"}}, func(ch mcp.Change) error {
			heard = append(heard, ch.Method+ch.URI)
			switch len(heard) {
			case 1:
				s.ResourceUpdated("test://b")   // not subscribed
				s.RemovePrompts("none")         // no change
				s.RemoveTools("calculator/add") // subscribed
			case 2:
				s.ResourceUpdated("test://a")
			case 3:
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
		want := fmt.Sprint([]string{mcp.NotifyAcknowledged, mcp.NotifyToolsChanged, mcp.NotifyResourceUpdated + "test://a"})
		if got := fmt.Sprint(heard); got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
	})
}

// TestManyChanges checks that every change arrives at the listeners at least once, also if changes
// are fast.
func TestManyChanges(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		s := calculator(nil)
		text := ""
		var uris []string
		for i := range 200 {
			uris = append(uris, fmt.Sprintf("test://%d", i))
			must(t, s.AddResource(mcp.Resource{URI: uris[i], Name: "x"}, textResource(&text)))
		}
		c := connect(t, s, mcp.ClientOptions{}, v)
		seen := map[string]bool{}
		err := c.Listen(t.Context(), mcp.Filter{ResourceSubscriptions: uris}, func(ch mcp.Change) error {
			if ch.Method == mcp.NotifyAcknowledged {
				for range 5 {
					for _, uri := range uris {
						s.ResourceUpdated(uri)
					}
				}
			}
			if ch.URI != "" {
				seen[ch.URI] = true
			}
			if len(seen) == len(uris) {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Fatalf("%d of %d: %v", len(seen), len(uris), err)
		}
	})
}

func TestCacheLastsUntilTheChange(t *testing.T) {
	s := calculator(nil)
	text := "one"
	reads := 0
	must(t, s.AddResource(mcp.Resource{URI: "test://a", Name: "a"}, func(ctx context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		reads++
		return textResource(&text)(ctx, r)
	}))
	c := connect(t, s, mcp.ClientOptions{}, mcp.V20260728)
	read := func() string {
		t.Helper()
		got, err := c.ReadResource(t.Context(), "test://a", nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.Contents[0].Text
	}
	read()
	text = "two"
	if got := read(); got != "one" || reads != 1 {
		t.Errorf("got %q after %d reads, want what is kept", got, reads)
	}
	err := c.Listen(t.Context(), mcp.Filter{ResourceSubscriptions: []string{"test://a"}}, func(ch mcp.Change) error {
		if ch.Method == mcp.NotifyAcknowledged {
			s.ResourceUpdated("test://a")
			return nil
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	if got := read(); got != "two" || reads != 2 {
		t.Errorf("got %q after %d reads, want what is new", got, reads)
	}
}

func TestPages(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, &mcp.ServerOptions{PageSize: 3})
		nothing := func(context.Context, *mcp.Request, struct{}) (string, error) { return "", nil }
		for i := range 7 {
			mcp.AddTool(s, mcp.Tool{Name: fmt.Sprint("t", i)}, nothing)
		}
		c := connect(t, s, mcp.ClientOptions{}, v)
		first, err := c.ListTools(t.Context(), nil)
		must(t, err)
		if len(first.Tools) != 3 || first.NextCursor == nil {
			t.Fatalf("first page %+v", first)
		}
		s.RemoveTools("t0", "t2") // added and removed entries do not shift a cursor
		mcp.AddTool(s, mcp.Tool{Name: "t7"}, nothing)
		var names []string
		cursor := first.NextCursor
		for cursor != nil {
			page, err := c.ListTools(t.Context(), &mcp.ListParams{Cursor: cursor})
			must(t, err)
			for _, tool := range page.Tools {
				names = append(names, tool.Name)
			}
			cursor = page.NextCursor
		}
		if got := fmt.Sprint(names); got != "[t3 t4 t5 t6 t7]" {
			t.Errorf("then came %s", got)
		}
		_, err = c.ListTools(t.Context(), &mcp.ListParams{Cursor: new("")})
		if !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("an invented cursor: %v", err)
		}
	})
}

func TestToolsOfOneSession(t *testing.T) {
	s := calculator(nil)
	mcp.AddTool(s, mcp.Tool{Name: "login"}, func(_ context.Context, r *mcp.Request, _ struct{}) (string, error) {
		mcp.AddSessionTool(r.Session(), mcp.Tool{Name: "secret"}, func(context.Context, *mcp.Request, struct{}) (string, error) { return "42", nil })
		return "ok", nil
	})
	changes := make(chan mcp.Change, 8)
	a := connect(t, s, mcp.ClientOptions{OnChange: func(ch mcp.Change) { changes <- ch }}, mcp.V20251125)
	b := connect(t, s, mcp.ClientOptions{}, mcp.V20251125)
	_, err := a.CallTool(t.Context(), "login", nil, nil)
	must(t, err)
	if ch := eventually(t, changes); ch.Method != mcp.NotifyToolsChanged {
		t.Errorf("heard %+v", ch)
	}
	if got, err := a.CallTool(t.Context(), "secret", nil, nil); err != nil || got.Text() != "42" {
		t.Errorf("own tool: %+v, %v", got, err)
	}
	if _, err := b.CallTool(t.Context(), "secret", nil, nil); !errors.Is(err, jsonrpc.ErrInvalidParams) {
		t.Errorf("another session's tool: %v", err)
	}
	count := func(c *mcp.Client) (n int) {
		for _, err := range c.Tools(t.Context()) {
			must(t, err)
			n++
		}
		return n
	}
	if count(a) != 3 || count(b) != 2 {
		t.Errorf("a sees %d, b sees %d", count(a), count(b))
	}
}

func TestWhatOneCallerDoesNotSee(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		s := calculator(&mcp.ServerOptions{Visible: func(_ context.Context, r *mcp.Request, name string) bool {
			return name != "hidden" || r.Client().Name == "admin"
		}})
		mcp.AddTool(s, mcp.Tool{Name: "hidden"}, func(context.Context, *mcp.Request, struct{}) (string, error) { return "x", nil })
		c := connect(t, s, mcp.ClientOptions{}, v)
		list, err := c.ListTools(t.Context(), nil)
		must(t, err)
		if len(list.Tools) != 1 {
			t.Errorf("tools %+v", list.Tools)
		}
		if v.HasCaching() && list.CacheScope != mcp.CachePrivate {
			t.Errorf("scope %q", list.CacheScope)
		}
		if _, err := c.CallTool(t.Context(), "hidden", nil, nil); !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("call: %v", err)
		}
	})
}

// breaking is a peer whose first notification panics.
type breaking struct {
	jsonrpc.Peer
	broke atomic.Bool
	told  chan string
}

func (b *breaking) Notify(_ context.Context, method string, _ any) error {
	if !b.broke.Swap(true) {
		panic("no disk")
	}
	b.told <- method
	return nil
}

// TestPanicOfANotification checks that a session still gets notifications after one of them
// panicked.
func TestPanicOfANotification(t *testing.T) {
	reports := make(chan string, 10)
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{Report: func(what string, _ error) { reports <- what }})
	defer s.Close()
	peer := &breaking{told: make(chan string, 1)}
	n := s.NewSession(mcp.SessionOptions{Voice: peer})
	defer n.Close()
	_, err := n.Handle(t.Context(), &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: mcp.MethodInitialize,
		Params: jsonrpc.Raw(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)})
	must(t, err)
	_, err = n.Handle(t.Context(), &jsonrpc.Request{Method: mcp.NotifyInitialized})
	must(t, err)
	add := func(name string) {
		must(t, s.AddPrompt(mcp.Prompt{Name: name}, func(context.Context, *mcp.Request, map[string]string) (*mcp.GetPromptResult, error) {
			return nil, jsonrpc.ErrInternal
		}, nil))
	}
	add("a")
	if what := eventually(t, reports); what != jsonrpc.ReportPanic {
		t.Errorf("the first report is %q", what)
	}
	eventually(t, reports) // the notification was not sent
	add("b")
	if method := eventually(t, peer.told); method != mcp.NotifyPromptsChanged {
		t.Errorf("the session gets %s", method)
	}
}

// TestChangesThatWaitAreWeighed checks that a legacy server cannot make a slow Listen hold more
// than 8 MiB, that further changes are dropped, and that the connection still works.
func TestChangesThatWaitAreWeighed(t *testing.T) {
	s := calculator(nil)
	text := ""
	must(t, s.AddResource(mcp.Resource{URI: "test://a", Name: "a"}, textResource(&text)))
	const long = 1 << 20
	all := make(chan struct{})
	count := 0
	c := connect(t, s, mcp.ClientOptions{OnChange: func(ch mcp.Change) {
		if ch.Task != nil {
			if count++; count == 20 {
				close(all)
			}
		}
	}}, mcp.V20251125)
	var heard, bytes int
	err := c.Listen(t.Context(), mcp.Filter{TaskIDs: []string{"a"}, ResourceSubscriptions: []string{"test://a"}}, func(ch mcp.Change) error {
		switch {
		case ch.Method == mcp.NotifyAcknowledged:
			for range 20 {
				params := jsonrpc.Raw(`{"taskId":"a","status":"working","statusMessage":"` + strings.Repeat("x", long) + `","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}`)
				if _, err := c.Handle(t.Context(), &jsonrpc.Request{Method: mcp.NotifyTaskStatus, Params: params}); err != nil {
					return err
				}
			}
			<-all
			go s.ResourceUpdated("test://a")
		case ch.Task != nil:
			heard++
			bytes += len(ch.Task.StatusMessage)
		default:
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || heard != 7 || bytes != 7*long {
		t.Errorf("Listen = %v after %d changes of %d bytes", err, heard, bytes)
	}
	if _, err := c.CallTool(t.Context(), "calculator/add", map[string]any{"a": 1, "b": 2}, nil); err != nil {
		t.Error(err)
	}
}

// TestEachChangeIsTold checks that a session is notified when something is added or removed, and
// not when nothing changes.
func TestEachChangeIsTold(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	defer s.Close()
	peer := &breaking{told: make(chan string, 10)}
	peer.broke.Store(true)
	n := s.NewSession(mcp.SessionOptions{Voice: peer})
	defer n.Close()
	_, err := n.Handle(t.Context(), &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: mcp.MethodInitialize,
		Params: jsonrpc.Raw(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)})
	must(t, err)
	_, err = n.Handle(t.Context(), &jsonrpc.Request{Method: mcp.NotifyInitialized})
	must(t, err)
	text := ""
	for _, change := range []struct {
		name, want string
		do         func()
	}{
		{"AddPrompt", mcp.NotifyPromptsChanged, func() {
			must(t, s.AddPrompt(mcp.Prompt{Name: "a"}, func(context.Context, *mcp.Request, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }, nil))
		}},
		{"RemovePrompts", mcp.NotifyPromptsChanged, func() { s.RemovePrompts("none"); s.RemovePrompts("a") }},
		{"AddResource", mcp.NotifyResourcesChanged, func() { must(t, s.AddResource(mcp.Resource{URI: "test://a", Name: "a"}, textResource(&text))) }},
		{"RemoveResources", mcp.NotifyResourcesChanged, func() { s.RemoveResources("test://none"); s.RemoveResources("test://a") }},
		{"AddTemplate", mcp.NotifyResourcesChanged, func() {
			must(t, s.AddTemplate(mcp.ResourceTemplate{URITemplate: "test://{x}", Name: "x"}, textResource(&text), nil))
		}},
		{"RemoveTemplates", mcp.NotifyResourcesChanged, func() { s.RemoveTemplates("test://none"); s.RemoveTemplates("test://{x}") }},
		{"AddTool", mcp.NotifyToolsChanged, func() {
			must(t, s.AddTool(mcp.Tool{Name: "a"}, func(context.Context, *mcp.Request) (*mcp.ToolResult, error) { return nil, nil }))
		}},
		{"RemoveTools", mcp.NotifyToolsChanged, func() { s.RemoveTools("none"); s.RemoveTools("a") }},
	} {
		change.do()
		if got := eventually(t, peer.told); got != change.want {
			t.Errorf("%s: the session gets %s", change.name, got)
		}
		if n := len(peer.told); n != 0 {
			t.Errorf("%s: %d notifications more", change.name, n)
		}
	}
}
