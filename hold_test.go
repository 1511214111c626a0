//go:build !race

package parley

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWhatAPeerCanMakeUsHold checks rows of docs/limits.md: peers try to exceed each bound of a
// server in its own process. The memory of the server stays within the bound of the row, and
// another connection is served all the time, with PARLEY_LONG as
// fast as before. The race detector multiplies memory, so make faults
// runs this test without it.
func TestWhatAPeerCanMakeUsHold(t *testing.T) {
	long := strings.Repeat("x", 128<<10)
	one := `{"jsonrpc":"2.0","id":1,"method":%q,"params":{"question":%q}}` + "\n"
	for name, row := range map[string]struct {
		conns int
		text  string // sent repeatedly until the server stops reading
	}{
		"unread responses":         {50, fmt.Sprintf(one, "nothing", "") /* an error for each */},
		"large responses":          {20, `{"jsonrpc":"2.0","id":1,"method":"text","params":[1024]}` + "\n"},
		"large responses of many":  {50, `{"jsonrpc":"2.0","id":1,"method":"text","params":[1024]}` + "\n"},
		"long requests that wait":  {50, fmt.Sprintf(one, "wait", long)},
		"short requests that wait": {50, fmt.Sprintf(one, "wait", "")},
		"notifications":            {8, `{"jsonrpc":"2.0","method":"wait"}` + "\n"},
		"batches":                  {8, "[" + strings.TrimSuffix(strings.Repeat(strings.TrimSpace(fmt.Sprintf(one, "wait", ""))+",", 5000), ",") + "]\n"},
		"handlers that ask":        {4, fmt.Sprintf(one, "ask", "")},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t, childVariable, "unix")
			before := server.calls()
			server.weigh()
			var sending sync.WaitGroup
			for range row.conns {
				peer, err := net.Dial("unix", server.target.Address)
				if err != nil {
					t.Fatal(err)
				}
				defer peer.Close()

				// it is a socket, which has deadlines
				_ = peer.SetDeadline(time.Now().Add(5 * time.Second))
				text := []byte(row.text)
				if len(text) < 4<<10 {
					text = bytes.Repeat(text, 4<<10/len(text))
				}
				sending.Go(func() {
					for range max(4, 16<<20/len(text)) {
						if _, err := peer.Write(text); err != nil {
							return // the server reads nothing more
						}
					}
				})
				if name != "unread responses" && !strings.HasPrefix(name, "large responses") {
					// until the connection is closed
					go func() { _, _ = io.Copy(io.Discard, peer) }()
				}
			}
			during := server.sampleUntil(wait(&sending))
			during = append(during, server.sampleHeld()...)
			bound := 96 // the goal is 64
			switch name {
			case "handlers that ask", // 6,048 of them, so that two sides in one process may call each other
				"large responses", "large responses of many":
				bound = 128
			}
			server.check(bound)
			server.checkLatency(before, during)
			t.Logf("from %d to %d MiB", server.base, server.most)
		})
	}
}
