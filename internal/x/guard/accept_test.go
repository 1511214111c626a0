package guard

import (
	"strings"
	"testing"
)

func TestQuality(t *testing.T) {
	const json, events = "application/json", "text/event-stream"
	tests := []struct {
		accept    string
		json      int
		events    int
		namesBoth string // the types that are spelled out: j, e
	}{
		{"", 1000, 1000, ""},
		{"*/*", 1000, 1000, ""},
		{"application/json", 1000, 0, "j"},
		{"application/json, text/event-stream", 1000, 1000, "je"},
		{"text/event-stream", 0, 1000, "e"},
		{"Text/Event-Stream", 0, 1000, "e"},
		{"text/*", 0, 1000, ""},
		{"application/*", 1000, 0, ""},
		{"text/html", 0, 0, ""},
		{"text/html, */*;q=0.1", 100, 100, ""},
		{"application/json;q=0.5, */*;q=0.8", 500, 800, "j"},
		{"application/json;q=0, */*", 0, 1000, "j"},
		{"*/*;q=0", 0, 0, ""},
		{"*/*;q=0, application/json", 1000, 0, "j"},
		{"application/json;q=0.001", 1, 0, "j"},
		{"application/json ; Q=1.000", 1000, 0, "j"},
		{"application/json;q=1.001, text/html", 0, 0, ""},
		{"application/json;q=-1, text/html", 0, 0, ""},
		{"application/json;q=, text/html", 0, 0, ""},
		{"application/json;q=0.1234, text/html", 0, 0, ""},
		{"application/json;q=abc, text/html", 0, 0, ""},
		{"application/json; charset=utf-8", 1000, 0, "j"},
		{"application/json; indent=4", 1000, 0, "j"},
		{"application/json; v=1; q=0, application/json", 1000, 0, "j"},
		{`text/html; x="a, application/json"`, 0, 0, ""},
		{`text/html; x="\", application/json"`, 0, 0, ""},
		{",, ,application/json,,", 1000, 0, "j"},
		{"text/html, image/gif, *; q=.2, */*; q=.2", 200, 200, ""},
		{"*/json", 1000, 1000, ""}, // no valid range: treated as absent
		{"garbage", 1000, 1000, ""},
		{"application /json, text/html", 0, 0, ""},
		{"application/json2", 0, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.accept, func(t *testing.T) {
			names := ""
			j, named := Quality([]string{tt.accept}, json)
			if named {
				names += "j"
			}
			e, named := Quality([]string{tt.accept}, events)
			if named {
				names += "e"
			}
			if j != tt.json || e != tt.events || names != tt.namesBoth {
				t.Errorf("got json %d, events %d, named %q; want %d, %d, %q", j, e, names, tt.json, tt.events, tt.namesBoth)
			}
		})
	}
	if q, _ := Quality([]string{"text/html", "application/json"}, json); q != 1000 {
		t.Errorf("two headers: got %d, want 1000", q)
	}
	if q, _ := Quality(nil, json); q != 1000 {
		t.Errorf("no header: got %d, want 1000", q)
	}
}

// FuzzQuality checks that no header causes a panic, and that an appended complete range always
// counts.
func FuzzQuality(f *testing.F) {
	for _, seed := range []string{"", "*/*", "a/b;q=0.5", `a/b;x="\"`, ",;=", "text/*;q=1", "a/b;q=0.0000", `"`, "*;q=.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		q, named := Quality([]string{header}, "application/json")
		if q < 0 || q > 1000 || named && !strings.Contains(strings.ToLower(header), "application/json") {
			t.Errorf("Quality(%q) = %d, %t", header, q, named)
		}
		if q, named := Quality([]string{header, "application/json"}, "application/json"); q != 1000 || !named {
			t.Errorf("Quality(%q, application/json) = %d, %t; want 1000, true", header, q, named)
		}
	})
}
