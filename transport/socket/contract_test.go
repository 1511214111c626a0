package socket_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/socket"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	server, client := certificate(t)
	for name, c := range map[string]struct {
		network        string
		listener, dial socket.Options
	}{
		"tcp":              {network: "tcp"},
		"tcp with headers": {network: "tcp", listener: socket.Options{Framing: stream.Header}, dial: socket.Options{Framing: stream.Header}},
		"tls":              {network: "tls", listener: socket.Options{TLS: server}, dial: socket.Options{TLS: client}},
		"unix":             {network: "unix"},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) {
				return pair(t, listen(t, c.network, &c.listener), &c.dial)
			}, nil)
		})
	}
}

// listen listens on a free address, until the test ends.
func listen(t testing.TB, network string, o *socket.Options) *socket.Listener {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := socket.Listen(context.Background(), network, addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// networkOf returns the network for dialling l.
func networkOf(l *socket.Listener, o *socket.Options) string {
	if o != nil && o.TLS != nil {
		return "tls"
	}
	return l.Addr().Network()
}

// pair dials and accepts. A TLS client's handshake needs a server that reads at the same time: the
// server's first Read handles it.
func pair(t testing.TB, l *socket.Listener, o *socket.Options) (client, server *socket.Transport) {
	t.Helper()
	type dialled struct {
		t   *socket.Transport
		err error
	}
	done := make(chan dialled, 1)
	network := networkOf(l, o)
	go func() {
		c, err := socket.Dial(context.Background(), network, l.Addr().String(), o)
		done <- dialled{c, err}
	}()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if network == "tls" {
		// A burst of only white space is not a payload, and its Write is sufficient for the
		// handshake.
		if err := server.Write(jsonrpc.Burst{Bytes: []byte("\n"), Ends: []int{1}}); err != nil {
			t.Fatal(err)
		}
	}
	d := <-done
	if d.err != nil {
		t.Fatal(d.err)
	}
	return d.t, server
}

// certificate returns the configuration of a server with a certificate, and of a client that trusts
// it.
func certificate(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter:     time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{RootCAs: roots}
}
