package playground_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/capture/sessions"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
)

// A tapped is a session that is being recorded into a folder.
type tapped struct {
	*capture.Recorder
	id   string
	wire *capture.Wire
}

func record(t *testing.T, dir, name string, at time.Time) *tapped {
	t.Helper()
	path, err := sessions.New(dir, name, at)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := capture.New(&capture.Options{File: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() }) // usually the second time
	return &tapped{rec, strings.TrimSuffix(filepath.Base(path), ".jsonl"), rec.Wire(capture.WireInfo{Target: "@x", Carrier: "tcp"})}
}

// call records a call of a method with its response.
func (r *tapped) call(method, params, result string) {
	r.wire.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	r.wire.Payload(capture.In, []byte(`{"jsonrpc":"2.0","id":1,"result":`+result+`}`))
	r.Flush()
}

func (r *tapped) end(t *testing.T) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

type storedSession struct {
	Session string         `json:"session"`
	Name    string         `json:"name"`
	Live    bool           `json:"live"`
	Log     string         `json:"log"`
	Total   int            `json:"total"`
	Rest    map[string]any `json:",embed"`
}

type storedSessions struct {
	Sessions []storedSession `json:"sessions"`
	Older    int             `json:"older"`
	Problem  string          `json:"problem"`
	Rest     map[string]any  `json:",embed"`
}

// TestSessionsOfTaps checks that the page lists live sessions before past ones, and shows a live
// one while it is recorded.
func TestSessionsOfTaps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	now := time.Now()
	past := record(t, dir, "cursor/notes", now)
	past.call("old", "[]", "1")
	past.end(t)
	live := record(t, dir, "claude/files", now.Add(-time.Hour))
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, &playground.Options{Sessions: dir, Judges: lens.Judges})
	var hello struct {
		Sessions storedSessions `json:"sessions"`
		Rest     map[string]any `json:",embed"`
	}
	b.call("hello", obj{}, &hello)
	list := hello.Sessions.Sessions
	if len(list) != 2 || list[0].Name != "claude-files" || !list[0].Live || list[1].Name != "cursor-notes" || list[1].Live {
		t.Fatalf("listed: %+v", list)
	}
	var opened storedSession
	b.call("sessions/open", obj{"session": past.id}, &opened)
	if opened.Log != "s1" || opened.Live || opened.Total == 0 {
		t.Errorf("opened: %+v", opened)
	}
	b.call("sessions/open", obj{"session": live.id}, &opened)
	if opened.Log != "s2" || !opened.Live || opened.Name != "claude-files" {
		t.Errorf("opened: %+v", opened)
	}
	b.call("sessions/open", obj{"session": live.id}, &opened)
	if opened.Log != "s2" {
		t.Errorf("opened twice as %s", opened.Log)
	}
	live.call("first", "[]", "1")
	said := false
	ended := !b.followLog("s2", func(method string, params jsonrpc.Raw) bool {
		switch {
		case method == "rows" && !said && strings.Contains(string(params), `"first"`):
			said = true
			live.call("second", "[]", "2")
		case method == "rows" && strings.Contains(string(params), `"second"`):
			live.end(t)
		}
		return false
	})
	if !said || !ended {
		t.Errorf("the first row: %t, the end: %t", said, ended)
	}
	var logs struct {
		Logs []storedSession `json:"logs"`
		Rest map[string]any  `json:",embed"`
	}
	b.call("session/list", obj{}, &logs)
	if n := len(logs.Logs); n != 3 || logs.Logs[2].Live || logs.Logs[2].Session != live.id {
		t.Errorf("at the end: %+v", logs.Logs)
	}
	for _, bad := range []string{"", "notes", "../sessions/" + past.id, past.id + ".jsonl", "last"} {
		if e := b.try("sessions/open", obj{"session": bad}, nil); e == nil || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%q is opened: %v", bad, e)
		}
	}
}

// TestLiveSessionIsClosed checks that a live session can be closed while it is recorded.
func TestLiveSessionIsClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	live := record(t, dir, "a", time.Now())
	b := open(t, &playground.Options{Sessions: dir})
	var opened storedSession
	b.call("sessions/open", obj{"session": live.id}, &opened)
	live.call("first", "[]", "1")
	b.followLog(opened.Log, func(method string, params jsonrpc.Raw) bool {
		if method == "rows" && strings.Contains(string(params), `"first"`) {
			b.call("session/close", obj{"log": opened.Log}, nil)
		}
		return false
	})
	if e := b.try("wire/rows", obj{"log": opened.Log}, nil); e == nil {
		t.Error("it is still open")
	}
	live.call("second", "[]", "1") // the tap does not notice
	live.end(t)
}

// TestNewSessionsAreReported checks that the page learns of a session that begins and ends while it
// is open.
func TestNewSessionsAreReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	b := open(t, &playground.Options{Sessions: dir})
	var live *tapped
	was := []string{}
	b.follow(func(method string, params jsonrpc.Raw) bool {
		if method != "sessions" {
			return false
		}
		state := "none"
		if strings.Contains(string(params), `"live":true`) {
			state = "live"
		} else if strings.Contains(string(params), `"session":`) {
			state = "past"
		}
		if len(was) == 0 || was[len(was)-1] != state {
			was = append(was, state)
		}
		switch state {
		case "none":
			if live == nil {
				live = record(t, dir, "a", time.Now())
			}
		case "live":
			live.end(t)
		}
		return state == "past"
	})
	if strings.Join(was, " ") != "none live past" {
		t.Errorf("reported: %q", was)
	}
}

// TestSessionsAreCompared checks that two sessions are compared by calls and tools, with the
// numbers of the calls.
func TestSessionsAreCompared(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sessions")
	var ids []string
	for i, result := range []string{`{"at":1,"n":5}`, `{"at":2,"n":6}`} {
		r := record(t, dir, "a", time.Now().Add(time.Duration(i)*time.Hour))
		r.call("tools/list", "{}", `{"tools":[{"name":"add"}]}`)
		r.call("sum", "[1]", result)
		if i == 0 {
			r.call("gone", "[]", "1")
		} else {
			r.call("more", "[]", "1")
		}
		r.end(t)
		ids = append(ids, r.id)
	}
	b := open(t, &playground.Options{Sessions: dir})
	for _, id := range ids {
		b.call("sessions/open", obj{"session": id}, nil)
	}
	var out struct {
		Differences []struct {
			Change string         `json:"change"`
			Kind   string         `json:"kind"`
			Name   string         `json:"name"`
			Path   string         `json:"path"`
			Then   string         `json:"then"`
			Now    string         `json:"now"`
			OldRef string         `json:"oldRef"`
			NewRef string         `json:"newRef"`
			Rest   map[string]any `json:",embed"`
		} `json:"differences"`
		Total    int `json:"total"`
		Compared int `json:"compared"`
	}
	b.call("sessions/compare", obj{"old": "s1", "new": "s2", "ignore": []string{"at"}}, &out)
	var got []string
	for _, d := range out.Differences {
		got = append(got, strings.Join([]string{d.Change, d.Kind, d.Name, d.Path, d.Then, d.Now, d.OldRef, d.NewRef}, "|"))
	}
	want := []string{"changed|call|sum [1]|result.n|5|6|4|4", "removed|call|gone []||||6|", "added|call|more []|||||6"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || out.Total != 3 || out.Compared != 3 {
		t.Errorf("%d differences of %d:\n%s\nwant\n%s", out.Total, out.Compared, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.call("sessions/compare", obj{"old": "s1", "new": "s1"}, &out)
	if out.Total != 0 {
		t.Errorf("a session differs from itself: %+v", out)
	}
	if e := b.try("sessions/compare", obj{"old": "s1", "new": "s9"}, nil); e == nil || e.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("an unknown session: %v", e)
	}
}
