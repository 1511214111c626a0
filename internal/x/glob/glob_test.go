package glob_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/internal/x/glob"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "aa", false}, {"", "", true}, {"", "a", false},
		{"*", "", true}, {"*", "anything\n", true}, {"**", "a", true},
		{"billing.*", "billing.get", true}, {"billing.*", "billing.", true}, {"billing.*", "billing", false}, {"billing.*", "xbilling.a", false},
		{"*_admin", "user_admin", true}, {"*_admin", "user_admins", false},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"a*b*c", "abc", true}, {"a*b*c", "a-b-b-c", true}, {"a*b*c", "acb", false},
		{"*aab", "aaab", true}, {"*ab*ab", "abab", true}, {"*ab*ab", "ab", false},
		{"a|b", "a|b", true}, {"a|b", "a", false}, {"a?", "ab", false}, {"[a]", "a", false}, {"A", "a", false}, {"é*", "éa", true},
	} {
		if got := glob.Match(c.pattern, c.text); got != c.want {
			t.Errorf("Match(%q, %q) is %t", c.pattern, c.text, got)
		}
	}
	if !glob.Any([]string{"a", "b*"}, "bc") || glob.Any(nil, "") {
		t.Error("Any")
	}
	if n := testing.AllocsPerRun(10, func() { glob.Match("a*b*c", "a-b-b-c") }); n != 0 {
		t.Errorf("a match allocates %v times", n)
	}
}

// TestCoversAllTexts compares Covers with all texts of three letters and at most five characters.
func TestCoversAllTexts(t *testing.T) {
	var texts []string
	for generation := []string{""}; len(generation[0]) <= 5; {
		texts = append(texts, generation...)
		var next []string
		for _, text := range generation {
			next = append(next, text+"a", text+"b", text+"c")
		}
		generation = next
	}
	patterns := []string{"", "*", "a", "a*", "*a", "a*a", "aa", "*a*", "a*b", "ab", "a**b", "*ab*", "a*b*", "*b", "ba*"}
	for _, p := range patterns {
		for _, other := range patterns {
			want := true
			for _, text := range texts {
				if glob.Match(other, text) && !glob.Match(p, text) {
					want = false
				}
			}
			if got := glob.Covers(p, other); got != want {
				t.Errorf("Covers(%q, %q) is %t", p, other, got)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct{ pattern, want string }{
		{"a*", ""}, {"[x]", ""}, {"", "is an empty pattern"}, {strings.Repeat("a", 257), "is a pattern of more than 256 bytes"},
		{"a\nb", "contains control characters"}, {"\xff", "contains control characters"},
	} {
		got := ""
		if err := glob.Check(c.pattern); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("Check(%q) is %q, want %q", c.pattern, got, c.want)
		}
	}
	if glob.Prefix("ab*c*") != "ab" || glob.Prefix("ab") != "ab" || glob.Prefix("*") != "" {
		t.Error("Prefix")
	}
}

// FuzzMatch compares with a regular expression.
func FuzzMatch(f *testing.F) {
	f.Add("a*b", "aab")
	f.Add("*", "")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(text) { // package regexp reads only UTF-8
			_ = glob.Match(pattern, text)
			return
		}
		if len(pattern) > 100 {
			return
		}
		re := regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `$`)
		if got := glob.Match(pattern, text); got != re.MatchString(text) {
			t.Errorf("Match(%q, %q) is %t", pattern, text, got)
		}
	})
}
