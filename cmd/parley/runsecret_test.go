package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/orchestrator"
)

// runCanaries are the credentials of the team in TestStoredRunsHideCredentials. One is a number,
// one is a word of the stored events, and one has characters that JSON escapes.
var runCanaries = []string{"CANARY-of-the-flag", "CANARY-of-the-file", "CANARY-of-the-plan", "8642097531", "CANARY-in-\"quotes\"\\", "CANARY-of-a-header", "CANARY-of-the-env", "run_ended"}

// echoCredentials is a JSON-RPC server whose results and errors contain the credentials of the
// request, plain and escaped.
func echoCredentials(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	raw, _ := jsonrpc.ParseRaw(body)
	var request struct {
		ID     jsonrpc.Raw `json:"id"`
		Method string      `json:"method"`
	}
	_ = raw.Decode(&request)
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	quoted, _ := json.Marshal(token)
	var escaped strings.Builder
	for _, c := range token {
		fmt.Fprintf(&escaped, `\u%04x`, c)
	}
	number := "1"
	if strings.HasPrefix(token, "8642") {
		number = token
	}
	header, _ := json.Marshal(r.Header.Get("X-Api-Key"))
	value := fmt.Sprintf(`{"a":%s,"b":"%s","c":%s,"d":"%s","e":%s,%s:[true,null],"kind":"run_ended"}`, quoted, escaped.String(), number,
		base64.StdEncoding.EncodeToString([]byte(token)), header, quoted)
	w.Header().Set("Content-Type", "application/json")
	if request.Method == "fail" {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":7,"message":%s,"data":%s}}`, request.ID, quoted, value)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, request.ID, value)
}

// TestStoredRunsHideCredentials checks that no file of a stored run contains a credential of its
// team, wherever the credential came from and however a member returned it, and that the run can be
// read.
func TestStoredRunsHideCredentials(t *testing.T) {
	sh := filepath.Join(string(filepath.Separator), "bin", "sh")
	if _, err := os.Stat(sh); err != nil {
		return // the system has no such programs
	}
	var targets []string
	for range 6 { // members share a connection only if their credentials are equal
		s := httptest.NewServer(http.HandlerFunc(echoCredentials))
		t.Cleanup(s.Close)
		targets = append(targets, s.URL)
	}
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	t.Setenv("RUN_HEADER", "CANARY-of-a-header")
	t.Setenv("RUN_ENV", "CANARY-of-the-env")
	for name, content := range map[string]string{
		"far.txt": "CANARY-of-the-file\n",
		"plan.yaml": fmt.Sprintf(`name: leak
team:
  flag: {target: %q, protocol: jsonrpc}
  file: {target: %q, protocol: jsonrpc}
  plan: {target: %q, protocol: jsonrpc, token: CANARY-of-the-plan, headers: {X-Api-Key: "${RUN_HEADER}"}}
  number: {target: %q, protocol: jsonrpc, token: "8642097531"}
  quotes: {target: %q, protocol: jsonrpc, token: 'CANARY-in-"quotes"\'}
  word: {target: %q, protocol: jsonrpc, token: run_ended}
  child:
    command: [%s, -c, 'while read line; do id=$(echo "$line" | sed "s/.*\"id\":\([^,}]*\).*/\1/"); printf "{\"jsonrpc\":\"2.0\",\"id\":%%s,\"result\":\"%%s\"}\n" "$id" "$MY_KEY"; done']
    protocol: jsonrpc
    env: ["MY_KEY=${RUN_ENV}"]
steps:
  - {id: flag, call: flag/get}
  - {id: file, call: file/get}
  - {id: plan, call: plan/get}
  - {id: number, call: number/get}
  - {id: quotes, call: quotes/get}
  - {id: word, call: word/get}
  - {id: child, call: child/get}
  - {id: fails, call: plan/fail, optional: true}
  - {id: shout, call: child/get, args: {text: "{{plan.text}}"}}
  - {id: last, call: quotes/fail}
`, targets[0], targets[1], targets[2], targets[3], targets[4], targets[5], sh),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := on(t.Context(), "run", filepath.Join(dir, "plan.yaml"), "--state", state, "--token", "flag=CANARY-of-the-flag",
		"--token-file", "file="+filepath.Join(dir, "far.txt"), "-o", "json")
	if code != exitRPC {
		t.Fatalf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	for _, canary := range runCanaries {
		quoted, _ := json.Marshal(canary)
		if !strings.Contains(stdout, string(quoted[1:len(quoted)-1])) {
			t.Errorf("the report does not contain %s: the members do not return it\n%s", canary, stdout)
		}
	}
	files := 0
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, canary := range runCanaries[:len(runCanaries)-1] {
			quoted, _ := json.Marshal(canary)
			for _, form := range []string{canary, string(quoted[1 : len(quoted)-1]), base64.StdEncoding.EncodeToString([]byte(canary)), fmt.Sprintf(`\u%04x\u%04x\u%04x\u%04x`, canary[0], canary[1], canary[2], canary[3])} {
				if strings.Contains(string(content), form) {
					t.Errorf("%s contains %s", filepath.Base(path), form)
				}
			}
		}
		return nil
	})
	if err != nil || files < 2 {
		t.Fatalf("%d files are stored, %v", files, err)
	}
	code, stdout, stderr = on(t.Context(), "run", "show", "last", "--state", state, "-o", "json")
	var report struct {
		*orchestrator.Report `json:",inline"`
		Text                 string `json:"text"`
	}
	if err := json.Unmarshal([]byte(stdout), &report, json.RejectUnknownMembers(false)); code != 0 || err != nil {
		t.Fatalf("show: %d, %v\n%s\n%s", code, err, stdout, stderr)
	}
	if len(report.Steps) != 10 || report.State != orchestrator.Failed || !strings.Contains(stdout, "[redacted]") {
		t.Errorf("show: %d steps, %s\n%s", len(report.Steps), report.State, stdout)
	}
	if code, stdout, stderr = on(t.Context(), "run", "show", "last", "--events", "--state", state); code != 0 || !strings.Contains(stdout, `"kind":"run_ended"`) {
		t.Errorf("show --events: %d\n%s\n%s", code, stdout, stderr)
	}
	if code, stdout, stderr = on(t.Context(), "run", "list", "--state", state); code != 0 || strings.Contains(stdout, "CANARY") || !strings.Contains(stdout, "failed") {
		t.Errorf("list: %d\n%s\n%s", code, stdout, stderr)
	}
}
