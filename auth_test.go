package parley

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// TestSilenceIsNotCredentials checks that a connection without a token is closed after ten seconds,
// and that one with a token stays open.
func TestSilenceIsNotCredentials(t *testing.T) {
	for _, token := range []string{"right", ""} {
		synctest.Test(t, func(t *testing.T) {
			here, there := inproc.Pipe(nil)
			mux := testMux(nil)
			c := connSet{listener: &Listener{Handler: mux, Mode: mux.Mode, Tokens: []string{"right"}}, locked: true}
			ended := make(chan time.Duration, 1)
			start := time.Now()
			go func() {
				// the end is checked below
				_ = c.serve(t.Context(), c.openConn(there, opening{version: jsonrpc.Version2}))
				ended <- time.Since(start)
			}()
			client := new(Dialer).Converse(t.Context(), here, jsonrpc.Version2)
			if token != "" {
				if err := (&Dialer{Token: token}).authenticate(t.Context(), client); err != nil {
					t.Errorf("authenticate = %v", err)
				}
			}
			time.Sleep(authTime + time.Second)
			synctest.Wait()
			select {
			case at := <-ended:
				if token != "" || at != authTime {
					t.Errorf("with the token %q the connection ends after %v", token, at)
				}
			default:
				if token == "" {
					t.Errorf("without a token the connection is still there after %v", time.Since(start))
				}
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			if err := c.shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAuthenticateComesFirst checks that requests after the token on the wire are accepted without
// waiting for the response to it.
func TestAuthenticateComesFirst(t *testing.T) {
	mux := testMux(nil)
	s := serve(t, &Listener{Handler: mux, Mode: mux.Mode, Tokens: []string{"right"}}, "tcp://127.0.0.1:0")
	transport, err := new(Dialer).Open(t.Context(), s.Targets()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	var b jsonrpc.Burst
	b.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"rpc.authenticate","params":{"token":"right"}}`))
	b.Add([]byte(`{"jsonrpc":"2.0","id":2,"method":"add","params":[40,2]}`))
	if err := transport.Write(b); err != nil {
		t.Fatal(err)
	}
	var answers []string
	for range 2 {
		payload, _, err := transport.Read()
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, string(payload))
	}
	if got := strings.Join(answers, " "); !strings.Contains(got, `"result":true`) || !strings.Contains(got, `"result":42`) {
		t.Errorf("the answers are %s", got)
	}
}

func TestCertificateIsReadAgain(t *testing.T) {
	files := newCertFiles(t)
	var reports []string
	cert, err := LoadCertificate(files.cert, files.key, func(what string, err error) { reports = append(reports, fmt.Sprint(what, ": ", err)) })
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		cert.checked = time.Now() // in the time of this bubble
		want := func(serial int64) {
			t.Helper()
			got, err := cert.Config().GetCertificate(&tls.ClientHelloInfo{})
			if err != nil || got.Leaf.SerialNumber.Int64() != serial {
				t.Errorf("the certificate is number %v, %v, want %d", got.Leaf.SerialNumber, err, serial)
			}
		}
		want(1)
		files.renew(t, 2)
		want(1)
		time.Sleep(10 * time.Second)
		want(2)
		write(t, files.key, []byte("no key"))
		time.Sleep(10 * time.Second)
		want(2)
		if len(reports) == 0 || !strings.HasPrefix(reports[0], "certificate: ") {
			t.Errorf("a key that cannot be read is reported as %q", reports)
		}
		if err := os.Remove(files.cert); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		want(2)
		files.renew(t, 3)
		time.Sleep(10 * time.Second)
		want(3)
	})
	if _, err := LoadCertificate(files.cert+".no", files.key, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("LoadCertificate without a file = %v", err)
	}
}

func TestConnLimit(t *testing.T) {
	l := newConnLimit(7, 2)
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, c := range []struct {
		from string
		ok   bool
	}{
		{"192.0.2.1", true}, {"192.0.2.1", true}, {"192.0.2.1", false}, // its share is used up
		// so is the share of a network whose addresses belong to one machine
		{"2001:db8::1", true}, {"2001:db8::2", true}, {"2001:db8::3", false},
		// loopback addresses have no share
		{"127.0.0.1", true}, {"127.0.0.1", true}, {"127.0.0.1", true},
		{"192.0.2.2", false}, // all places are taken
	} {
		if _, err := l.enter(at(c.from)); (err == nil) != c.ok || err != nil && !errors.Is(err, errTooMany) {
			t.Errorf("enter(%s) = %v, want ok %v", c.from, err, c.ok)
		}
	}
	l.leave(addrOf(at("192.0.2.1")))
	if _, err := l.enter(at("192.0.2.1")); err != nil {
		t.Errorf("a place that was left cannot be taken: %v", err)
	}
	for range 2 {
		l.leave(addrOf(at("192.0.2.1")))
	}
	for range 3 {
		l.leave(addrOf(at("127.0.0.1")))
	}
	for range 2 {
		l.leave(addrOf(at("2001:db8::ffff")))
	}
	if l.total != 0 || len(l.byIP) != 0 {
		t.Errorf("when all have left, %d and %v are counted", l.total, l.byIP)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, testMux(nil), "tcp://127.0.0.1:0", "http://127.0.0.1:0") }()
	cancel()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, context.Canceled) { // it may end before it has bound
			t.Errorf("Serve = %v", err)
		}
	case <-time.After(testTime):
		t.Error("Serve does not end with its context")
	}
	if err := Serve(t.Context(), testMux(nil), "nowhere"); err == nil {
		t.Error("Serve on no target = nil")
	}
}

// TestABatchTriesNoMoreTokens checks that the right token after three wrong ones is rejected too,
// and that nothing after them runs.
func TestABatchTriesNoMoreTokens(t *testing.T) {
	d := &tokenGate{next: jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		t.Error("a handler ran")
		return nil, nil
	}), tokens: []guard.Digest{guard.DigestOf("right")}}
	for _, token := range []string{"a", "b", "c", "right"} {
		req := &jsonrpc.Request{Method: MethodAuthenticate, Params: jsonrpc.Raw(`{"token":"` + token + `"}`)}
		if got, err := d.Handle(t.Context(), req); err == nil {
			t.Errorf("%s = %v, want an error", token, got)
		}
	}
	if _, err := d.Handle(t.Context(), &jsonrpc.Request{Method: "x"}); err == nil {
		t.Error("a request behind them was taken")
	}
}
