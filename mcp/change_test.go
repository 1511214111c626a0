package mcp_test

import (
	"context"
	"errors"
	"fmt"
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
				s.ResourceUpdated("test://b")   // not asked for
				s.RemovePrompts("none")         // no change
				s.RemoveTools("calculator/add") // asked for
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

// Many changes come to those who listen, each at least once, however fast they are.
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
		s.RemoveTools("t0", "t2") // what comes and goes moves nothing
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
