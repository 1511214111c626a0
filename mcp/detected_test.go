package mcp

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestExpiredHostedTasks checks that all tasks that have expired are removed at once, and that the
// others stay.
func TestExpiredHostedTasks(t *testing.T) {
	now := time.Now()
	h := &hostedTasks{byID: map[string]*hostedTask{}}
	cancelled := 0
	add := func(id string, created time.Time) {
		h.byID[id] = &hostedTask{cancel: func(error) { cancelled++ }, task: Task{ID: id, Status: TaskWorking, Created: created, TTL: time.Minute}}
	}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		add(id, now.Add(-2*time.Minute))
	}
	add("new", now)
	h.prune(now)
	if len(h.byID) != 1 || h.byID["new"] == nil || cancelled != 5 {
		t.Errorf("%d tasks are left, %d were cancelled", len(h.byID), cancelled)
	}
}

// TestSizeOfHeaders checks that the names of a path count: a server chooses how long they are.
func TestSizeOfHeaders(t *testing.T) {
	for _, p := range []HeaderParam{{Header: strings.Repeat("x", 1000)}, {Header: "x", Path: []string{"a", strings.Repeat("x", 1000)}}} {
		if n := sizeOfHeaders("t", []HeaderParam{p}); n < 1000 || n > 2000 {
			t.Errorf("a size of %d bytes", n)
		}
	}
}

// TestPanicOfAddTool checks that an invalid tool panics with the reason, and not where it is used.
func TestPanicOfAddTool(t *testing.T) {
	s := NewServer(Implementation{Name: "s", Version: "1"}, nil)
	defer s.Close()
	n := s.NewSession(SessionOptions{})
	defer n.Close()
	f := func(context.Context, *Request, struct{}) (string, error) { return "", nil }
	for name, add := range map[string]func(){"AddTool": func() { AddTool(s, Tool{}, f) }, "AddSessionTool": func() { AddSessionTool(n, Tool{}, f) }} {
		func() {
			defer func() {
				err, ok := recover().(error)
				if _, bug := errors.AsType[runtime.Error](err); !ok || bug {
					t.Errorf("%s: the panic is %v", name, err)
				}
			}()
			add()
		}()
	}
}

// TestEscapesThatAreKept checks that reserved expansion retains an escape only if it is one
// (RFC 6570, section 3.2.3).
func TestEscapesThatAreKept(t *testing.T) {
	for in, want := range map[string]string{"%41": "%41", "a%2fb": "a%2fb", "%4": "%254", "%": "%25", "%4g": "%254g", "%g4": "%25g4", "%4g1": "%254g1", "%41g": "%41g", "/%": "/%25"} {
		if got := string(appendEscaped(nil, in, true)); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
	if got := string(appendEscaped(nil, "%41/", false)); got != "%2541%2F" {
		t.Errorf("without reserved characters: %s", got)
	}
}
