//go:build !race

package parley

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// halfMessages returns how many clients send a long message at once: 1,000 with PARLEY_LONG,
// otherwise a tenth.
func halfMessages() int {
	if os.Getenv("PARLEY_LONG") != "" {
		return 1000
	}
	return 100
}

// TestHalfReadMessages checks the memory of a server to which many clients send 3 MiB of a message,
// and that it responds to all of them when they send the rest. Meanwhile it serves another client.
func TestHalfReadMessages(t *testing.T) {
	for _, scheme := range []string{"tcp", "http", "ws"} {
		t.Run(scheme, func(t *testing.T) {
			server := startServer(t, childVariable, scheme)
			server.weigh()
			n := halfMessages()
			text := longRequest(server.target)
			var clients sync.WaitGroup
			var sent sync.WaitGroup // the first parts, or what the server takes of them
			rest := make(chan struct{})
			sent.Add(n)
			for range n {
				clients.Go(func() {
					if err := sendInTwoParts(server.target, text, &sent, rest); err != nil {
						t.Error(err)
					}
				})
			}
			parts, all := wait(&sent), wait(&clients)
			server.sampleUntil(parts)
			close(rest)
			server.sampleUntil(all)
			t.Logf("%d clients: from %d to %d MiB", n, server.base, server.most)
			if server.most > 512 {
				t.Errorf("memory grew from %d to %d MiB", server.base, server.most)
			}
		})
	}
}

// longRequest returns a request of 3 MiB as it is sent on a connection.
func longRequest(target Target) []byte {
	body := `{"jsonrpc":"2.0","id":1,"method":"length","params":["` + strings.Repeat("x", 3<<20) + `"]}`
	switch target.Scheme {
	case "http":
		return fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			target.Address, len(body), body)
	case "ws":
		// text, masked with zeros
		frame := binary.BigEndian.AppendUint64([]byte{0x81, 0xff}, uint64(len(body)))
		return fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n%s\x00\x00\x00\x00%s", target.Address, frame, body)
	}
	return []byte(body + "\n")
}

// sendInTwoParts sends a request, and waits before its last kilobyte: for three seconds to send
// what comes before, and then for rest.
func sendInTwoParts(target Target, text []byte, sent *sync.WaitGroup, rest <-chan struct{}) error {
	conn, err := net.Dial("tcp", target.Address)
	if err != nil {
		sent.Done()
		return err
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(3 * time.Second)) // it is a socket
	n, err := conn.Write(text[:len(text)-1024])
	sent.Done()
	if err != nil && !os.IsTimeout(err) {
		return fmt.Errorf("the first part: %w", err)
	}
	<-rest
	_ = conn.SetWriteDeadline(time.Time{})
	if _, err := conn.Write(text[n:]); err != nil {
		return fmt.Errorf("the rest: %w", err)
	}
	return readLength(target, conn)
}

// readLength reads the response to a request of sendInTwoParts.
func readLength(target Target, conn net.Conn) error {
	in := bufio.NewReader(conn)
	var answer []byte
	var err error
	switch target.Scheme {
	case "tcp":
		answer, err = in.ReadBytes('\n')
	case "http":
		var r *http.Response
		if r, err = http.ReadResponse(in, nil); err == nil {
			answer, err = io.ReadAll(r.Body)
			_ = r.Body.Close() // all of it was read
		}
	case "ws":
		for err == nil && !strings.HasSuffix(string(answer), "}") {
			var b byte
			b, err = in.ReadByte()
			answer = append(answer, b)
		}
	}
	if err != nil || !strings.Contains(string(answer), `"result":3145728`) {
		return fmt.Errorf("the response is %.300q, %w", answer, err)
	}
	return nil
}
