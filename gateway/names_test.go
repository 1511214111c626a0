package gateway

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func TestExposedName(t *testing.T) {
	for _, c := range []struct{ server, name, want string }{
		{"notes", "add", "notes__add"},
		{"notes", "add_note-2", "notes__add_note-2"},
		{"notes", "add__twice", "notes__add__twice"},
		{"notes", "", "notes__"},
		{"calc", "calculator/add", "calc__calculator_add_cf951e"},
		{"calc", "calculator.add", "calc__calculator_add_7accb6"},
		{"s", "größe", "s__gr__e_d353a2"},
		{"s", strings.Repeat("x", 61), "s__" + strings.Repeat("x", 61)},
		{"s", strings.Repeat("x", 62), "s__" + strings.Repeat("x", 54) + "_21210f"},
	} {
		got := exposedName(c.server, c.name)
		if got != c.want {
			t.Errorf("%s, %q: got %s, want %s", c.server, c.name, got, c.want)
		}
		if !validName.MatchString(got) {
			t.Errorf("%s is not valid", got)
		}
	}
}

func TestWrappedURI(t *testing.T) {
	const wrapped = "parley://notes/file%3A%2F%2F%2Fa%20b%25%3F%23x"
	if got := wrapURI("notes", "file:///a b%?#x"); got != wrapped {
		t.Errorf("got %s", got)
	}
	if server, uri, ok := unwrapURI(wrapped); server != "notes" || uri != "file:///a b%?#x" || !ok {
		t.Errorf("got %s, %s, %v", server, uri, ok)
	}
	for _, other := range []string{"", "parley://", "parley:///x", "parley://notes", "file:///a", "parley://notes/a%2", "parley://notes/a:b", "parley://notes/%2e"} {
		if server, uri, ok := unwrapURI(other); ok {
			t.Errorf("%s: got %s, %s", other, server, uri)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("add", "calculator/add")
	f.Add("a/b", "a.b")
	f.Add(strings.Repeat("é", 80), "parley://x/y")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return // a name is a JSON string
		}
		one, other := exposedName("server", a), exposedName("server", b)
		if !validName.MatchString(one) || !strings.HasPrefix(one, "server"+divider) || one != exposedName("server", a) {
			t.Fatalf("%q: got %s", a, one)
		}
		if exposedName("serve", a) == one {
			t.Fatalf("%q has the same name on two servers", a)
		}
		if a != b && one == other && len(one) < maxName && !strings.Contains(one[max(len(one)-7, 0):], "_") {
			t.Fatalf("%q and %q are both %s", a, b, one)
		}
		if server, uri, ok := unwrapURI(wrapURI("server", a)); !ok || server != "server" || uri != a {
			t.Fatalf("%q: got %s, %q", a, server, uri)
		}
		if server, uri, ok := unwrapURI(a); ok && wrapURI(server, uri) != a {
			t.Fatalf("%q has two forms", a)
		}
	})
}
