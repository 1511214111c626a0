package acp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

func in(session string, q acp.RunCreateRequest) acp.RunCreateRequest {
	q.SessionID = session
	return q
}

func TestSessions(t *testing.T) {
	s := newStage(t, &acp.Options{ResourceURL: func(id string) string { return "https://here.example/resources/" + id }})
	s.add("broken", func(ctx context.Context, j *acp.Job) error {
		return errors.Join(j.Say(ctx, "x"), j.End(ctx), acp.Errorf("no"))
	})
	c := s.connect(nil)
	first := must(t)(c.Run(t.Context(), ask("echo", "one")))
	if first.SessionID == "" {
		t.Fatal("no session")
	}
	must(t)(c.Run(t.Context(), in(first.SessionID, ask("broken", "not kept"))))
	second := must(t)(c.Run(t.Context(), in(first.SessionID, ask("memory", "two"))))
	if second.SessionID != first.SessionID || second.Text() != "user=one;agent/echo=one;end" {
		t.Errorf("%s: %q", second.SessionID, second.Text())
	}
	session, err := c.Session(t.Context(), first.SessionID)
	if err != nil || session.ID != first.SessionID || len(session.History) != 4 {
		t.Fatalf("%+v, %v", session, err)
	}
	for i, want := range []string{"one", "one", "two", "user=one;agent/echo=one;end"} {
		id, ok := strings.CutPrefix(session.History[i], "https://here.example/resources/")
		text, err := s.Resource(t.Context(), id)
		var m acp.Message
		if !ok || err != nil || text.Decode(&m) != nil || m.Text() != want {
			t.Errorf("%s: %s, %v, want %q", session.History[i], text, err, want)
		}
		mustFit(t, "Message", text)
	}
	// A session that a client names exists, even before it has messages.
	run := must(t)(c.Start(t.Context(), in(uuid1, ask("wait", "x"))))
	eventually(t, s.begun)
	if session, err := c.Session(t.Context(), uuid1); err != nil || len(session.History) != 0 {
		t.Errorf("%+v, %v", session, err)
	}
	must(t)(c.Cancel(t.Context(), run.ID))
	for _, id := range []string{"5f1ffb71-29a6-4b8c-8ae1-2d2a37a35f21", "x", ""} {
		if _, err := c.Session(t.Context(), id); !errors.Is(err, acp.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := s.Resource(t.Context(), id); !errors.Is(err, acp.ErrNotFound) {
			t.Errorf("resource %q: %v", id, err)
		}
	}
}

// TestSessionsShareMessages checks that a session that references messages of another does not
// remove them: neither when it is replaced, nor when one of the two is removed.
func TestSessionsShareMessages(t *testing.T) {
	s := newStage(t, &acp.Options{Limits: acp.Limits{Sessions: 2}})
	c := s.connect(nil)
	with := func(id string, history []string) acp.RunCreateRequest {
		q := ask("memory", "next")
		q.Session = &acp.Session{ID: id, History: history}
		return q
	}
	text := func(url string) bool {
		_, err := s.Resource(t.Context(), strings.TrimPrefix(url, "urn:uuid:"))
		return err == nil
	}
	first := must(t)(c.Run(t.Context(), ask("echo", "one")))
	session, err := c.Session(t.Context(), first.SessionID)
	if err != nil || len(session.History) != 2 {
		t.Fatal(session, err)
	}
	if got := must(t)(c.Run(t.Context(), with(uuid1, session.History))); !strings.HasPrefix(got.Text(), "user=one;") {
		t.Fatalf("the second session begins with %q", got.Text())
	}
	must(t)(c.Run(t.Context(), with(uuid1, nil)))
	for _, url := range session.History {
		if !text(url) {
			t.Errorf("%s is gone, which the first session names", url)
		}
	}
	if got := must(t)(c.Run(t.Context(), in(first.SessionID, ask("memory", "two")))); !strings.HasPrefix(got.Text(), "user=one;") {
		t.Errorf("the first session has %q", got.Text())
	}
	// The first is removed; the second still references the messages that it added.
	must(t)(c.Run(t.Context(), with(uuid1, session.History)))
	must(t)(c.Run(t.Context(), ask("echo", "another session")))
	for _, url := range session.History {
		if !text(url) {
			t.Errorf("%s is gone, which the second session names", url)
		}
	}
	must(t)(c.Run(t.Context(), with(uuid1, nil)))
	for _, url := range session.History {
		if text(url) {
			t.Errorf("%s is still there, which no session names", url)
		}
	}
}

// TestSessionOfManyRuns checks that runs that end at the same moment are all added to the history.
func TestSessionOfManyRuns(t *testing.T) {
	s := newStage(t, nil)
	c := s.local()
	var all sync.WaitGroup
	const runs = 50
	for i := range runs {
		all.Go(func() { must(t)(c.Run(t.Context(), in(uuid1, ask("echo", fmt.Sprint(i))))) })
	}
	all.Wait()
	session, err := c.Session(t.Context(), uuid1)
	if err != nil || len(session.History) != 2*runs {
		t.Fatalf("%d messages, %v", len(session.History), err)
	}
	said := map[string]int{}
	for _, at := range session.History {
		text, err := s.Resource(t.Context(), strings.TrimPrefix(at, "urn:uuid:"))
		var m acp.Message
		if err != nil || text.Decode(&m) != nil {
			t.Fatal(err)
		}
		said[m.Text()]++
	}
	for i := range runs {
		if said[fmt.Sprint(i)] != 2 {
			t.Errorf("%d was said %d times", i, said[fmt.Sprint(i)])
		}
	}
}

// TestDistributedSessions uses a session that began at another server.
func TestDistributedSessions(t *testing.T) {
	elsewhere := map[string]string{
		"https://there.example/1": `{"role":"user","parts":[{"content_type":"text/plain","content":"from there"}]}`,
		"https://there.example/2": `[]`,
	}
	s := newStage(t, &acp.Options{
		ResourceURL: func(id string) string { return "https://here.example/resources/" + id },
		Fetch: func(_ context.Context, url string) (jsonrpc.Raw, error) {
			if text, ok := elsewhere[url]; ok {
				return jsonrpc.Raw(text), nil
			}
			return nil, errors.New("nothing there")
		},
	})
	c := s.connect(nil)
	bring := func(history ...string) acp.RunCreateRequest {
		q := ask("memory", "here")
		q.Session = &acp.Session{ID: uuid1, History: history, State: "https://there.example/state"}
		return q
	}
	run := must(t)(c.Run(t.Context(), bring("https://there.example/1")))
	if run.SessionID != uuid1 || run.Text() != "user=from there;end" {
		t.Errorf("%+v %v", run, run.Error)
	}
	session, err := c.Session(t.Context(), uuid1)
	if err != nil || len(session.History) != 3 || session.History[0] != "https://there.example/1" || session.State != "https://there.example/state" {
		t.Fatalf("%+v, %v", session, err)
	}
	// The session is sent back with our own messages, which need no fetching; omitted messages are
	// removed.
	run = must(t)(c.Run(t.Context(), bring(session.History[0], session.History[2])))
	if run.Text() != "user=from there;agent/memory=user=from there;end;end" {
		t.Errorf("%q %v", run.Text(), run.Error)
	}
	again, err := c.Session(t.Context(), uuid1)
	if err != nil || len(again.History) != 4 || !slices.Equal(again.History[:2], []string{session.History[0], session.History[2]}) {
		t.Errorf("%+v, %v", again, err)
	}
	left := strings.TrimPrefix(session.History[1], "https://here.example/resources/")
	if _, err := s.Resource(t.Context(), left); !errors.Is(err, acp.ErrNotFound) {
		t.Errorf("what was left out: %v", err)
	}
	for _, url := range []string{"https://there.example/2", "https://there.example/3"} {
		if run := must(t)(c.Run(t.Context(), bring(url))); run.Status != acp.RunFailed {
			t.Errorf("%s: %+v", url, run)
		}
	}
	// Without Fetch, an agent that reads the history fails, and others do not.
	s = newStage(t, nil)
	if run := must(t)(s.local().Run(t.Context(), bring("https://there.example/1"))); run.Status != acp.RunFailed {
		t.Errorf("%+v", run)
	}
	q := bring("https://there.example/1")
	q.AgentName = "echo"
	if run := must(t)(s.local().Run(t.Context(), q)); run.Status != acp.RunCompleted {
		t.Errorf("%+v", run)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	s := newStage(t, &acp.Options{Limits: acp.Limits{History: 5}})
	c := s.connect(nil)
	for range 2 {
		must(t)(c.Run(t.Context(), in(uuid1, ask("echo", "x"))))
	}
	// The question fits in the store, but the answer does not.
	run := must(t)(c.Run(t.Context(), in(uuid1, ask("echo", "x"))))
	if run.Status != acp.RunFailed || run.Error.Message != "The session could not be stored." || run.Text() != "x" {
		t.Errorf("%+v, %v", run, run.Error)
	}
	session, err := c.Session(t.Context(), uuid1)
	if err != nil || len(session.History) != 4 {
		t.Errorf("%+v, %v", session, err)
	}
	q := in(uuid1, ask("echo", "x"))
	q.Input = append(q.Input, q.Input...)
	if _, err := c.Run(t.Context(), q); !errors.Is(err, acp.ErrBusy) {
		t.Errorf("%v", err)
	}
}

// TestRestart checks that a server with the store of an earlier one has all ended runs, and reports
// the others as failed.
func TestRestart(t *testing.T) {
	memory := store.NewMemory(acp.StoreLimits())
	defer memory.Close()
	o := &acp.Options{Store: memory, Principal: principal, Limits: acp.Limits{Events: 20}}
	ada := as(t.Context(), "ada")
	s := newStage(t, o)
	s.add("cut", func(ctx context.Context, j *acp.Job) error {
		err := errors.Join(j.Say(ctx, "whole"), j.End(ctx), j.Say(ctx, "half"))
		s.begun <- j
		<-ctx.Done()
		return err
	})
	s.add("long", func(ctx context.Context, j *acp.Job) error {
		err := errors.Join(j.Say(ctx, "first"), j.End(ctx))
		for range 50 {
			err = errors.Join(err, j.Say(ctx, "x"))
		}
		err = errors.Join(err, j.End(ctx), j.Say(ctx, "last"), j.End(ctx))
		s.begun <- j
		<-ctx.Done()
		return err
	})
	c := s.local()
	q := in(uuid1, ask("echo", "before"))
	var before []acp.Event
	done := must(t)(c.Stream(ada, q, record(t, &before)))
	failed := must(t)(c.Run(ada, ask("memory", "x")))
	long := must(t)(c.Start(ada, ask("long", "x")))
	eventually(t, s.begun)
	cut := must(t)(c.Start(ada, ask("cut", "x")))
	eventually(t, s.begun)
	waiting := must(t)(c.Run(ada, ask("ask", "x")))

	// The process ends here for the store: later writes of s are lost.
	image := copyStore(t, memory)
	o.Store = image
	again := newStage(t, o)
	defer image.Close() // after the server
	c = again.local()
	for _, id := range []string{done.ID, failed.ID} {
		if run := must(t)(c.Status(ada, id)); run.Status != acp.RunCompleted || run.FinishedAt.IsZero() {
			t.Errorf("%+v", run)
		}
	}
	if _, err := c.Status(t.Context(), done.ID); !errors.Is(err, acp.ErrNotFound) {
		t.Errorf("for somebody else: %v", err)
	}
	var after []acp.Event
	if run := must(t)(c.Subscribe(ada, done.ID, 2, record(t, &after))); run.Text() != "before" || typesOf(after) != typesOf(before[2:]) {
		t.Errorf("%+v %s", run, typesOf(after))
	}
	for id, want := range map[string]string{cut.ID: "whole", waiting.ID: "", long.ID: "first" + strings.Repeat("x", 50) + "last"} {
		run := must(t)(c.Status(ada, id))
		if run.Status != acp.RunFailed || run.Error.Message != "The server was stopped during the run." || run.Text() != want || run.AwaitRequest != nil || run.FinishedAt.IsZero() {
			t.Errorf("%+v %v", run, run.Error)
		}
		if _, err := c.Cancel(ada, id); !errors.Is(err, acp.ErrOver) {
			t.Errorf("cancel: %v", err)
		}
	}
	if events, err := c.Events(ada, cut.ID, 6); err != nil || typesOf(events) != "message.part run.failed" {
		t.Errorf("%s, %v", typesOf(events), err)
	}
	if run := must(t)(c.Run(ada, in(uuid1, ask("memory", "x")))); run.Text() != "user=before;agent/echo=before;end" {
		t.Errorf("%q", run.Text())
	}
	if n := strings.Count(again.log.text(), "run truncated"); n != 3 {
		t.Errorf("%d in the log:\n%s", n, again.log.text())
	}
}

// copyStore returns what another process would find in the store.
func copyStore(t *testing.T, from store.Store) store.Store {
	t.Helper()
	to := store.NewMemory(acp.StoreLimits())
	heads, err := from.Heads(t.Context(), "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range heads {
		// Placeholders for removed events, so that the numbers of the others are equal.
		for range head.First - 1 {
			if _, err := to.Append(t.Context(), head.Key, store.Any, nil); err != nil {
				t.Fatal(err)
			}
		}
		for event, err := range from.Read(t.Context(), head.Key, head.First-1) {
			if err == nil {
				_, err = to.Append(t.Context(), head.Key, store.Any, event.Data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := to.Trim(t.Context(), head.Key, head.First-1); err != nil {
			t.Fatal(err)
		}
	}
	values, err := from.List(t.Context(), "", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range values {
		if _, err := to.Put(t.Context(), value.Key, 0, value.Data, 0); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A failing store returns errors after a given point.
type failing struct {
	store.Store
	mu  sync.Mutex
	err error
}

func (f *failing) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failing) Append(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return f.Store.Append(ctx, key, after, events...)
}

// TestBrokenStore checks that runs fail if the store fails, that all readers receive the failure,
// and that no private details are sent.
func TestBrokenStore(t *testing.T) {
	disk := &failing{Store: store.NewMemory(acp.StoreLimits())}
	defer disk.Close()
	s := newStage(t, &acp.Options{Store: disk})
	c := s.connect(nil)
	var events []acp.Event
	run := must(t)(c.Stream(t.Context(), ask("wait", "x"), func(e acp.Event) error {
		if e.Type == acp.EventRunInProgress {
			eventually(t, s.begun)
			disk.fail(&store.Fault{Reason: store.ReasonFull, Err: errors.New("/secret/path is full")})
			s.release <- struct{}{}
		}
		return record(t, &events)(e)
	}))
	if run.Status != acp.RunFailed || run.Error.Message != "The agent failed." || typesOf(events) != "run.created run.in-progress run.failed" {
		t.Errorf("%+v, %v, %s", run, run.Error, typesOf(events))
	}
	if got := must(t)(c.Status(t.Context(), run.ID)); got.Status != acp.RunFailed {
		t.Errorf("afterwards: %+v", got)
	}
	_, err := c.Run(t.Context(), ask("echo", "x"))
	if !errors.Is(err, acp.ErrServer) || !strings.Contains(err.Error(), "Storage unavailable") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(s.log.text(), "/secret/path") {
		t.Errorf("the log has nothing of it: %s", s.log.text())
	}
	disk.fail(nil)
	if run := must(t)(c.Run(t.Context(), ask("echo", "x"))); run.Text() != "x" {
		t.Errorf("%+v", run)
	}
}

// TestStoreWithLittleRoom checks that output that is too large for one record is available from the
// earlier messages.
func TestStoreWithLittleRoom(t *testing.T) {
	memory := store.NewMemory(store.Limits{EventBytes: 3000})
	defer memory.Close()
	s := newStage(t, &acp.Options{Store: memory})
	s.add("much", func(ctx context.Context, j *acp.Job) error {
		for range 3 {
			if err := errors.Join(j.Say(ctx, strings.Repeat("x", 1000)), j.End(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
	var events []acp.Event
	run := must(t)(s.connect(nil).Stream(t.Context(), ask("much", "x"), record(t, &events)))
	if run.Status != acp.RunFailed || run.Error.Message != "The storage has no room for the output." || strings.Count(typesOf(events), "message.completed") != 3 {
		t.Errorf("%+v, %v, %s", run, run.Error, typesOf(events))
	}
}

// TestRestartFromDisk is the same on disk, with a server and a store that were closed in between.
func TestRestartFromDisk(t *testing.T) {
	dir := t.TempDir()
	open := func() (*stage, func()) {
		disk, err := sqlite.Open(dir, &sqlite.Options{Limits: acp.StoreLimits()})
		if err != nil {
			t.Fatal(err)
		}
		s := newStage(t, &acp.Options{Store: disk})
		return s, func() {
			if err := errors.Join(s.Close(), disk.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	s, end := open()
	c := s.connect(nil)
	var before []acp.Event
	done := must(t)(c.Stream(t.Context(), in(uuid1, ask("words", "a b c")), record(t, &before)))
	must(t)(c.Start(t.Context(), ask("wait", "x")))
	working := eventually(t, s.begun)
	waiting := must(t)(c.Run(t.Context(), ask("ask", "x")))
	c.Close()
	end() // the active runs fail, and that is stored

	s, end = open()
	defer end()
	c = s.connect(nil)
	defer c.Close()
	var after []acp.Event
	if run := must(t)(c.Subscribe(t.Context(), done.ID, 0, record(t, &after))); run.Text() != "abc" || typesOf(after) != typesOf(before) {
		t.Errorf("%+v %s", run, typesOf(after))
	}
	for _, id := range []string{working.ID(), waiting.ID} {
		if run := must(t)(c.Status(t.Context(), id)); run.Status != acp.RunFailed || run.Error.Message != "The server has stopped." {
			t.Errorf("%+v %v", run, run.Error)
		}
	}
	if run := must(t)(c.Run(t.Context(), in(uuid1, ask("memory", "x")))); run.Text() != "user=a b c;agent/words=abc;end" {
		t.Errorf("%q", run.Text())
	}
}
