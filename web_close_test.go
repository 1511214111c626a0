package parley

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestWebSocketsHearThatTheServerStops checks the bytes on the wire: the last frame of a server
// that stops has code 1001, "going away" (RFC 6455, section 7.4.1).
func TestWebSocketsHearThatTheServerStops(t *testing.T) {
	s := serve(t, &Listener{Handler: testMux(nil)}, "ws://127.0.0.1:0")
	address := s.Targets()[0].Address
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hello := "GET /rpc HTTP/1.1\r\nHost: " + address + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	if _, err := io.WriteString(conn, hello); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the handshake is answered %v, %v", answer, err)
	}
	defer answer.Body.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	var frame [4]byte
	if _, err := io.ReadFull(r, frame[:]); err != nil || !bytes.Equal(frame[:], []byte{0x88, 2, 1001 >> 8, 1001 & 0xff}) {
		t.Errorf("the last frame is % x, %v, want a close frame with 1001", frame, err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
}
