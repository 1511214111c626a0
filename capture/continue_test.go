package capture_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/capture"
)

// session records one call and its response to a file, and returns the name of that file.
func session(t *testing.T, name, method string) string {
	t.Helper()
	rec := record(t, &capture.Options{File: name})
	w := rec.Wire(capture.WireInfo{Target: "tcp://h:1"})
	x := w.Exchange(capture.Out, "POST", "/"+method, http.Header{})
	x.Request([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`))
	x.Head(200, http.Header{})
	x.Response([]byte(`{"jsonrpc":"2.0","id":1,"result":"`+method+`"}`), "")
	x.End(nil)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return rec.Name()
}

// TestFilesAreContinued checks that a second session is appended to the first, both are read, and
// equal numbers in them are not confused.
func TestFilesAreContinued(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	methods := []string{"one", "two", "three"}
	for i, method := range methods {
		if got := session(t, name, method); got != name {
			t.Fatalf("written to %s", got)
		}
		if i == 0 { // the state after kill -9
			f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteString(`{"seq":8,"time":"2026-11`)
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(name)
	if err != nil || strings.Count(string(text), `{"parley":"session","version":1}`+"\n") != 3 {
		t.Fatalf("%v\n%s", err, text)
	}
	read := map[string]func() (*capture.Log, error){
		"open": func() (*capture.Log, error) { return capture.Open(name) },
		"read": func() (*capture.Log, error) { return capture.Read(strings.NewReader(string(text))) },
	}
	for how, open := range read {
		log, err := open()
		if err != nil {
			t.Fatal(how, err)
		}
		if log.Err() == nil || !strings.HasPrefix(log.Err().Error(), "line 8: ") {
			t.Errorf("%s: of the half line: %v", how, log.Err())
		}
		seen := map[string]bool{}
		var calls []string
		for _, r := range log.Rows(capture.Ref{}, 0) {
			if r.Kind != capture.RowRequest {
				continue
			}
			calls = append(calls, r.Method)
			answer, err := log.Payload(r.Answer)
			if err != nil || r.State != capture.StateDone || !strings.Contains(string(answer), r.Method) {
				t.Errorf("%s: %s is %s, answered by %s, %v", how, r.Method, r.State, answer, err)
			}
			e, err := log.Event(r.Ref.Seq)
			key := fmt.Sprint(e.Conn, " ", e.Exchange)
			if err != nil || e.Conn != r.Conn || e.Exchange != r.Exchange || seen[key] {
				t.Errorf("%s: %s has the connection and exchange %s, the row %d %d, %v", how, r.Method, key, r.Conn, r.Exchange, err)
			}
			seen[key] = true
		}
		if fmt.Sprint(calls) != fmt.Sprint(methods) {
			t.Errorf("%s: the calls are %v", how, calls)
		}
		last := int64(0)
		for e, err := range log.Events(0) {
			if err != nil || e.Seq <= last {
				t.Fatalf("%s: %d after %d, %v", how, e.Seq, last, err)
			}
			last = e.Seq
		}
	}
}

// TestTwoWriters checks that the second writer uses a separate file next to the first.
func TestTwoWriters(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s.jsonl")
	first := record(t, &capture.Options{File: name})
	first.Wire(capture.WireInfo{Target: "first"})
	beside := session(t, name, "second")
	if want := fmt.Sprintf("s.%d.jsonl", os.Getpid()); filepath.Base(beside) != want || filepath.Dir(beside) != filepath.Dir(name) {
		t.Errorf("written to %s, want %s", beside, want)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for file, rows := range map[string]int{name: 1, beside: 4} {
		log, err := capture.Open(file)
		if err != nil || log.Err() != nil || log.Len() != rows {
			t.Errorf("%s has %d rows: %v", file, log.Len(), errors.Join(err, log.Err()))
		}
	}
}

// TestOtherFilesAreLeftAlone checks that a file that is not a session is rejected and not changed.
func TestOtherFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for i, text := range []string{"notes of mine\n", `{"a":1}`, `{"parley":"plan","version":1}` + "\n", "\n", strings.Repeat("x", 5000), `{"parley":"session","version":2}` + "\n", "\x00"} {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := capture.New(&capture.Options{File: name})
		if where, ok := errors.AsType[*fs.PathError](err); !errors.Is(err, capture.ErrNoSession) || !ok || where.Path != name {
			t.Errorf("%.20q: %v", text, err)
		}
		if after, err := os.ReadFile(name); err != nil || string(after) != text {
			t.Errorf("%.20q became %q, %v", text, after, err)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := capture.New(&capture.Options{File: link}); err == nil {
		t.Error("a link was followed")
	}
	if _, err := os.Stat(filepath.Join(dir, "target")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the target of a link: %v", err)
	}
}

// TestStreamsAreWritten checks that an open stream receives the session from its current position,
// without a lock.
func TestStreamsAreWritten(t *testing.T) {
	if runtime.GOOS == "windows" {
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	session(t, fmt.Sprintf("/dev/fd/%d", w.Fd()), "piped")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := capture.Read(r)
	if err != nil || log.Err() != nil || log.Len() != 4 {
		t.Errorf("%d rows, %v", log.Len(), err)
	}
}

// TestLinesAreWrittenBeforeRows checks that while a judge is slow, the file already contains what
// passed.
func TestLinesAreWrittenBeforeRows(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s.jsonl")
	stuck, begun := make(chan struct{}), make(chan struct{}, 1)
	rec := record(t, &capture.Options{File: name, Judges: []capture.Judge{func(*capture.Look) {
		select {
		case begun <- struct{}{}:
		default:
		}
		<-stuck
	}}})
	w := rec.Wire(capture.WireInfo{})
	const n = 5000
	for range n {
		w.Payload(capture.Out, []byte(`{"jsonrpc":"2.0","method":"note","params":["`+strings.Repeat("x", 100)+`"]}`))
	}
	<-begun
	text, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(text), `"method":"note"`) {
		t.Errorf("nothing is in the file while a judge works: %d bytes, %v", len(text), err)
	}
	close(stuck)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
}
