package mcp

import "testing"

// TestFrontmatter compares the front matter of skills with its JSON. An empty JSON text means an
// error.
func TestFrontmatter(t *testing.T) {
	for text, want := range map[string]string{
		"name: x":                `{"name":"x"}`,
		`"na: me": x`:            `{"na: me":"x"}`,
		`'it is "it"': x`:        `{"it is \"it\"":"x"}`,
		`"": x`:                  `{"":"x"}`,
		`"a":`:                   `{"a":null}`,
		`"a" x`:                  ``,
		`"a`:                     ``,
		"a":                      ``,
		"- a: b":                 ``,
		"-a: b":                  `{"-a":"b"}`,
		"a: b\na: c":             ``,
		"a:\n  b: 1\n  c: true":  `{"a":{"b":1,"c":true}}`,
		"a:\n- b\n- 'c''d'":      `{"a":["b","c'd"]}`,
		"a: [b, \"c\", 2]":       `{"a":["b","c",2]}`,
		"a: |\n  b\n\n  c\nd: e": `{"a":"b\n\nc\n","d":"e"}`,
		"a: >-\n  b\n  c":        `{"a":"b c"}`,
		"a: b # comment":         `{"a":"b"}`,
		"a: b#c":                 `{"a":"b#c"}`,
		"a: &anchor b":           ``,
		"a: !!str 1":             ``,
		"a:\n   b: 1\n  c: 2":    ``,
	} {
		m, err := frontmatter("---\n" + text + "\n---\nbody")
		if err != nil {
			if want != "" {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		got, err := encode(m)
		if err != nil || string(got) != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
}
