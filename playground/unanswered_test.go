package playground

import (
	"fmt"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestUnansweredRequestsAreBounded checks how many method names of a server's requests a call of a
// suite stores.
func TestUnansweredRequestsAreBounded(t *testing.T) {
	l := &link{trial: &trial{}}
	for i := range 3 * maxUnanswered {
		for _, method := range []string{fmt.Sprint("m", i), fmt.Sprint("m", i), fmt.Sprint(i, strings.Repeat("x", maxMethodName))} {
			if _, err := l.answerOf(&jsonrpc.Message{Method: method, ID: jsonrpc.IntID(1)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := l.trial.unanswered; len(got) != maxUnanswered || got[0] != "m0" || got[maxUnanswered-1] != fmt.Sprint("m", maxUnanswered-1) {
		t.Errorf("%d names are stored: %.100q", len(got), got)
	}
}

// TestStoredMessagesAreBounded checks how many short messages a call of a suite stores.
func TestStoredMessagesAreBounded(t *testing.T) {
	l := &link{trial: &trial{payloads: map[int64][]byte{}}}
	for i := range int64(2 * maxTrial / trialCost) {
		l.collect(i, []byte("{}"))
	}
	if n := len(l.trial.payloads); n == 0 || n > maxTrial/trialCost {
		t.Errorf("%d messages are stored", n)
	}
}
