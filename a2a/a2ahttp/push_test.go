package a2ahttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A hook is a webhook that fails a given number of times.
type hook struct {
	url  string
	came chan notified

	mu   sync.Mutex
	fail int
}

type notified struct {
	header http.Header
	body   map[string]json.RawMessage
}

func newHook(t *testing.T, fail int) *hook {
	h := &hook{came: make(chan notified, 100), fail: fail}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.fail > 0 {
			h.fail--
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		text, err := io.ReadAll(r.Body)
		var body map[string]json.RawMessage
		if err == nil {
			err = json.Unmarshal(text, &body)
		}
		if err != nil {
			t.Errorf("%v in %s", err, text)
		}
		w.WriteHeader(http.StatusNoContent)
		h.came <- notified{r.Header.Clone(), body}
	}))
	t.Cleanup(web.Close)
	h.url = web.URL + "/hook"
	return h
}

func pushing(t *testing.T, agent a2a.AgentFunc) *site {
	t.Helper()
	p := &a2ahttp.Pusher{Loopback: true}
	t.Cleanup(p.Close)
	return serve(t, card(), agent, &a2a.ServerOptions{Push: p})
}

func TestPushInBothShapes(t *testing.T) {
	for _, v := range a2a.Versions() {
		t.Run(v.String(), func(t *testing.T) {
			s := pushing(t, echo)
			h := newHook(t, 1) // the first attempt fails, and is repeated
			c := s.dial(t, &a2ahttp.Options{ClientOptions: a2a.ClientOptions{Version: v}})
			r := text("hi")
			r.Configuration = &a2a.Configuration{Push: &a2a.PushConfig{ID: "h", URL: h.url, Token: "tok",
				Authentication: &a2a.Authentication{Scheme: "Bearer", Credentials: "secret"}}}
			if _, err := c.Send(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			var members []string
			for len(members) < 3 {
				got := <-h.came
				if got.header.Get("Authorization") != "Bearer secret" || got.header.Get(a2ahttp.HeaderToken) != "tok" {
					t.Errorf("headers %v", got.header)
				}
				if v == a2a.V03 {
					if string(got.body["kind"]) != `"task"` || got.header.Get("Content-Type") != "application/json" {
						t.Errorf("%v %s", got.header, got.body)
					}
					var status struct{ State string }
					if err := json.Unmarshal(got.body["status"], &status); err != nil || status.State == "completed" {
						break // it includes all earlier events
					}
					continue
				}
				if got.header.Get("Content-Type") != "application/a2a+json" || got.header.Get(a2ahttp.HeaderToken1) != "tok" {
					t.Errorf("headers %v", got.header)
				}
				for name := range got.body {
					members = append(members, name)
				}
			}
			if v == a2a.V10 {
				if diff := cmp.Diff([]string{"task", "artifactUpdate", "statusUpdate"}, members); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestWebhooks(t *testing.T) {
	for _, v := range a2a.Versions() {
		t.Run(v.String(), func(t *testing.T) {
			s := pushing(t, echo)
			c := s.dial(t, &a2ahttp.Options{ClientOptions: a2a.ClientOptions{Version: v}})
			done, err := c.Send(t.Context(), text("hi"))
			if err != nil {
				t.Fatal(err)
			}
			id := done.Task.ID
			for _, name := range []string{"one", ""} {
				if got, err := c.CreatePush(t.Context(), &a2a.PushConfig{TaskID: id, ID: name, URL: "http://127.0.0.1:9/x"}); err != nil || got.ID == "" || got.TaskID != id {
					t.Fatalf("CreatePush = %+v, %v", got, err)
				}
			}
			if got, err := c.Push(t.Context(), id, "one"); err != nil || got.URL != "http://127.0.0.1:9/x" {
				t.Errorf("Push = %+v, %v", got, err)
			}
			if got, err := c.ListPush(t.Context(), &a2a.PushRequest{TaskID: id}); err != nil || len(got.Configs) != 2 {
				t.Errorf("ListPush = %+v, %v", got, err)
			}
			for range 2 { // the first call has removed it
				if err := c.DeletePush(t.Context(), id, "one"); err != nil {
					t.Errorf("DeletePush: %v", err)
				}
			}
			if _, err := c.Push(t.Context(), id, "one"); !errors.Is(err, a2a.ErrTaskNotFound) {
				t.Errorf("Push of what is gone: %v", err)
			}
			if _, err := c.CreatePush(t.Context(), &a2a.PushConfig{TaskID: "nope", URL: "http://127.0.0.1:9/x"}); !errors.Is(err, a2a.ErrTaskNotFound) {
				t.Errorf("CreatePush for no task: %v", err)
			}
			for i := range 32 {
				_, err := c.CreatePush(t.Context(), &a2a.PushConfig{TaskID: id, URL: "http://127.0.0.1:9/x"})
				if full := i == 31; full != (err != nil) {
					t.Errorf("webhook %d: %v", i, err)
				}
			}
		})
	}
}

// TestPusherReachesPublicPlacesOnly checks that a webhook URL cannot name an internal address.
func TestPusherReachesPublicPlacesOnly(t *testing.T) {
	p := &a2ahttp.Pusher{}
	defer p.Close()
	for _, url := range []string{
		"", "ftp://example.com/", "http://example.com/", "https://", "https://user:pw@example.com/", "https://127.0.0.1/", "https://localhost/",
		"https://[::1]/", "https://10.0.0.1/", "https://192.168.1.1/", "https://169.254.169.254/latest/meta-data", "https://100.64.0.1/",
		"https://0.0.0.0/", "https://[::ffff:127.0.0.1]/", "https://[fd00::1]/", "https://[64:ff9b::7f00:1]/", "https://224.0.0.1/", "https://192.0.2.1/",
	} {
		err := p.Check(t.Context(), a2a.PushConfig{URL: url})
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("Check(%q) = %v", url, err)
		}
		if err := p.Push(t.Context(), a2a.Notice{Config: a2a.PushConfig{URL: url}, Version: a2a.V10, Body: jsonrpc.Raw("{}")}); err == nil {
			t.Errorf("Push(%q) went out", url)
		}
	}
	for _, bad := range []a2a.PushConfig{
		{URL: "https://203.0.114.1/", Token: "a\r\nX: y"},
		{URL: "https://203.0.114.1/", Authentication: &a2a.Authentication{Scheme: "Bearer", Credentials: "a\nb"}},
	} {
		if err := p.Check(t.Context(), bad); err == nil {
			t.Errorf("Check(%+v) passed", bad)
		}
	}
	if err := p.Check(t.Context(), a2a.PushConfig{URL: "https://203.0.114.1/hook"}); err != nil {
		t.Errorf("a public address: %v", err)
	}
	known := &a2ahttp.Pusher{Hosts: []string{"10.1.2.3"}}
	defer known.Close()
	if err := known.Check(t.Context(), a2a.PushConfig{URL: "http://10.1.2.3:8080/hook"}); err != nil {
		t.Errorf("an address of the operator's list: %v", err)
	}
}

func TestARegistrationThatIsRefusedStartsNothing(t *testing.T) {
	p := &a2ahttp.Pusher{}
	defer p.Close()
	s := serve(t, card(), func(context.Context, *a2a.Run) error {
		t.Error("the agent ran")
		return nil
	}, &a2a.ServerOptions{Push: p})
	r := text("hi")
	r.Configuration = &a2a.Configuration{Push: &a2a.PushConfig{URL: "http://127.0.0.1:1/"}}
	_, err := s.dial(t, nil).Send(t.Context(), r)
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("Send = %v", err)
	}
}

func TestASlowWebhookGetsTheWholeTask(t *testing.T) {
	first := make(chan struct{})
	release := make(chan struct{})
	var once sync.Once
	got := make(chan string, 300)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(first); <-release })
		var body map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		for name := range body {
			got <- name
		}
	}))
	t.Cleanup(web.Close)
	s := pushing(t, func(ctx context.Context, r *a2a.Run) error {
		if err := r.Working(ctx); err != nil {
			return err
		}
		<-first // a notification is being posted
		for range 200 {
			if err := r.Chunk(ctx, a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text("x")}}, true, false); err != nil {
				return err
			}
		}
		return nil
	})
	r := text("hi")
	r.Configuration = &a2a.Configuration{Push: &a2a.PushConfig{URL: web.URL}}
	if _, err := s.dial(t, nil).Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	close(release)
	var names []string
	for len(names) < 2 || names[len(names)-1] != "task" {
		select {
		case name := <-got:
			names = append(names, name)
		case <-time.After(time.Minute):
			t.Fatalf("no task came after %v", names)
		}
	}
	if len(names) > 70 {
		t.Errorf("%d notifications", len(names))
	}
}
