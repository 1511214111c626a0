package orchestrator

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/da1ed7bb/parley"
)

// A witness is an HTTP server that records the credentials of its callers.
type witness struct {
	mu   sync.Mutex
	seen []string
}

func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.seen = append(w.seen, strings.TrimSpace(r.Header.Get("Authorization")+" "+r.Header.Get("X-Key")))
	w.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	id := "null"
	if _, rest, ok := strings.Cut(string(body), `"id":`); ok {
		id = strings.TrimRight(strings.SplitN(rest, ",", 2)[0], "}")
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(rw, `{"jsonrpc":"2.0","id":`+id+`,"result":1}`)
}

func TestCredentialsGoToTheirMember(t *testing.T) {
	first, second := &witness{}, &witness{}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plan, err := ParsePlan(filepath.Join(dir, "p.yaml"), []byte(`
team:
  ann: {target: "`+web(t, first)+`", protocol: jsonrpc, token: "${ANN}"}
  again: {target: "`+web(t, first)+`", protocol: jsonrpc, headers: {X-Key: "${KEY:-none}"}}
  bob: {target: "`+web(t, second)+`", protocol: jsonrpc, token: "${file:secret}", headers: {X-Key: "${env:BOB}-${NO:-x}"}}
  carl: {target: "`+web(t, second)+`", protocol: jsonrpc}
  dora: {target: "`+web(t, second)+`", protocol: jsonrpc, token: "${ANN}"}
steps: [{call: ann/x}]
`))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"ANN": "anns-token", "BOB": "bobs-key"}
	var secrets []string
	team, err := Dial(t.Context(), plan.Team, &DialOptions{
		Dialer: &parley.Dialer{Header: http.Header{"X-Key": {"shared"}}},
		Tokens: map[string]string{"dora": "doras-token"},
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Secret: func(s string) { secrets = append(secrets, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer team.Close()
	shown := map[string]string{}
	for _, name := range team.Names() {
		if err := team.Worker(name).Peer.Call(t.Context(), "x", nil, nil); err != nil {
			t.Fatal(err)
		}
		w := first
		if name != "ann" && name != "again" {
			w = second
		}
		shown[name] = w.seen[len(w.seen)-1]
	}
	want := map[string]string{"ann": "Bearer anns-token shared", "again": "none", "bob": "Bearer from-file bobs-key-x", "carl": "shared", "dora": "Bearer doras-token shared"}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Error(diff)
	}
	for _, s := range []string{"anns-token", "from-file", "bobs-key-x", "doras-token"} {
		if !slices.Contains(secrets, s) {
			t.Errorf("%s is not reported as a secret: %q", s, secrets)
		}
	}
	if plan.Team["ann"].Token != "${ANN}" {
		t.Errorf("the plan has the value: %q", plan.Team["ann"].Token)
	}
}

// A variable that is not set is an error with the variable's name and position, and no member is
// dialled.
func TestVariablesThatAreNotSet(t *testing.T) {
	for text, want := range map[string]string{
		`token: "${NOT_SET}"`:               "p.yaml:2:%d: team.ann.token: NOT_SET is not set",
		`headers: {X: "a ${env:NOT_SET}"}`:  "p.yaml:2:%d: team.ann.headers.X: NOT_SET is not set",
		`token: "${file:/does/not/exist}"`:  "p.yaml:2:%d: team.ann.token: file:/does/not/exist cannot be read: no such file or directory",
		`token: "${file:/}"`:                "p.yaml:2:%d: team.ann.token: file:/ cannot be read: it is not a regular file",
		`headers: {X: "${not a variable}"}`: `p.yaml:2:%d: team.ann.headers.X: ${not a variable} is not a variable`,
	} {
		w := &witness{}
		plan, err := ParsePlan("p.yaml", []byte("team:\n  ann: {target: \""+web(t, w)+"\", protocol: jsonrpc, "+text+"}\nsteps: [{call: ann/x}]\n"))
		if err == nil {
			_, err = Dial(t.Context(), plan.Team, &DialOptions{Lookup: func(string) (string, bool) { return "", false }})
		}
		faults, ok := errors.AsType[*PlanError](err)
		if !ok || faults.Problems[0].Column < 10 {
			t.Errorf("%s: %v", text, err)
			continue
		}
		before, after, _ := strings.Cut(want, "%d")
		if got := faults.Error(); !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) || len(w.seen) > 0 {
			t.Errorf("%s: %q, want %q; %d calls", text, got, want, len(w.seen))
		}
	}
}

// Variables are expanded only in files: a member made in Go is used unchanged.
func TestVariablesOfPrograms(t *testing.T) {
	members := map[string]Member{
		"go": {Command: []string{"x"}, Env: []string{"A=${B}"}},
	}
	plan, err := ParsePlan("p.yaml", []byte("team:\n  file: {command: [x, \"${B}\"], protocol: mcp, env: [\"A=${B}\", \"C=${D:-d}\"]}\nsteps: [{tool: file/x}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(members, plan.Team)
	got, err := (&DialOptions{Lookup: func(name string) (string, bool) { return "b", name == "B" }}).resolve(t.Context(), members)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A=${B}"}, got["go"].Env); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"A=b", "C=d"}, got["file"].Env); diff != "" {
		t.Error(diff)
	}
	if got["file"].Command[1] != "${B}" { // the command's own shell syntax is not expanded
		t.Errorf("Command = %q", got["file"].Command)
	}
}

// A target that is a name is looked up before anything is dialled, and the credentials of the plan
// replace those of the name.
func TestNamedMembers(t *testing.T) {
	const text = `team:
  a: {target: "@web", protocol: jsonrpc, headers: {X: "${B}"}}
  b: {target: "@web", protocol: jsonrpc, token: mine}
  c: {target: "@prog", protocol: mcp}
  d: {target: "@${B}", protocol: mcp}
steps: [{call: a/x}]
`
	plan, err := ParsePlan("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	o := &DialOptions{Lookup: func(string) (string, bool) { return "prog", true }, Named: func(_ context.Context, name string) (Member, error) {
		asked = append(asked, name)
		if name == "@prog" {
			return Member{Command: []string{"x", "${B}"}, Env: []string{"A=${B}"}, Dir: "/d"}, nil
		}
		return Member{Target: "http://h/${B}", Headers: map[string]string{"X": "1", "Y": "2", "authorization": "Bearer theirs"}}, nil
	}}
	got, err := o.resolve(t.Context(), plan.Team)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range got {
		m.from, m.Protocol = nil, ""
		got[name] = m
	}
	prog := Member{Command: []string{"x", "${B}"}, Env: []string{"A=${B}"}, Dir: "/d"}
	want := map[string]Member{
		"a": {Target: "http://h/${B}", Headers: map[string]string{"X": "prog", "Y": "2", "authorization": "Bearer theirs"}},
		"b": {Target: "http://h/${B}", Token: "mine", Headers: map[string]string{"X": "1", "Y": "2"}},
		"c": prog, "d": prog,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Member{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"@web", "@web", "@prog", "@prog"}, asked); diff != "" {
		t.Error(diff)
	}

	_, err = Dial(t.Context(), plan.Team, &DialOptions{Lookup: o.Lookup})
	if faults, ok := errors.AsType[*PlanError](err); !ok || faults.Error() != "p.yaml:2:16: team.a.target: @web is a name, and names are not looked up here" {
		t.Errorf("without Named: %v", err)
	}
	refused := errors.New("not approved")
	o.Named = func(context.Context, string) (Member, error) { return Member{}, refused }
	if _, err = Dial(t.Context(), plan.Team, o); !errors.Is(err, refused) {
		t.Errorf("a refused name: %v", err)
	}
}
