package playground_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/playground"
)

const suiteWithEnvironments = `name: demo
target: "{{base}}/rpc"
variables: {base: "http://127.0.0.1:3000", minuend: 42, subtrahend: 23, secret: "${PARLEY_TEST_TOKEN}", port: "${PARLEY_TEST_PORT:-1}"}
environments:
  staging: {subtrahend: 40, base: "https://staging.example"}
  local: {}
headers: {X-Key: "${PARLEY_TEST_TOKEN}", X-Plain: "a"}
calls:
  - name: subtract
    method: subtract
    params: ["{{minuend}}", "{{subtrahend}}", "{{base}}", "{{captured}}", "a {{minuend}}"]
    asserts:
      - $.result contains {{base}}
  - name: own
    method: subtract
    variables: {subtrahend: 1}
    params: ["{{subtrahend}}"]
`

type listedCall struct {
	Name         string                       `json:"name"`
	Target       string                       `json:"target"`
	Text         string                       `json:"text"`
	Variables    map[string]string            `json:"variables"`
	Environments map[string]map[string]string `json:"environments"`
	Headers      []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"headers"`
	Rest map[string]any `json:",embed"`
}

type listedCalls struct {
	Calls  []listedCall `json:"calls"`
	Suites []struct {
		File  string         `json:"file"`
		Name  string         `json:"name"`
		Calls []listedCall   `json:"calls"`
		Rest  map[string]any `json:",embed"`
	} `json:"suites"`
	Environments []string `json:"environments"`
	Problems     []struct {
		File string `json:"file"`
		Text string `json:"text"`
	} `json:"problems"`
	Rest map[string]any `json:",embed"`
}

// TestSuitesOnThePage checks that the page lists the calls of suites with their variables and
// environments, but no secrets of the environment or of files.
func TestSuitesOnThePage(t *testing.T) {
	t.Setenv("PARLEY_TEST_TOKEN", "very-secret-value")
	dir := t.TempDir()
	other := filepath.Join(t.TempDir(), "other.yaml")
	for name, text := range map[string]string{
		filepath.Join(dir, "demo.yaml"): suiteWithEnvironments, filepath.Join(dir, "bad.yml"): "calls: 1\n",
		filepath.Join(dir, "one.call.json"): `{"name":"one","text":"{}","variables":{"a":1,"b":2},"environments":{"staging":{"a":"x"},"ci":{}}}`,
		other:                               "calls: [{method: ping}]\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, &playground.Options{Folder: dir, Suites: []string{other}})
	var list listedCalls
	b.call("saved/list", obj{}, &list)
	if diff := cmp.Diff([]string{"ci", "local", "staging"}, list.Environments); diff != "" {
		t.Errorf("environments: %s", diff)
	}
	if len(list.Calls) != 1 || list.Calls[0].Environments["staging"]["a"] != "x" || list.Calls[0].Variables["a"] != "1" {
		t.Errorf("saved calls: %+v", list.Calls)
	}
	if len(list.Problems) != 1 || filepath.Base(list.Problems[0].File) != "bad.yml" || !strings.Contains(list.Problems[0].Text, "calls must be a list") {
		t.Errorf("problems: %+v", list.Problems)
	}
	if len(list.Suites) != 2 || list.Suites[0].File != other || list.Suites[1].Name != "demo" || len(list.Suites[1].Calls) != 2 {
		t.Fatalf("suites: %+v", list.Suites)
	}
	first, own := list.Suites[1].Calls[0], list.Suites[1].Calls[1]
	if want := `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[{{minuend}},{{subtrahend}},"{{base}}",{{captured}},"a {{minuend}}"]}`; first.Text != want {
		t.Errorf("the text is\n%s\nwant\n%s", first.Text, want)
	}
	if diff := cmp.Diff(map[string]string{"base": "http://127.0.0.1:3000", "minuend": "42", "subtrahend": "23", "port": "1"}, first.Variables); diff != "" {
		t.Errorf("variables: %s", diff)
	}
	if diff := cmp.Diff(map[string]map[string]string{"staging": {"subtrahend": "40", "base": "https://staging.example"}, "local": {}}, first.Environments); diff != "" {
		t.Errorf("environments: %s", diff)
	}
	if own.Variables["subtrahend"] != "1" || own.Environments["staging"]["subtrahend"] != "" {
		t.Errorf("a call's own variable is replaced: %+v", own)
	}
	if first.Target != "{{base}}/rpc" || len(first.Headers) != 1 || first.Headers[0].Name != "X-Plain" {
		t.Errorf("target %q, headers %+v", first.Target, first.Headers)
	}
	if _, _, text := b.do("POST", "/rpc", "application/json", `{"jsonrpc":"2.0","id":1,"method":"saved/list"}`, nil); strings.Contains(text, "very-secret-value") {
		t.Error("the secret is on the page")
	}
}

// TestEnvironmentOfSavedCall checks that an environment of a file replaces its variables, on the
// page as with parley test.
func TestEnvironmentOfSavedCall(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.call.json")
	text := `{"name":"mine","target":"@demo","text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subtract\",\"params\":[{{a}},{{b}}]}","variables":{"a":42,"b":23},"environments":{"small":{"a":24}},"asserts":[{"path":"$.result","is":"equals","value":1}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	web, _ := services(t)
	b := open(t, &playground.Options{Folder: dir, Targets: []playground.Target{{Name: "@demo", Address: web + "/rpc"}}})
	for _, c := range []struct {
		environment, params string
		ok                  bool
	}{{"", "[42,23]", false}, {"small", "[24,23]", true}, {"other", "[42,23]", false}} {
		var out held
		b.call("saved/run", obj{"name": "mine", "environment": c.environment}, &out)
		if out.OK != c.ok || !strings.Contains(out.Text, c.params) {
			t.Errorf("environment %q: %+v", c.environment, out)
		}
	}
	// The page changes the call, and leaves the environments in the file.
	b.call("saved/save", obj{"name": "mine", "was": "mine", "target": "@demo", "text": "{}", "variables": obj{"a": "1"}}, nil)
	after, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(after), `"environments": {"small": {"a": 24}}`) && !strings.Contains(string(after), `"environments":{"small":{"a":24}}`) {
		t.Errorf("the file is %s, %v", after, err)
	}
}
