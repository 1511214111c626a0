package editor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestAnnouncedPromptsAreBounded checks what a client can make an agent remember of prompts that do
// not begin: not more than their number permits, and no long IDs.
func TestAnnouncedPromptsAreBounded(t *testing.T) {
	prompt := `{"jsonrpc":"2.0","id":%q,"method":"session/prompt","params":{"sessionId":%q,"prompt":[]}}`
	long := strings.Repeat("x", 64<<10)
	s := &side{announced: map[jsonrpc.ID]*turn{}}
	for i := range 3 * mostAnnounced {
		for _, ids := range [][2]string{{fmt.Sprint(i), "s"}, {fmt.Sprint(i, long), "s"}, {fmt.Sprint("a", i), long}} {
			if i < 100 || len(ids[0]+ids[1]) < 100 { // the long ones are slow
				s.note(fmt.Appendf(nil, prompt, ids[0], ids[1]))
			}
		}
		held := 0
		for id, turn := range s.announced {
			if i%1000 == 99 {
				held += len(id.String()) + len(turn.session)
			}
		}
		if len(s.announced) == 0 || len(s.announced) > mostAnnounced || held > mostAnnounced*mostIDs || i < 1000 && held > 100<<10 {
			t.Fatalf("%d prompts with %d bytes of IDs after %d", len(s.announced), held, i)
		}
	}
}
