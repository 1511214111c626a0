package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/gateway"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// childVariable makes the test program an MCP server on its stdin and stdout. Its value names the
// versions of the protocol, separated by commas.
const childVariable = "PARLEY_GATEWAY_TEST_CHILD"

// serveAsChild does not return if the program is a server.
func serveAsChild() {
	if versions := os.Getenv(childVariable); versions != "" {
		err := fixture(os.Getenv(childVariable+"_NAME"), nil, parseVersions(versions)...).Serve(context.Background(), stdio.New(nil))
		if err != nil && !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func parseVersions(text string) (list []mcp.Version) {
	for name := range strings.SplitSeq(text, ",") {
		list = append(list, mcp.ParseVersion(name))
	}
	return list
}

// fixture is an MCP server with a tool for each thing that a gateway has to pass on.
func fixture(name string, ended chan<- error, versions ...mcp.Version) *mcp.Server {
	s := mcp.NewServer(mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{Versions: versions, Tools: true, Resources: true, Prompts: true})
	var mu sync.Mutex
	notes := map[any][]string{} // by session
	tool := func(name string, f func(ctx context.Context, r *mcp.Request) (string, error)) {
		err := s.AddTool(mcp.Tool{Name: name, Description: "The tool " + name + ".", InputSchema: jsonrpc.Raw(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.Request) (*mcp.ToolResult, error) {
			text, err := f(ctx, r)
			if err != nil {
				return nil, err
			}
			return mcp.TextResult(text), nil
		})
		if err != nil {
			panic(err)
		}
	}
	tool("echo", func(_ context.Context, r *mcp.Request) (string, error) {
		return name + " " + string(r.Arguments), nil
	})
	tool("calculator/add", func(context.Context, *mcp.Request) (string, error) { return name, nil })
	tool("ask", func(ctx context.Context, r *mcp.Request) (string, error) {
		e, err := r.Elicit(ctx, "who", &mcp.Elicitation{Message: "Who are you, " + string(r.Arguments) + "?", RequestedSchema: jsonrpc.Raw(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		if err != nil {
			return "", err
		}
		return e.Action + " " + string(e.Content), nil
	})
	tool("two", func(ctx context.Context, r *mcp.Request) (string, error) {
		m, err := r.Sample(ctx, "model", &mcp.SamplingRequest{Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks{mcp.Text("2+2")}}}, MaxTokens: 5})
		if err != nil {
			return "", err
		}
		roots, err := r.Roots(ctx, "roots")
		if err != nil {
			return "", err
		}
		return m.Content[0].Text + " " + roots[0].URI, nil
	})
	tool("count", func(ctx context.Context, r *mcp.Request) (string, error) {
		for i := range 3 {
			if err := r.Progress(ctx, float64(i+1), 3, "step"); err != nil {
				return "", err
			}
		}
		return "counted", r.Log(ctx, mcp.LevelWarning, "counter", "done")
	})
	tool("note", func(_ context.Context, r *mcp.Request) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		var key any
		if r.Session() != nil {
			key = r.Session()
		}
		notes[key] = append(notes[key], string(r.Arguments))
		return strings.Join(notes[key], " "), nil
	})
	tool("slow", func(ctx context.Context, r *mcp.Request) (string, error) {
		if err := r.Progress(ctx, 1, 0, "begun"); err != nil {
			return "", err
		}
		<-ctx.Done()
		if ended != nil {
			ended <- context.Cause(ctx)
		}
		return "", context.Cause(ctx)
	})
	tool("crash", func(context.Context, *mcp.Request) (string, error) { os.Exit(3); return "", nil })
	tool("fail", func(context.Context, *mcp.Request) (string, error) {
		return "", (&jsonrpc.Error{Code: 77, Message: "out of paper"}).WithData(map[string]int{"n": 1})
	})
	if err := s.AddTool(mcp.Tool{Name: "job", Task: mcp.TaskRequired}, func(ctx context.Context, r *mcp.Request) (*mcp.ToolResult, error) {
		e, err := r.Elicit(ctx, "who", &mcp.Elicitation{Message: "Who?"})
		if err != nil {
			return nil, err
		}
		return mcp.TextResult("job " + e.Action), nil
	}); err != nil {
		panic(err)
	}
	tool("visit", func(ctx context.Context, r *mcp.Request) (string, error) {
		mu.Lock()
		again := r.Session() != nil && len(notes[r.Session()]) > 0
		if r.Session() != nil {
			notes[r.Session()] = append(notes[r.Session()], "visit")
		}
		mu.Unlock()
		if again {
			return "visited", nil
		}
		if err := r.NeedURL(ctx, mcp.Elicitation{Mode: mcp.ElicitURL, Message: "Log in", URL: "https://login.example/"}); err != nil {
			return "", err
		}
		return "visited", nil
	})
	tool("link", func(context.Context, *mcp.Request) (string, error) { return name, nil })
	tool("grow", func(_ context.Context, r *mcp.Request) (string, error) {
		tool("grown", func(context.Context, *mcp.Request) (string, error) { return "grown", nil })
		return "ok", nil
	})
	text := func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		return mcp.TextResource(r, "text/plain", name+" "+r.Name), nil
	}
	for _, uri := range []string{"test://own/" + name, "test://shared"} {
		if err := s.AddResource(mcp.Resource{URI: uri, Name: "r"}, text); err != nil {
			panic(err)
		}
	}
	complete := map[string]mcp.CompleteFunc{"id": mcp.CompleteFrom(name+"-1", name+"-2")}
	if err := s.AddTemplate(mcp.ResourceTemplate{URITemplate: "test://" + name + "/{id}", Name: "t"}, text, complete); err != nil {
		panic(err)
	}
	err := s.AddPrompt(mcp.Prompt{Name: "hello", Arguments: []mcp.PromptArgument{{Name: "id"}}}, func(_ context.Context, _ *mcp.Request, args map[string]string) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{mcp.UserText(name + " " + args["id"])}}, nil
	}, complete)
	if err != nil {
		panic(err)
	}
	return s
}

// web serves an MCP server over HTTP, and returns its address.
func web(t testing.TB, s *mcp.Server, o *mcphttp.Options) string {
	t.Helper()
	h := mcphttp.NewHandler(s, o)
	site := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		_ = h.Close()
		site.Close()
	})
	return site.URL
}

// child returns the entry of a server that is a program.
func child(name string, more string, versions ...mcp.Version) string {
	var names []string
	for _, v := range versions {
		names = append(names, v.String())
	}
	return fmt.Sprintf("  %s: {protocol: mcp, command: %q, env: {%s: %q, %s_NAME: %s}%s}\n", name, os.Args[0], childVariable, strings.Join(names, ","), childVariable, name, more)
}

// gate is a running gateway.
type gate struct {
	*gateway.Gateway
	target parley.Target

	mu      sync.Mutex // guards the field below
	reports []string
}

func (g *gate) url(path string) string {
	t := g.target
	t.Path = path
	return t.URL()
}

// gateWith starts a gateway with this configuration. wrap, if not nil, sees each request first.
func gateWith(t testing.TB, configuration string, wrap func(http.Handler) http.Handler) *gate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := config.Read(path, &config.Options{Gateway: &config.GatewayOptions{}})
	if err != nil || len(file.Problems) > 0 {
		t.Fatal(err, file.Problems)
	}
	made := &gate{}
	made.Gateway, err = gateway.New(&gateway.Options{File: file, Report: func(what string, err error) {
		made.mu.Lock()
		defer made.mu.Unlock()
		made.reports = append(made.reports, what+": "+err.Error())
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(strings.Join(made.reports, "\n"))
		}
	})
	l := new(parley.Listener)
	made.Listener(l)
	if wrap != nil {
		for path, m := range l.Mounts {
			m.Handler = wrap(m.Handler)
			l.Mounts[path] = m
		}
	}
	made.target = serve(t, l, "http://127.0.0.1:0/rpc")
	return made
}

// use connects a client with these options in one version.
func use(t testing.TB, at string, v mcp.Version, o mcp.ClientOptions, header http.Header) *mcp.Client {
	t.Helper()
	o.Versions = []mcp.Version{v}
	c, err := mcphttp.Connect(t.Context(), at, mcp.Implementation{Name: "test", Version: "1"}, &mcphttp.ClientOptions{Client: o, Header: header})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// answering are the options of a client that answers all questions.
func answering(asked *atomic.Int32) mcp.ClientOptions {
	return mcp.ClientOptions{
		Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
			asked.Add(1)
			return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"name":"Ada"}`)}, nil
		},
		Sample: func(context.Context, *mcp.SamplingRequest) (*mcp.SamplingResult, error) {
			asked.Add(1)
			return &mcp.SamplingResult{Role: mcp.RoleAssistant, Content: mcp.Blocks{mcp.Text("4")}, Model: "m"}, nil
		},
		Roots: func(context.Context) ([]mcp.Root, error) {
			asked.Add(1)
			return []mcp.Root{{URI: "file:///work"}}, nil
		},
	}
}

func textOf(t testing.TB, r *mcp.ToolResult, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return r.Text()
}

func namesOf(t testing.TB, c *mcp.Client) (names []string) {
	t.Helper()
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// eventually waits for a value on c.
func eventually[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// TestMCPInAllEras checks every version of a client against servers of both eras: lists, calls,
// questions, progress, logs, prompts, resources, completions.
func TestMCPInAllEras(t *testing.T) {
	g := gateWith(t, "servers:\n"+
		"  old: {protocol: mcp, url: "+web(t, fixture("old", nil, mcp.V20251125, mcp.V20250618), nil)+"}\n"+
		"  new: {protocol: mcp, url: "+web(t, fixture("new", nil, mcp.V20260728), nil)+"}\n"+
		child("kid", "", mcp.V20250618)+
		child("young", "", mcp.V20260728), nil)
	for _, v := range []mcp.Version{mcp.V20260728, mcp.V20251125, mcp.V20250618, mcp.V20250326} {
		t.Run(v.String(), func(t *testing.T) {
			var asked atomic.Int32
			var logged sync.Map
			o := answering(&asked)
			o.LogLevel = mcp.LevelInfo
			o.OnLog = func(p *mcp.LogParams) { logged.Store(p.Logger, string(p.Data)) }
			c := use(t, g.url("/mcp"), v, o, nil)
			names := namesOf(t, c)
			if len(names) != 52 || names[0] != "old__echo" || names[1] != "old__calculator_add_cf951e" || !slices.Contains(names, "young__grow") {
				t.Fatalf("%d tools: %v", len(names), names)
			}
			for _, server := range []string{"old", "new", "kid", "young"} {
				call := func(tool, arguments string) string {
					t.Helper()
					r, err := c.CallTool(t.Context(), server+"__"+tool, jsonrpc.Raw(arguments), nil)
					return textOf(t, r, err)
				}
				if got := call("echo", `{"n":9007199254740993}`); got != server+` {"n":9007199254740993}` {
					t.Errorf("%s: echo: %s", server, got)
				}
				if got := call("calculator_add_cf951e", `{}`); got != server {
					t.Errorf("%s: add: %s", server, got)
				}
				asked.Store(0)
				if got := call("two", `{}`); got != "4 file:///work" || asked.Load() != 2 {
					t.Errorf("%s: two: %s, asked %d", server, got, asked.Load())
				}
				if v.HasElicitation() && server == "old" {
					if got := call("job", `{}`); got != "job accept" {
						t.Errorf("a tool that must be a task: %s", got)
					}
				}
				if v.HasElicitation() {
					if got := call("ask", `{"x":1}`); got != `accept {"name":"Ada"}` {
						t.Errorf("%s: ask: %s", server, got)
					}
				}
				var steps []float64
				r, err := c.CallTool(t.Context(), server+"__count", nil, &mcp.CallOptions{Progress: func(p mcp.Progress) { steps = append(steps, p.Progress, p.Total) }})
				if got := textOf(t, r, err); got != "counted" || fmt.Sprint(steps) != "[1 3 2 3 3 3]" {
					t.Errorf("%s: count: %s, progress %v", server, got, steps)
				}
				if _, err := c.CallTool(t.Context(), server+"__fail", nil, nil); fmt.Sprint(err) != "out of paper (77)" {
					if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != 77 || e.Message != "out of paper" || string(e.Data) != `{"n":1}` {
						t.Errorf("%s: fail: %v", server, err)
					}
				}
				p, err := c.GetPrompt(t.Context(), server+"__hello", map[string]string{"id": "7"}, nil)
				if err != nil || p.Messages[0].Content.Text != server+" 7" {
					t.Errorf("%s: prompt: %v, %v", server, p, err)
				}
				for uri, want := range map[string]string{
					"test://own/" + server:                        server + " test://own/" + server,
					"test://" + server + "/9":                     server + " test://" + server + "/9",
					"parley://" + server + "/test%3A%2F%2Fshared": server + " test://shared",
				} {
					r, err := c.ReadResource(t.Context(), uri, nil)
					if err != nil || r.Contents[0].Text != want || r.Contents[0].URI != uri {
						t.Errorf("%s: %s: %+v, %v", server, uri, r, err)
					}
				}
				for _, ref := range []mcp.Reference{{Type: mcp.RefPrompt, Name: server + "__hello"}, {Type: mcp.RefResource, URI: "test://" + server + "/{id}"}} {
					done, err := c.Complete(t.Context(), &mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteArgument{Name: "id", Value: server}})
					if err != nil || len(done.Values) != 2 || done.Values[0] != server+"-1" {
						t.Errorf("%s: completion of %+v: %+v, %v", server, ref, done, err)
					}
				}
			}
			if r, err := c.ReadResource(t.Context(), "test://shared", nil); err != nil || r.Contents[0].Text != "old test://shared" {
				t.Errorf("a URI of all: %+v, %v", r, err)
			}
			var uris []string
			for r, err := range c.Resources(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				uris = append(uris, r.URI)
			}
			if want := "[test://own/old test://shared test://own/new parley://new/test%3A%2F%2Fshared test://own/kid parley://kid/test%3A%2F%2Fshared test://own/young parley://young/test%3A%2F%2Fshared]"; fmt.Sprint(uris) != want {
				t.Errorf("resources %v", uris)
			}
			for _, name := range []string{"old__none", "none__echo", "echo", ""} {
				if _, err := c.CallTool(t.Context(), name, nil, nil); !errors.Is(err, jsonrpc.ErrInvalidParams) {
					t.Errorf("%q: %v", name, err)
				}
			}
			if _, err := c.ReadResource(t.Context(), "other://x", nil); err == nil {
				t.Error("a resource of nobody")
			}
		})
	}
}

// callers authenticates requests by a header: each value is a principal.
func callers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.Header.Get("X-Test-Caller"); name != "" {
			r = r.WithContext(parley.WithPrincipal(r.Context(), &parley.Principal{Name: name}))
		}
		next.ServeHTTP(w, r)
	})
}

func asCaller(name string) http.Header { return http.Header{"X-Test-Caller": {name}} }

// TestPrincipalsAreApart lets 50 principals, of both eras, use servers of both eras at once: each
// gets its own questions, answers, progress and results, and no state of another.
func TestPrincipalsAreApart(t *testing.T) {
	g := gateWith(t, "servers:\n"+
		"  old: {protocol: mcp, url: "+web(t, fixture("old", nil, mcp.V20250618), &mcphttp.Options{MaxPerCaller: 1000})+"}\n"+
		"  new: {protocol: mcp, url: "+web(t, fixture("new", nil, mcp.V20260728), nil)+"}\n"+
		child("kid", ", processes: {max: 60}", mcp.V20250618), callers)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			me := fmt.Sprint("p", i)
			version := []mcp.Version{mcp.V20260728, mcp.V20251125}[i%2]
			o := mcp.ClientOptions{Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
				if !strings.Contains(e.Message, `"`+me+`"`) {
					t.Errorf("%s was asked %q", me, e.Message)
				}
				return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"name":"` + me + `"}`)}, nil
			}}
			c := use(t, g.url("/mcp"), version, o, asCaller(me))
			for n := range 4 {
				for _, server := range []string{"old", "new", "kid"} {
					if server == "kid" && i >= 10 {
						continue
					}
					arguments := fmt.Sprintf(`{"me":"%s","n":%d}`, me, n)
					r, err := c.CallTool(t.Context(), server+"__ask", jsonrpc.Raw(arguments), nil)
					if err != nil || r.Text() != `accept {"name":"`+me+`"}` {
						t.Errorf("%s, %s: %v, %v", me, server, r, err)
					}
					r, err = c.CallTool(t.Context(), server+"__note", jsonrpc.Raw(arguments), nil)
					if err != nil || server != "new" && strings.Count(r.Text(), `"me":"`+me+`"`) != strings.Count(r.Text(), `"me"`) {
						t.Errorf("%s, %s: the notes of another: %v, %v", me, server, r, err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestStolenState checks that the state of a modern call, a cursor and a session of one principal
// are worth nothing to another.
func TestStolenState(t *testing.T) {
	g := gateWith(t, "servers:\n"+
		"  old: {protocol: mcp, url: "+web(t, fixture("old", nil, mcp.V20250618), nil)+"}\n"+
		"  new: {protocol: mcp, url: "+web(t, fixture("new", nil, mcp.V20260728), nil)+"}\n", callers)
	caps := &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}
	ann := use(t, g.url("/mcp"), mcp.V20260728, mcp.ClientOptions{}, asCaller("ann"))
	bob := use(t, g.url("/mcp"), mcp.V20260728, mcp.ClientOptions{}, asCaller("bob"))
	for _, server := range []string{"old", "new"} {
		params := jsonrpc.Raw(`{"name":"` + server + `__ask","arguments":{"me":"ann"}}`)
		raw, err := ann.Invoke(t.Context(), mcp.MethodToolsCall, params, &mcp.InvokeOptions{Capabilities: caps})
		if err != nil {
			t.Fatal(err)
		}
		q, err := mcp.ParseInputRequired(raw)
		if err != nil || q == nil || len(q.InputRequests) != 1 {
			t.Fatalf("%s: %s, %v", server, raw, err)
		}
		o := &mcp.InvokeOptions{Capabilities: caps, RequestState: q.RequestState, InputResponses: map[string]jsonrpc.Raw{}}
		for key := range q.InputRequests {
			o.InputResponses[key] = jsonrpc.Raw(`{"action":"accept","content":{"name":"x"}}`)
		}
		if raw, err := bob.Invoke(t.Context(), mcp.MethodToolsCall, params, o); !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("%s: another principal got %s, %v", server, raw, err)
		}
		other := jsonrpc.Raw(`{"name":"` + server + `__ask","arguments":{"me":"eve"}}`)
		if raw, err := ann.Invoke(t.Context(), mcp.MethodToolsCall, other, o); !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("%s: other arguments got %s, %v", server, raw, err)
		}
		if raw, err := ann.Invoke(t.Context(), mcp.MethodToolsCall, params, o); err != nil || !strings.Contains(string(raw), `accept {\"name\":\"x\"}`) {
			t.Errorf("%s: the owner got %s, %v", server, raw, err)
		}
		if server == "old" { // its call has ended
			if raw, err := ann.Invoke(t.Context(), mcp.MethodToolsCall, params, o); reasonOf(err) != "call_lost" {
				t.Errorf("the same answers again: %s, %v", raw, err)
			}
		}
	}
	legacy := use(t, g.url("/mcp"), mcp.V20251125, mcp.ClientOptions{}, asCaller("ann"))
	if _, err := legacy.CallTool(t.Context(), "old__echo", nil, nil); err != nil {
		t.Fatal(err)
	}
}

// reasonOf returns the reason in the data of an error of the gateway.
func reasonOf(err error) string {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return ""
	}
	var data struct {
		Reason string `json:"reason"`
	}
	_ = e.Data.Decode(&data) // other errors have other data
	return data.Reason
}

// TestCrash checks that the program of one session crashes alone: the call gets how it ended, the
// next one a new program, and other sessions keep theirs.
func TestCrash(t *testing.T) {
	g := gateWith(t, "servers:\n"+child("kid", "", mcp.V20250618), nil)
	a, b := use(t, g.url("/mcp"), mcp.V20251125, mcp.ClientOptions{}, nil), use(t, g.url("/mcp"), mcp.V20250618, mcp.ClientOptions{}, nil)
	note := func(c *mcp.Client, arguments, want string) {
		t.Helper()
		r, err := c.CallTool(t.Context(), "kid__note", jsonrpc.Raw(arguments), nil)
		if got := textOf(t, r, err); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	note(a, `{"a":1}`, `{"a":1}`)
	note(b, `{"b":1}`, `{"b":1}`)
	_, err := a.CallTool(t.Context(), "kid__crash", nil, nil)
	e, _ := errors.AsType[*jsonrpc.Error](err)
	if e == nil || e.Code != jsonrpc.CodeUnavailable || !strings.Contains(string(e.Data), `"reason":"crashed"`) || !strings.Contains(string(e.Data), `"exit":3`) || !strings.Contains(string(e.Data), `"upstream":"kid"`) {
		t.Fatalf("crash: %v, %s", err, e.Data)
	}
	note(b, `{"b":2}`, `{"b":1} {"b":2}`)
	note(a, `{"a":2}`, `{"a":2}`)
}

// TestCancelReachesTheServer checks a cancelled call in all combinations of eras.
func TestCancelReachesTheServer(t *testing.T) {
	for _, version := range []mcp.Version{mcp.V20260728, mcp.V20251125} {
		for _, upstream := range []mcp.Version{mcp.V20260728, mcp.V20250618} {
			t.Run(version.String()+" to "+upstream.String(), func(t *testing.T) {
				ended := make(chan error, 1)
				g := gateWith(t, "servers:\n  up: {protocol: mcp, url: "+web(t, fixture("up", ended, upstream), nil)+"}\n", nil)
				c := use(t, g.url("/mcp"), version, mcp.ClientOptions{}, nil)
				ctx, cancel := context.WithCancel(t.Context())
				_, err := c.CallTool(ctx, "up__slow", nil, &mcp.CallOptions{Progress: func(mcp.Progress) { cancel() }})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				if eventually(t, ended) == nil {
					t.Error("the tool was not cancelled")
				}
			})
		}
	}
}

// TestProcessesAreBounded checks that the longest idle program makes room, and that a call gets an
// error if none is idle.
func TestProcessesAreBounded(t *testing.T) {
	g := gateWith(t, "servers:\n"+child("kid", ", processes: {max: 2}", mcp.V20250618), callers)
	var asked atomic.Int32
	hold, holding := make(chan struct{}), make(chan struct{}, 4)
	o := mcp.ClientOptions{Elicit: func(ctx context.Context, _ *mcp.Elicitation) (*mcp.ElicitResult, error) {
		asked.Add(1)
		holding <- struct{}{}
		<-hold
		return &mcp.ElicitResult{Action: mcp.ActionDecline}, nil
	}}
	// One after another: each session needs a program, and the list has one too.
	for i := range 5 {
		c := use(t, g.url("/mcp"), mcp.V20251125, o, asCaller(fmt.Sprint("p", i)))
		r, err := c.CallTool(t.Context(), "kid__note", jsonrpc.Raw(fmt.Sprintf(`{"i":%d}`, i)), nil)
		if got := textOf(t, r, err); got != fmt.Sprintf(`{"i":%d}`, i) {
			t.Errorf("got %s", got)
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(hold)
	for i := range 2 {
		c := use(t, g.url("/mcp"), mcp.V20251125, o, asCaller(fmt.Sprint("q", i)))
		wg.Go(func() { _, _ = c.CallTool(context.WithoutCancel(t.Context()), "kid__ask", jsonrpc.Raw(`{}`), nil) })
		eventually(t, holding)
	}
	c := use(t, g.url("/mcp"), mcp.V20251125, o, asCaller("r"))
	if _, err := c.CallTool(t.Context(), "kid__echo", nil, nil); reasonOf(err) != "too_many_processes" {
		t.Errorf("got %v", err)
	}
}

// TestListChanged checks that a change of a server's tools reaches the clients of both eras once
// they can see it.
func TestListChanged(t *testing.T) {
	for _, upstream := range []mcp.Version{mcp.V20260728, mcp.V20250618} {
		t.Run(upstream.String(), func(t *testing.T) {
			g := gateWith(t, "servers:\n  up: {protocol: mcp, url: "+web(t, fixture("up", nil, upstream), nil)+"}\n", nil)
			told := make(chan mcp.Change, 10)
			old := use(t, g.url("/mcp"), mcp.V20251125, mcp.ClientOptions{OnChange: func(ch mcp.Change) { told <- ch }}, nil)
			modern := use(t, g.url("/mcp"), mcp.V20260728, mcp.ClientOptions{}, nil)
			namesOf(t, old)
			heard := make(chan mcp.Change, 10)
			go func() {
				_ = modern.Listen(t.Context(), mcp.Filter{ToolsListChanged: true}, func(ch mcp.Change) error { heard <- ch; return nil })
			}()
			if ch := eventually(t, heard); ch.Method != mcp.NotifyAcknowledged {
				t.Fatalf("heard %+v", ch)
			}
			if _, err := old.CallTool(t.Context(), "up__grow", nil, nil); err != nil {
				t.Fatal(err)
			}
			for _, c := range []<-chan mcp.Change{told, heard} {
				if ch := eventually(t, c); ch.Method != mcp.NotifyToolsChanged {
					t.Errorf("heard %+v", ch)
				}
			}
			for _, c := range []*mcp.Client{old, modern} {
				if names := namesOf(t, c); !slices.Contains(names, "up__grown") {
					t.Errorf("tools %v", names)
				}
			}
		})
	}
}

// TestServerThatIsDown checks that a server that was never reached is named, and that its arrival
// is announced.
func TestServerThatIsDown(t *testing.T) {
	// A port that is closed and opened again could be taken by others, so the server ends its
	// connections until it is up.
	var up atomic.Bool
	late := mcphttp.NewHandler(fixture("late", nil, mcp.V20260728), nil)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			panic(http.ErrAbortHandler)
		}
		late.ServeHTTP(w, r)
	}))
	defer site.Close()
	g := gateWith(t, "servers:\n"+
		"  up: {protocol: mcp, url: "+web(t, fixture("up", nil, mcp.V20250618), nil)+"}\n"+
		"  late: {protocol: mcp, url: "+site.URL+"}\n", nil)
	told := make(chan mcp.Change, 10)
	c := use(t, g.url("/mcp"), mcp.V20251125, mcp.ClientOptions{OnChange: func(ch mcp.Change) { told <- ch }}, nil)
	page, err := c.ListTools(t.Context(), nil)
	if err != nil || string(page.Meta["parley/unavailable"]) != `["late"]` || len(page.Tools) != 13 {
		t.Fatalf("%d tools, %s, %v", len(page.Tools), page.Meta, err)
	}
	if _, err := c.CallTool(t.Context(), "late__echo", nil, nil); !errors.Is(err, jsonrpc.ErrInvalidParams) {
		t.Errorf("a tool that is not known: %v", err)
	}
	up.Store(true)
	for eventually(t, told).Method != mcp.NotifyToolsChanged {
	}
	r, err := c.CallTool(t.Context(), "late__echo", nil, nil)
	if got := textOf(t, r, err); got != "late " {
		t.Errorf("got %s", got)
	}
	site.CloseClientConnections()
	site.Close()
	if _, err := c.CallTool(t.Context(), "late__echo", nil, nil); reasonOf(err) != "unreachable" {
		t.Errorf("a server that has gone: %v", err)
	}
	if len(namesOf(t, c)) != 26 {
		t.Error("the tools of a server that is down are listed for a day")
	}
}

// TestParkedCallsAreBounded checks the bound of calls that wait for their modern clients.
func TestParkedCallsAreBounded(t *testing.T) {
	g := gateWith(t, "servers:\n  old: {protocol: mcp, url: "+web(t, fixture("old", nil, mcp.V20250618), nil)+"}\n", callers)
	caps := &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}
	ask := func(c *mcp.Client, i int) error {
		params := jsonrpc.Raw(fmt.Sprintf(`{"name":"old__ask","arguments":{"i":%d}}`, i))
		_, err := c.Invoke(t.Context(), mcp.MethodToolsCall, params, &mcp.InvokeOptions{Capabilities: caps})
		return err
	}
	ann := use(t, g.url("/mcp"), mcp.V20260728, mcp.ClientOptions{}, asCaller("ann"))
	for i := range 16 {
		if err := ask(ann, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(ann, 16); reasonOf(err) != "too_many_calls" {
		t.Errorf("got %v", err)
	}
	bob := use(t, g.url("/mcp"), mcp.V20260728, mcp.ClientOptions{}, asCaller("bob"))
	if err := ask(bob, 0); err != nil {
		t.Errorf("another principal: %v", err)
	}
}

// TestLostSession checks that a session which a server has lost is opened again once, and the call
// sent again; a server that loses it twice is named.
func TestLostSession(t *testing.T) {
	s := fixture("old", nil, mcp.V20250618)
	h := mcphttp.NewHandler(s, nil)
	var lose, initialized, calls atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case bytes.Contains(body, []byte(`"initialize"`)):
			initialized.Add(1)
		case bytes.Contains(body, []byte(`"tools/call"`)):
			if lose.Add(-1) >= 0 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			calls.Add(1)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		_ = h.Close()
		site.Close()
	})
	g := gateWith(t, "servers:\n  old: {protocol: mcp, url: "+site.URL+"}\n", nil)
	c := use(t, g.url("/mcp"), mcp.V20251125, mcp.ClientOptions{}, nil)
	call := func() error {
		_, err := c.CallTool(t.Context(), "old__echo", nil, nil)
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	before := initialized.Load()
	lose.Store(1)
	if err := call(); err != nil || calls.Load() != 2 || initialized.Load() != before+1 {
		t.Errorf("lost once: %v, %d calls, %d handshakes", err, calls.Load(), initialized.Load()-before)
	}
	lose.Store(2)
	if err := call(); reasonOf(err) != "session_lost" {
		t.Errorf("lost twice: %v", err)
	}
	lose.Store(0)
	if err := call(); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// TestURLsToVisit checks that a user is sent to a URL in all combinations of the versions that have
// this.
func TestURLsToVisit(t *testing.T) {
	for _, version := range []mcp.Version{mcp.V20260728, mcp.V20251125} {
		for _, upstream := range []mcp.Version{mcp.V20260728, mcp.V20251125} {
			t.Run(version.String()+" to "+upstream.String(), func(t *testing.T) {
				g := gateWith(t, "servers:\n  up: {protocol: mcp, url: "+web(t, fixture("up", nil, upstream), nil)+"}\n", nil)
				var visited atomic.Int32
				o := mcp.ClientOptions{ElicitURL: true, Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
					if e.URL == "https://login.example/" && e.Message == "Log in" {
						visited.Add(1)
					}
					return &mcp.ElicitResult{Action: mcp.ActionAccept}, nil
				}}
				c := use(t, g.url("/mcp"), version, o, nil)
				r, err := c.CallTool(t.Context(), "up__visit", nil, nil)
				if got := textOf(t, r, err); got != "visited" || visited.Load() != 1 {
					t.Errorf("got %s after %d visits", got, visited.Load())
				}
			})
		}
	}
}

// A repeater writes each acknowledgement of a subscription three times.
type repeater struct{ http.ResponseWriter }

func (r repeater) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r repeater) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(mcp.NotifyAcknowledged)) {
		for range 2 {
			if _, err := r.ResponseWriter.Write(p); err != nil {
				return 0, err
			}
		}
	}
	return r.ResponseWriter.Write(p)
}

// TestRepeatedAcknowledgements checks that a server that acknowledges a subscription again is
// heard, and that the subscription ends with the gateway.
func TestRepeatedAcknowledgements(t *testing.T) {
	s := fixture("up", nil, mcp.V20260728)
	h := mcphttp.NewHandler(s, nil)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(repeater{w}, r) }))
	t.Cleanup(func() {
		s.Close()
		_ = h.Close()
		site.Close()
	})
	g := gateWith(t, "servers:\n  up: {protocol: mcp, url: "+site.URL+"}\n", nil)
	client := use(t, g.url("/mcp"), mcp.V20260728, mcp.ClientOptions{}, nil)
	heard := make(chan mcp.Change, 10)
	go func() {
		_ = client.Listen(t.Context(), mcp.Filter{ResourceSubscriptions: []string{"test://own/up"}}, func(ch mcp.Change) error { heard <- ch; return nil })
	}()
	if ch := eventually(t, heard); ch.Method != mcp.NotifyAcknowledged {
		t.Fatalf("heard %+v", ch)
	}
	s.ResourceUpdated("test://own/up")
	if ch := eventually(t, heard); ch.Method != mcp.NotifyResourceUpdated || ch.URI != "test://own/up" {
		t.Errorf("heard %+v", ch)
	}
}
