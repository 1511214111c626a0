package playground_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/playground"
)

// held is the result of assertions.
type held struct {
	OK      bool   `json:"ok"`
	Text    string `json:"text"`
	Results []struct {
		OK   bool           `json:"ok"`
		Text string         `json:"text"`
		Rest map[string]any `json:",embed"`
	} `json:"results"`
	Rest map[string]any `json:",embed"`
}

// TestSavedCallOfTheGuide checks that the file in the guide runs and its assertions hold. With
// another value, one of them fails.
func TestSavedCallOfTheGuide(t *testing.T) {
	guide, err := os.ReadFile("../docs/guides/send-anything.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```jsonc\n")
	file, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the guide shows no file")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine.call.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	web, _ := services(t)
	b := open(t, &playground.Options{Folder: dir, Targets: []playground.Target{{Name: "@demo", Address: web + "/rpc"}}})
	var out held
	b.call("saved/run", obj{"name": "the difference"}, &out)
	if !out.OK || len(out.Results) != 2 || out.Text != `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}` {
		t.Errorf("it ran as %+v", out)
	}
	b.call("saved/run", obj{"name": "the difference", "variables": obj{"much": "1"}}, &out)
	if out.OK || !out.Results[0].OK || out.Results[1].OK || !strings.Contains(out.Results[1].Text, "the value is 41") {
		t.Errorf("with another value it ran as %+v", out)
	}
}

// TestSavedCheck checks that assertions can be checked against any sent call once its response
// arrives. Variables in headers are filled in, too.
func TestSavedCheck(t *testing.T) {
	web, tcp := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@web", Address: web + "/rpc"}, {Name: "@tcp", Address: tcp}}})
	for _, target := range []string{"@web", "@tcp"} {
		for _, c := range []struct {
			text, path, is, raw string
			ok                  bool
		}{
			{`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"n":9007199254740993}}`, "$.result.n", "equals", "9007199254740993", true},
			{`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"n":9007199254740993}}`, "$.result.n", "equals", "9007199254740992", false},
			{`{"jsonrpc":"2.0","id":1,"method":"sleep","params":[30]}`, "$.result", "more", "29", true},
			{`{"jsonrpc":"2.0","id":1,"method":`, "$.error.code", "equals", "-32700", true},
			{`{"jsonrpc":"2.0","method":"update"}`, "$.result", "missing", "", true},
		} {
			var s sent
			b.call("send", obj{"target": target, "text": c.text}, &s)
			var out held
			b.call("saved/check", obj{"ref": s.Ref, "asserts": []obj{{"path": c.path, "is": c.is, "raw": c.raw}}}, &out)
			if len(out.Results) != 1 || out.OK != c.ok {
				t.Errorf("%s to %s: %+v, want %v", c.text, target, out, c.ok)
			}
		}
	}
	for _, bad := range []obj{{"ref": "x", "asserts": []obj{}}, {"ref": "999", "asserts": []obj{}}, {"ref": "1", "asserts": []obj{{"path": "x", "is": "exists"}}}} {
		if e := b.try("saved/check", bad, nil); e == nil {
			t.Errorf("%v is held", bad)
		}
	}
}
