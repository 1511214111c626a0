package schema

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOfficialSuite runs the JSON Schema Test Suite, except for tests that need other documents.
// The suite is part of a module that this module depends on.
func TestOfficialSuite(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, draft := range []string{"draft2020-12", "draft7"} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "jsonschema", "testdata", draft, "*.json"))
		if err != nil || len(files) < 30 {
			t.Fatalf("%d files: %v", len(files), err)
		}
		for _, file := range files {
			name := draft + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var groups []struct {
				Description string
				Schema      json.RawMessage
				Tests       []struct {
					Description string
					Data        json.RawMessage
					Valid       bool
				}
			}
			if err := json.Unmarshal(text, &groups); err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				schema := g.Schema
				if draft == "draft7" && schema[0] == '{' && !strings.Contains(string(schema), `"$schema"`) {
					rest := strings.TrimSpace(string(schema[1:]))
					comma := ","
					if strings.HasPrefix(rest, "}") {
						comma = ""
					}
					schema = json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#"` + comma + rest)
				}
				s, err := Compile(schema)
				if err != nil {
					if strings.Contains(err.Error(), "leaves the schema") {
						continue // references to other documents, or to this one by its address
					}
					t.Errorf("%s: %s: %v", name, g.Description, err)
					continue
				}
				for _, tt := range g.Tests {
					ran++
					if err := s.Validate(context.Background(), tt.Data); (err == nil) != tt.Valid {
						t.Errorf("%s: %s: %s: got %v, want %v", name, g.Description, tt.Description, err, tt.Valid)
					}
				}
			}
		}
	}
	t.Logf("%d tests", ran)
	if ran < 1500 {
		t.Errorf("only %d tests ran", ran)
	}
}
