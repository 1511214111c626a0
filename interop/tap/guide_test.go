package tap_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestGuides runs the commands of the guides, one after the other in a separate folder.
func TestGuides(t *testing.T) {
	t.Parallel()
	path := filepath.Dir(harness.Parley(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	for _, name := range []string{"watch-the-wire.md", "record-and-replay.md"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("../../docs/guides/" + name)
			if err != nil {
				t.Fatal(err)
			}
			blocks := shellBlock.FindAllSubmatch(text, -1)
			if len(blocks) == 0 {
				t.Fatal("the guide has no commands")
			}
			dir := t.TempDir()
			for _, block := range blocks {
				cmd := harness.Command(within(t), t, []string{"sh", "-ec", string(block[1])})
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "PATH="+path)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s%s", err, block[1], out)
				}
			}
		})
	}
}
