package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/config"
)

// TestClientsGuide checks that the configurations in docs/guides/clients.md can be read and that
// each has its servers.
func TestClientsGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/guides/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"notes tapped", "notes tapped http", "notes tapped http", "notes tapped scribe tapped-agent"}
	blocks := strings.Split(string(guide), "```json\n")[1:]
	if len(blocks) != len(want) {
		t.Fatalf("the guide has %d configurations, want %d", len(blocks), len(want))
	}
	for i, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		file := config.Parse("settings.json", []byte(text), world())
		var names []string
		for _, e := range file.Entries {
			names = append(names, e.Name)
			if e.Problem != "" {
				t.Errorf("%s: %s", e.Name, e.Problem)
			}
		}
		if got := strings.Join(names, " "); got != want[i] || len(file.Problems) > 0 {
			t.Errorf("configuration %d has %q, want %q; problems: %v", i+1, got, want[i], file.Problems)
		}
	}
}
