package tap_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/tap"
)

// beAServer runs a child: it prints words on stderr, then acts as words[0] names.
func beAServer(words []string) int {
	switch words[0] {
	case "echo": // all of stdin, after its end
		fmt.Fprintln(os.Stderr, "one\ntwo")
		all, err := io.ReadAll(os.Stdin)
		if err != nil {
			return 1
		}
		_, _ = os.Stdout.Write(all)
		return 7
	case "term": // waits for the signal
		signals := notified()
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		<-signals
		return 9
	}
	return 1
}

func newRecorder(t *testing.T) *capture.Recorder {
	t.Helper()
	rec, err := capture.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
	})
	return rec
}

// seen returns the recorded events in short form.
func seen(rec *capture.Recorder) []string {
	rec.Flush()
	var out []string
	for _, r := range rec.Rows(capture.Ref{}, 0) {
		payload, _ := rec.Payload(r.Ref)
		word := strings.TrimSpace(fmt.Sprintf("%s %s %.80s", r.Kind, r.Dir, payload))
		if r.Kind == capture.RowHTTP {
			word = fmt.Sprintf("http %s %s %d %s", r.Method, r.Name, r.Code, r.State)
		}
		if r.Kind == capture.RowOpen || r.Kind == capture.RowClose {
			word = r.Kind
		}
		if r.Cut {
			word = fmt.Sprintf("cut %d", r.Size)
		}
		out = append(out, word)
	}
	return out
}

// TestChildPassesAll checks that what exceeds the limits is forwarded byte for byte: partial lines,
// huge lines, invalid JSON, and the end of input.
func TestChildPassesAll(t *testing.T) {
	huge := strings.Repeat("x", 17<<20)
	in := "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\r\n\xff\x00no json\n\n" + huge + "\nhalf a li"
	rec := newRecorder(t)
	var out, stderr bytes.Buffer
	child := &tap.Child{
		Argv: []string{os.Args[0], "be-a-server", "echo"}, Stdin: strings.NewReader(in), Stdout: &out, Stderr: &stderr, Record: rec,
	}
	code, err := child.Run(t.Context())
	if err != nil || code != 7 {
		t.Fatalf("Run = %d, %v; want exit code 7", code, err)
	}
	if out.String() != in {
		t.Errorf("%d bytes came back, want the same %d", out.Len(), len(in))
	}
	if stderr.String() != "one\ntwo\n" {
		t.Errorf("stderr %q", stderr.String())
	}
	got := strings.Join(seen(rec), "\n")
	for _, want := range []string{
		`request out {"jsonrpc":"2.0","id":1,"method":"a"}`, "stderr in one", "stderr in two", fmt.Sprintf("cut %d", 17<<20), "junk out half a li",
		`request in {"jsonrpc":"2.0","id":1,"method":"a"}`, "junk in half a li", "close",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q was not recorded:\n%s", want, got)
		}
	}
}

func TestChildGetsSignals(t *testing.T) {
	rec := newRecorder(t)
	signals := make(chan os.Signal, 1)
	stdin, hold := io.Pipe()
	defer hold.Close()
	out, stdout := io.Pipe()
	child := &tap.Child{Argv: []string{os.Args[0], "be-a-server", "term"}, Stdin: stdin, Stdout: stdout, Record: rec, Signals: signals}
	var wait sync.WaitGroup
	wait.Go(func() {
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Error(err)
		}
		signals <- syscall.SIGTERM
	})
	code, err := child.Run(t.Context())
	wait.Wait()
	if err != nil || code != 9 {
		t.Errorf("Run = %d, %v; want the code 9 that the child ends with on a signal", code, err)
	}
}

func TestChildThatIsNone(t *testing.T) {
	child := &tap.Child{Argv: []string{"/does/not/exist"}, Stdin: strings.NewReader(""), Stdout: io.Discard, Record: newRecorder(t)}
	if _, err := child.Run(t.Context()); err == nil {
		t.Error("it was started")
	}
}

// serve runs a relay to the server at address and returns its own address.
func serve(t *testing.T, r *tap.Relay, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.Dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }
	r.Failed = func(err error) { t.Error(err) }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestRelayOfHTTP(t *testing.T) {
	var hosts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			for _, part := range []string{"id: 1\nda", "ta: {\"jsonrpc\":\"2.0\",\"method\":\"tick\"}\n", "\n: a comment\n\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":2}\r\n\r\n"} {
				_, _ = io.WriteString(w, part)
				w.(http.Flusher).Flush()
			}
		case "/no":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_token"}`)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		}
	}))
	defer server.Close()
	rec := newRecorder(t)
	address := strings.TrimPrefix(server.URL, "http://")
	r := &tap.Relay{Carrier: tap.HTTP, Record: rec, Host: address}
	at := serve(t, r, address)
	r.Names = []string{at}

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, path := range []string{"/events", "/no", "/"} {
		res, err := client.Post("http://"+at+path, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Error(err)
		}
		_ = res.Body.Close()
	}
	// A page that used another name for us does not get the server's Host.
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+at+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if diff := cmp.Diff([]string{address, address, address, "evil.example"}, hosts); diff != "" {
		t.Errorf("hosts: -want +got:\n%s", diff)
	}
	transport.CloseIdleConnections()
	want := []string{
		"open", "http POST /events 200 done", `request out {"jsonrpc":"2.0","id":1,"method":"a"}`, `notification in {"jsonrpc":"2.0","method":"tick"}`,
		"result in {\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":2}",
		"http POST /no 401 error", `request out {"jsonrpc":"2.0","id":1,"method":"a"}`, `junk in {"error":"invalid_token"}`,
		"http POST / 200 done", `request out {"jsonrpc":"2.0","id":1,"method":"a"}`, `request in {"jsonrpc":"2.0","id":1,"method":"a"}`,
		"http GET / 200 done",
	}
	// The client has the last response before it is recorded.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for err := error(nil); err == nil; {
		rev := rec.Rev()
		if got = seen(rec); slices.Equal(got, want) {
			break
		}
		err = rec.Wait(ctx, rev)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRelayOfStream checks that a stream is forwarded in both directions, including half-closes,
// for any division into pieces.
func TestRelayOfStream(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		all, _ := io.ReadAll(c) // to the end: returns only after a half-close
		_, _ = c.Write(all)
	}()
	rec := newRecorder(t)
	at := serve(t, &tap.Relay{Record: rec}, l.Addr().String())
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var in []byte
	for i := range 50 {
		in = fmt.Appendf(in, "Content-Length: %d\r\n\r\n%s", 36+len(fmt.Sprint(i)), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"a"}`, i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for rest := in; len(rest) > 0; {
		n := min(len(rest), 1+random.IntN(40))
		if _, err := c.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	back, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(back, in) {
		t.Fatalf("%d bytes came back, want the same %d; %v", len(back), len(in), err)
	}
	rec.Flush()
	count := map[string]int{}
	for _, r := range rec.Rows(capture.Ref{}, 0) {
		count[r.Kind+r.Dir.String()]++
	}
	if count["requestout"] != 50 || count["requestin"] != 50 || count["junkin"]+count["junkout"] > 0 {
		t.Errorf("recorded %v", count)
	}
}
