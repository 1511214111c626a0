package tap_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/interop/harness"
)

// within returns a context with the timeout of one test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// node returns the command line of a script in any package's node folder, with the Node that the
// inspector requires.
func node(t *testing.T, script string, args ...string) []string {
	t.Helper()
	harness.Need(t, "Node's packages", filepath.Join(folderOf(script), "node_modules/.installed-from"))
	return append([]string{harness.Need(t, "Node 22", "../mcp/node/node_modules/.bin/node"), harness.Need(t, script, script)}, args...)
}

// folderOf returns the node folder with a script's packages.
func folderOf(script string) string {
	parts := strings.Split(script, "/")
	if parts[0] != ".." {
		return "../node"
	}
	return filepath.Join(parts[:3]...)
}

// cutOff allows an unfinished message of a server that was sent the notification exit. gopls writes
// a header and its content one after the other, and may end between the two.
const cutOff = "cut off after exit"

// clean opens a session and fails the test for each message that is not paired, and each finding.
// allowed lists rules that this peer is known to violate or possibly violates, "unanswered METHOD",
// and cutOff.
func clean(t *testing.T, file string, calls int, version string, allowed ...string) *capture.Log {
	t.Helper()
	log, err := capture.Open(file, lens.Judges()...)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Err(); err != nil {
		t.Error(err)
	}
	answered, versions, exited := 0, map[string]bool{}, false
	for _, r := range log.Rows(capture.Ref{}, 0) {
		versions[r.Version] = true
		payload, _ := log.Payload(r.Ref)
		switch r.Kind {
		case capture.RowRequest:
			if r.Answer.IsZero() && slices.Contains(allowed, "unanswered "+r.Method) {
				continue // ignore its findings too
			}
			if r.Answer.IsZero() {
				t.Errorf("#%s %s has no answer: %s", r.Ref, r.Method, r.State)
			} else {
				answered++
			}
		case capture.RowNotification:
			exited = exited || r.Method == "exit" && r.Dir == capture.Out
		case capture.RowResult, capture.RowError:
			if r.Call.IsZero() {
				t.Errorf("#%s answers nothing: %.200s", r.Ref, payload)
			}
		case capture.RowJunk:
			if log, err := log.Event(r.Ref.Seq); err == nil && log.Exchange > 0 {
				continue // a body that is not a message, such as an agent card
			}
			if exited && r.Dir == capture.In && slices.Contains(allowed, cutOff) && strings.HasPrefix(r.Brief, "the stream ends inside a message") {
				continue
			}
			t.Errorf("#%s is no message: %s %.200q", r.Ref, r.Brief, payload)
		}
		for _, f := range r.Findings {
			if !slices.Contains(allowed, f.Rule) {
				t.Errorf("#%s %s %s: %s: %s\n%.300s", r.Ref, r.Kind, r.Method, f.Rule, f.Text, payload)
			}
		}
	}
	if answered < calls {
		t.Errorf("%d calls were answered, want at least %d", answered, calls)
	}
	if version != "" && !versions[version] {
		t.Errorf("no message was seen as one of version %s", version)
	}
	return log
}

// same fails the test unless two files have equal contents and are not empty.
func same(t *testing.T, a, b string) {
	t.Helper()
	x, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(x) == 0 || !bytes.Equal(x, y) {
		t.Errorf("%s has %d bytes and %s has %d, want the same", filepath.Base(a), len(x), filepath.Base(b), len(y))
	}
}

// tapped returns the command line of a server with a tap in front of it, and recorders before and
// after the tap. check compares the recordings.
func tapped(t *testing.T, session string, server []string) (argv []string, check func()) {
	t.Helper()
	tee, dir := harness.Program(t, "./interop/tap/tee"), t.TempDir()
	before, behind := filepath.Join(dir, "before"), filepath.Join(dir, "behind")
	argv = append([]string{tee, before, harness.Parley(t), "tap", "--record", session, "--", tee, behind}, server...)
	return argv, func() {
		t.Helper()
		same(t, before+".in", behind+".in")
		same(t, behind+".out", before+".out")
	}
}

// script writes argv as a program without arguments, for hosts that interpret flags as their own.
func script(t *testing.T, argv []string) string {
	t.Helper()
	var quoted []string
	for _, word := range argv {
		quoted = append(quoted, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	name := filepath.Join(t.TempDir(), "server.sh")
	if err := os.WriteFile(name, []byte("#!/bin/sh\nexec "+strings.Join(quoted, " ")+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// run runs a client and returns its output.
func run(t *testing.T, argv []string) []byte {
	t.Helper()
	cmd := harness.Command(within(t), t, argv)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", argv, err, out, stderr.String())
	}
	return out
}

// A middle proxies TCP connections and records their bytes: in[i] and out[i] of the i-th
// connection.
type middle struct {
	at string

	mu      sync.Mutex
	in, out []*bytes.Buffer
	open    int // connections whose clients may still send
}

// newMiddle starts a middle in front of an address.
func newMiddle(t *testing.T, address string) *middle {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &middle{at: l.Addr().String()}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", address)
			if err != nil {
				_ = c.Close()
				continue
			}
			in, out := new(bytes.Buffer), new(bytes.Buffer)
			m.mu.Lock()
			m.in, m.out = append(m.in, in), append(m.out, out)
			m.open++
			m.mu.Unlock()
			conns.Go(func() {
				_, _ = io.Copy(io.MultiWriter(m.locked(in), s), c)
				_ = s.(*net.TCPConn).CloseWrite()
				m.mu.Lock()
				m.open--
				m.mu.Unlock()
			})
			conns.Go(func() {
				_, _ = io.Copy(io.MultiWriter(m.locked(out), c), s)
				_, _ = s.Close(), c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		conns.Wait()
	})
	return m
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (m *middle) locked(b *bytes.Buffer) io.Writer { return lockedWriter{&m.mu, b} }

// passed waits until the clients of before have closed their connections and what they sent has
// also passed behind: a client may exit with its last bytes still on their way.
func passed(before, behind *middle) {
	done := func() bool {
		before.mu.Lock()
		open := before.open
		before.mu.Unlock()
		return open == 0 && before.all(true) == behind.all(true)
	}
	for start := time.Now(); !done() && time.Since(start) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
}

// all returns the bytes of one direction, connection by connection, in sorted order.
func (m *middle) all(in bool) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.out
	if in {
		list = m.in
	}
	var texts []string
	for _, b := range list {
		texts = append(texts, b.String())
	}
	slices.Sort(texts)
	return strings.Join(texts, "\x00")
}

// tapAt starts `parley tap` in front of a server and returns where it listens; stop ends it.
func tapAt(t *testing.T, target, session string, flags ...string) (at string, stop func()) {
	t.Helper()
	return started(t, append([]string{harness.Parley(t), "tap", "--target", target, "--record", session}, flags...), " at ")
}

// started starts a program that prints its address on stderr, after the word.
func started(t *testing.T, argv []string, word string) (at string, stop func()) {
	t.Helper()
	cmd := harness.Command(context.Background(), t, argv)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, read := make(chan string, 1), make(chan struct{})
	log := new(harness.Output)
	log.ShowIfFailed(t, strings.Join(argv, " "))
	go func() {
		defer close(read)
		var all []byte
		buf := make([]byte, 4096)
		said := false
		for {
			n, err := stderr.Read(buf)
			_, _ = log.Write(buf[:n])
			all = append(all, buf[:n]...)
			if line, _, whole := strings.Cut(string(all), "\n"); whole && !said {
				said = true
				_, address, _ := strings.Cut(line, word)
				found <- strings.TrimSpace(address)
			}
			if err != nil {
				return
			}
		}
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			<-read
			_ = cmd.Wait()
		})
	}
	t.Cleanup(stop)
	select {
	case at = <-found:
		return at, stop
	case <-time.After(time.Minute):
		t.Fatalf("%v does not say where it listens", argv)
		return "", nil
	}
}

// resultOf returns the member result in the output of the inspector, as canonical text.
func resultOf(t *testing.T, out []byte) string {
	t.Helper()
	var v struct {
		Result any `json:"result"`
	}
	if err := json.Unmarshal(out, &v); err != nil || v.Result == nil {
		t.Fatalf("%v: %.300s", err, out)
	}
	text, err := json.Marshal(v.Result)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
