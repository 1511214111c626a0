package tap_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// TestReplayInASessionOfItsOwn replays a conversation of the official inspector with
// server-everything over Streamable HTTP: the server assigns a new session, and the responses are
// the recorded ones. The same holds for a recording from stdio, which has no sessions.
func TestReplayInASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	port := announcing(t, everything, "streamableHttp")
	server := "http://127.0.0.1:" + port + "/mcp"
	overHTTP, onStdio := filepath.Join(t.TempDir(), "http.jsonl"), filepath.Join(t.TempDir(), "stdio.jsonl")
	at, stop := tapAt(t, server, overHTTP)
	for _, words := range visits {
		inspect(t, words, []string{"--transport", "http", "--server-url", at})
	}
	stop()
	argv, check := tapped(t, onStdio, node(t, everything, "stdio"))
	inspect(t, visits[1], []string{"--", script(t, argv)})
	check()
	// At least a handshake and a call each.
	for file, least := range map[string]int{overHTTP: 2 * len(visits), onStdio: 2} {
		out, err := harness.Command(within(t), t, []string{harness.Parley(t), "replay", file, server}).CombinedOutput()
		var asked, different int
		summary := regexp.MustCompile(`(?m)^parley: \d+ requests.*`).FindString(string(out)) // after what the server asked
		if _, scan := fmt.Sscanf(summary, "parley: %d requests, %d differences", &asked, &different); err != nil || scan != nil || asked < least || different != 0 {
			t.Errorf("%s asked again: %v\n%s\nwant %d requests or more, and no difference", filepath.Base(file), err, out, least)
		}
	}
}
