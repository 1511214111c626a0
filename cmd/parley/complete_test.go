package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
)

// TestCompleteParams checks the candidates for parameters of a plain call: the sign depends on the
// type, and few values are completed.
func TestCompleteParams(t *testing.T) {
	param := func(name, schema string) openrpc.ContentDescriptor {
		return openrpc.ContentDescriptor{Name: name, Schema: jsonrpc.Raw(schema), Description: "About " + name + ". More."}
	}
	d := &openrpc.Document{Methods: []openrpc.Method{
		{Name: "order", Params: []openrpc.ContentDescriptor{
			param("dish", `{"type":"string","enum":["risotto","ramen","two words"]}`), param("count", `{"type":"integer"}`),
			param("hot", `{"type":"boolean"}`), param("size", `{"enum":[1,2]}`), param("note", `{"type":"string"}`), param("any", `{}`),
		}},
		{Name: "positions", ParamStructure: openrpc.ByPosition, Params: []openrpc.ContentDescriptor{param("a", `{}`)}},
	}}
	for _, tt := range []struct {
		method, typed string
		want          []string
	}{
		{"order", "", []string{"dish=\tAbout dish", "count:=\tAbout count", "hot:=\tAbout hot", "size:=\tAbout size", "note=\tAbout note", "any:=\tAbout any"}},
		{"order", "d", []string{"dish=\tAbout dish"}},
		{"order", "dish=r", []string{"dish=risotto", "dish=ramen"}},
		{"order", "dish=t", []string{"dish=two words"}},
		{"order", "hot:=", []string{"hot:=true", "hot:=false"}},
		{"order", "size:=2", []string{"size:=2"}},
		{"order", "note=x", nil},
		{"positions", "", nil},
		{"unknown", "", nil},
	} {
		got := paramNames(d, tt.method, tt.typed)
		for i, one := range got {
			got[i] = strings.TrimSuffix(one, "\t") // no description
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s %q: %q, want %q", tt.method, tt.typed, got, tt.want)
		}
	}
}

// TestOffersAreRemembered checks that a server is asked once for each kind of candidate, that what
// it offered is for one command line and one minute only, and that its file is private.
func TestOffersAreRemembered(t *testing.T) {
	state := t.TempDir()
	a := &app{getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }}
	var asked []string
	complete := a.remembering(func(_ *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		asked = append(asked, strings.Join(append(words, typed), " "))
		if words[0] == "silent" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return []cobra.Completion{"sum\tadds", "subtract"}, cobra.ShellCompDirectiveNoFileComp
	})
	cmd := &cobra.Command{Use: "call"}
	cmd.Flags().Duration("timeout", 0, "")
	cmd.Flags().String("token", "", "")
	try := func(typed string, words ...string) string {
		list, directive := complete(cmd, words, typed)
		if directive != cobra.ShellCompDirectiveNoFileComp {
			t.Errorf("directive %d", directive)
		}
		return strings.Join(list, " ")
	}
	for _, tt := range []struct {
		typed, server, want string
		times               int
	}{
		{"", "one", "sum\tadds subtract", 1}, {"su", "one", "sum\tadds subtract", 1}, {"sub", "one", "subtract", 1}, {"x", "one", "", 1},
		{"a=", "one", "sum\tadds subtract", 2}, // a kind of its own
		{"", "two", "sum\tadds subtract", 3}, {"", "silent", "", 4}, {"", "silent", "", 5},
	} {
		if got := try(tt.typed, tt.server); got != tt.want || len(asked) != tt.times {
			t.Errorf("%s %q: %q after %d questions, want %q after %d", tt.server, tt.typed, got, len(asked), tt.want, tt.times)
		}
	}
	if err := cmd.Flags().Set("token", "another user"); err != nil {
		t.Fatal(err)
	}
	if try("", "one"); len(asked) != 6 {
		t.Error("another token is another caller")
	}
	files, err := filepath.Glob(filepath.Join(state, "parley", offeredFolder, "*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	old := time.Now().Add(-2 * offeredTime)
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if try("", "one"); len(asked) != 7 {
		t.Error("what is old is asked for again")
	}
}
