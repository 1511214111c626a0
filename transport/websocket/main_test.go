package websocket

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A role selects which end is under test; the test itself plays the other one with raw bytes.
type role struct {
	name   string
	client bool // the Transport is a client's
}

var roles = []role{{"server", false}, {"client", true}}

// testMask has four different bytes, so that a byte in the wrong place is detected.
const testMask uint32 = 0xA1B2C3D4

// raw returns a frame as the peer of a role sends it. bits is the first byte.
func (r role) raw(bits byte, payload string) []byte {
	var b []byte
	mask := byte(0x80)
	if r.client {
		mask = 0
	}
	b = append(b, bits)
	switch n := len(payload); {
	case n <= 125:
		b = append(b, mask|byte(n))
	case n <= 0xFFFF:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	if r.client {
		return append(b, payload...)
	}
	b = binary.LittleEndian.AppendUint32(b, testMask)
	key := b[len(b)-4:]
	return append(b, masked([]byte(payload), key)...)
}

// masked returns the payload under a key, or unchanged without one (RFC 6455, section 5.3). It does
// not work byte by byte, which takes a second for each 10 MB under the race detector.
func masked(payload, key []byte) []byte {
	subtle.XORBytes(payload, payload, bytes.Repeat(key, len(payload)/4+1))
	return payload
}

// rawFrame is a frame as a test reads it from the wire.
type rawFrame struct {
	bits    byte
	payload string
}

// readFrame reads one frame that the Transport wrote, deliberately not with the code under test.
func (r role) readFrame(in io.Reader) (rawFrame, error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return rawFrame{}, err
	}
	n := uint64(head[1] & 0x7F)
	var long [8]byte
	switch n {
	case 126:
		if _, err := io.ReadFull(in, long[6:]); err != nil {
			return rawFrame{}, err
		}
		n = binary.BigEndian.Uint64(long[:])
	case 127:
		if _, err := io.ReadFull(in, long[:]); err != nil {
			return rawFrame{}, err
		}
		n = binary.BigEndian.Uint64(long[:])
	}
	if masked := head[1]&0x80 != 0; masked != r.client {
		return rawFrame{}, errors.New("wrong masking")
	}
	var mask [4]byte
	if r.client {
		if _, err := io.ReadFull(in, mask[:]); err != nil {
			return rawFrame{}, err
		}
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(in, payload); err != nil {
		return rawFrame{}, err
	}
	return rawFrame{head[0], string(masked(payload, mask[:]))}, nil
}

// tcpPair returns both ends of a connection on loopback, which are closed after the test.
func tcpPair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// start returns a Transport in this role and the raw connection to it.
func (r role) start(t testing.TB, o *Options) (*Transport, net.Conn) {
	t.Helper()
	near, far := tcpPair(t)
	tr := r.over(t, near, o)
	// first, so that the Transport does not wait for its close frame
	t.Cleanup(func() { far.Close() })
	return tr, far
}

// over returns a Transport in this role on conn.
func (r role) over(t testing.TB, conn net.Conn, o *Options) *Transport {
	tr := newTransport(conn, r.client, o, "", nil)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// dialled returns both ends of a connection that was made by Dial and Upgrade.
func dialled(t testing.TB, o *Options) (client, server *Transport) {
	t.Helper()
	got := make(chan *Transport, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tr, err := Upgrade(w, r, o)
		if err != nil {
			t.Error(err)
		}
		got <- tr
	}))
	t.Cleanup(s.Close)
	client, err := Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http")+"/rpc", o)
	if err != nil {
		t.Fatal(err)
	}
	server = <-got
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func burst(payloads ...string) jsonrpc.Burst {
	var b jsonrpc.Burst
	for _, p := range payloads {
		b.Add([]byte(p))
	}
	return b
}

// closing returns the payload of a close frame.
func closing(code int, reason string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(code))) + reason
}

// soon bounds the waits of a test on a real connection.
const soon = time.Minute

func write(t testing.TB, conn net.Conn, pieces ...[]byte) {
	t.Helper()
	if _, err := conn.Write(bytes.Join(pieces, nil)); err != nil {
		t.Fatal(err)
	}
}
