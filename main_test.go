package parley

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/internal/x/heap"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// childVariable is an environment variable that makes this test binary the child of a test: it
// serves testMux on the target in its value.
const childVariable = "PARLEY_TEST_CHILD"

// boundedChild is an environment variable that sets the memory limit of a child. The collector of a
// busy machine is late; with a limit, tests of memory measure what the child holds, and not its
// garbage.
const boundedChild = "PARLEY_TEST_BOUNDED"

func TestMain(m *testing.M) {
	if os.Getenv(boundedChild) != "" {
		debug.SetMemoryLimit(80 << 20) // bytes; it ends nothing if more is in use
	}
	if mode := os.Getenv(childVariable); mode != "" {
		fmt.Fprintln(os.Stderr, "child:", mode)
		heap.Bound() // as the command does
		mux := testMux(make(chan struct{}, 1))
		if !strings.HasPrefix(mode, "stdio:") {
			os.Exit(listenInChild(&Listener{Handler: mux, Mode: mux.Mode}, mode))
		}
		if err := Serve(context.Background(), mux, mode); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		return
	}
	if setting := os.Getenv(faultChild); setting != "" {
		os.Exit(serveFaultChild(setting))
	}
	if at := os.Getenv(holdChild); at != "" {
		os.Exit(serveHoldChild(at))
	}
	if path := os.Getenv(ledgerChild); path != "" {
		os.Exit(serveLedgerChild(path))
	}
	if os.Getenv(serveOnStdio) != "" {
		serveStdio()
		return
	}
	goleak.VerifyTestMain(m)
}

// testTime bounds the waits of a test. It is far above the time that any of them takes, and below
// the time limit of a test.
const testTime = time.Minute

type question struct {
	Question string `json:"question"`
}

// heldByPools is what the pools of a process count.
type heldByPools struct {
	Messages, Requests, Callbacks, Resting, Unread int64
}

// within reports whether each pool is within its bound.
func (h heldByPools) within() bool {
	return h.Messages <= budget.Messages.Max && h.Requests <= budget.Requests.Max && h.Callbacks <= budget.Callbacks.Max &&
		h.Resting <= budget.Resting.Max
}

// testMux returns a method that responds, one that notifies first, one that calls back, and one
// that waits.
func testMux(waiting chan<- struct{}) *jsonrpc.Mux {
	m := new(jsonrpc.Mux)
	m.Add("add", jsonrpc.Func(func(_ context.Context, n []int) (int, error) {
		sum := 0
		for _, i := range n {
			sum += i
		}
		return sum, nil
	}))
	m.Add("length", jsonrpc.Func(func(_ context.Context, in []string) (int, error) { return len(in[0]), nil }))
	m.Add("text", jsonrpc.Func(func(_ context.Context, kib []int) (string, error) { return strings.Repeat("x", kib[0]<<10), nil }))
	m.Add("held", jsonrpc.Func(func(context.Context, struct{}) (heldByPools, error) {
		return heldByPools{budget.Messages.Used(), budget.Requests.Used(), budget.Callbacks.Used(), budget.Resting.Used(), budget.Unread.Load()}, nil
	}))
	m.Add("count", jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		for i := range 3 {
			if err := req.Peer().Notify(ctx, "tick", map[string]any{"request_id": req.ID, "n": i}); err != nil {
				return nil, err
			}
		}
		return "done", nil
	}))
	m.Add("ask", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, in question) (string, error) {
		return jsonrpc.Call[string](ctx, p, "answer", in)
	}))
	m.Add("wait", jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		waiting <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}), jsonrpc.Open)
	return m
}

// serve runs l on targets until the test ends.
func serve(t *testing.T, l *Listener, targets ...string) *Server {
	t.Helper()
	s, err := listen(t, l, targets...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve = %v", err)
			}
		case <-time.After(testTime):
			t.Error("Serve does not return after Close")
		}
	})
	return s
}

func listen(t *testing.T, l *Listener, targets ...string) (*Server, error) {
	t.Helper()
	parsed := make([]Target, len(targets))
	for i, text := range targets {
		var err error
		if parsed[i], err = ParseTarget(text); err != nil {
			t.Fatal(err)
		}
	}
	return l.Listen(t.Context(), parsed...)
}

// dial returns a client that is closed at the end of the test.
func dial(t *testing.T, d *Dialer, target Target) *Client {
	t.Helper()
	c, err := d.Dial(t.Context(), target)
	if err != nil {
		t.Fatalf("Dial(%s) = %v", target, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// certFiles is a pair of files with a certificate for 127.0.0.1, and the pool that trusts it.
type certFiles struct {
	cert, key string
	pool      *x509.CertPool
}

func newCertFiles(t *testing.T) certFiles {
	t.Helper()
	dir := t.TempDir()
	files := certFiles{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	files.renew(t, 1)
	return files
}

// renew writes a new certificate with the given serial number into the files.
func (c *certFiles) renew(t *testing.T, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "parley test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c.pool = x509.NewCertPool()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	c.pool.AddCert(leaf)
	write(t, c.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, c.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *certFiles) server(t *testing.T) *tls.Config {
	t.Helper()
	cert, err := LoadCertificate(c.cert, c.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cert.Config()
}

func (c *certFiles) client() *tls.Config { return &tls.Config{RootCAs: c.pool} }
