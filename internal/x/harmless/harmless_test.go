package harmless

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestHiddenIsTheTable compares the table with the result of Unicode's own tables, rune by rune.
func TestHiddenIsTheTable(t *testing.T) {
	visibleSigns := func(r rune) bool { // format characters that are drawn
		return r >= 0x600 && r <= 0x605 || r == 0x6dd || r == 0x890 || r == 0x891 || r == 0x8e2 || r == 0x110bd || r == 0x110cd
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r < 0xe000 {
			continue
		}
		want := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Other_Default_Ignorable_Code_Point,
			unicode.Variation_Selector, unicode.Noncharacter_Code_Point) && !visibleSigns(r)
		if got := Hidden(r); got != want {
			t.Errorf("U+%04X: hidden %v, want %v", r, got, want)
		}
	}
}

func TestForms(t *testing.T) {
	for _, c := range []struct{ in, text, line, json string }{
		{"plain", "plain", "plain", "plain"},
		{"ä 漢 🙂 ½", "ä 漢 🙂 ½", "ä 漢 🙂 ½", "ä 漢 🙂 ½"},
		{"a\nb\tc", "a\nb\tc", `a\nb\tc`, "a\nb\tc"},
		{"a\r\nb", "a\nb", `a\u000d\nb`, "a\n\nb"},
		{"a\rb", `a\u000db`, `a\u000db`, "a\nb"},
		{"\x1b]0;x\a", `\u001b]0;x\u0007`, `\u001b]0;x\u0007`, `\u001b]0;x\u0007`},
		{"\u009b31m", `\u009b31m`, `\u009b31m`, `\u009b31m`},
		{"\x9b31m", `\x9b31m`, `\x9b31m`, `\ufffd31m`},
		{"\x7f\b", `\u007f\u0008`, `\u007f\u0008`, `\u007f\u0008`},
		{"\u202eabc\u2066", `\u202eabc\u2066`, `\u202eabc\u2066`, `\u202eabc\u2066`},
		{"a\u200bb\u2060\ufeff\u00ad", `a\u200bb\u2060\ufeff\u00ad`, `a\u200bb\u2060\ufeff\u00ad`, `a\u200bb\u2060\ufeff\u00ad`},
		{"\u2028\u2029", `\u2028\u2029`, `\u2028\u2029`, `\u2028\u2029`},
		{"\U000e0041\U0010fffd", `\u{e0041}\u{10fffd}`, `\u{e0041}\u{10fffd}`, `\udb40\udc41\udbff\udffd`},
		{"⚠\ufe0f a\ufe0f ⚠\ufe0f\ufe0f", "⚠\ufe0f a\\ufe0f ⚠\ufe0f\\ufe0f", "⚠\ufe0f a\\ufe0f ⚠\ufe0f\\ufe0f", "⚠\ufe0f a\\ufe0f ⚠\ufe0f\\ufe0f"},
		{"👩\u200d💻", `👩\u200d💻`, `👩\u200d💻`, `👩\u200d💻`},
		{"\xff\xc3", `\xff\xc3`, `\xff\xc3`, `\ufffd\ufffd`},
		{"e" + strings.Repeat("\u0301", 10), "e" + strings.Repeat("\u0301", 8) + `\u0301\u0301`,
			"e" + strings.Repeat("\u0301", 8) + `\u0301\u0301`, "e" + strings.Repeat("\u0301", 8) + `\u0301\u0301`},
	} {
		if got := Text(c.in); got != c.text {
			t.Errorf("Text(%q) = %q, want %q", c.in, got, c.text)
		}
		if got := Line(c.in); got != c.line {
			t.Errorf("Line(%q) = %q, want %q", c.in, got, c.line)
		}
		if got := string(AppendJSON(nil, []byte(c.in))); got != c.json {
			t.Errorf("AppendJSON(%q) = %q, want %q", c.in, got, c.json)
		}
		if Has(c.in) != (Line(c.in) != c.in) {
			t.Errorf("Has(%q) = %v", c.in, Has(c.in))
		}
	}
}

func TestCut(t *testing.T) {
	huge := strings.Repeat("\u202e", 4<<20)
	if allocated := testing.AllocsPerRun(10, func() { Cut(huge, 40) }); allocated > 10 {
		t.Errorf("cutting allocates %v times", allocated)
	}
	for _, c := range []struct {
		in   string
		most int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"漢字漢字", 3, "漢字…"}, {"a\nb", 4, `a\nb`}, {"a\nb", 3, `a\…`}, {huge, 7, `\u202e…`},
	} {
		if got := Cut(c.in, c.most); got != c.want {
			t.Errorf("Cut(%.20q, %d) = %q, want %q", c.in, c.most, got, c.want)
		}
	}
}

func TestBlock(t *testing.T) {
	if got, want := Block("no\nparley: ok\n\nSend this? [Y/n] \n"), "no\n│ parley: ok\n│ \n│ Send this? [Y/n] "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWriterEscapesWhateverTheWrites checks that the output does not depend on how the text is
// split, and contains nothing hidden.
func TestWriterEscapesWhateverTheWrites(t *testing.T) {
	own := func(p []byte) int {
		if bytes.HasPrefix(p, []byte("\x1b[0m")) {
			return 4
		}
		return 0
	}
	const text = "a\x1b[0mb\x1b[1m漢\u009b\U000e0041\xe2\x80 ⚠ 🙂\xf0\x9f"
	want := "a\x1b[0mb" + `\u001b[1m漢\u009b\u{e0041}\xe2\x80 ⚠ 🙂\xf0\x9f`
	for size := 1; size < len(text)+1; size++ {
		var out bytes.Buffer
		w := NewWriter(&out, own)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if rest[0] == 0x1b && len(rest) > 4 {
				n = max(n, 4) // a control sequence is written at once
			}
			if i := strings.IndexByte(rest[1:n], 0x1b); i >= 0 {
				n = i + 1
			}
			if got, err := w.Write([]byte(rest[:n])); got != n || err != nil {
				t.Fatalf("%d, %v", got, err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil || out.String() != want {
			t.Errorf("in pieces of %d: %q, want %q, %v", size, out.String(), want, err)
		}
	}
}

func TestWriterPassesErrors(t *testing.T) {
	w := NewWriter(failing{}, nil)
	if n, err := w.Write([]byte("x")); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, fmt.Errorf("gone") }

// FuzzForms checks that the output contains nothing hidden, that a second pass changes nothing, and
// that JSON has the same value.
func FuzzForms(f *testing.F) {
	for _, s := range []string{"", "a\x1b[2Jb", "\u202e", "\xff", "⚠\ufe0f", "\U000e0041", "e\u0301\u0301", "\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, form := range map[string]func(string) string{"Text": Text, "Line": Line} {
			out := form(s)
			if form(out) != out {
				t.Errorf("%s(%q) = %q changes again: %q", name, s, out, form(out))
			}
			var w reader
			for i, r := range out {
				if _, size := utf8.DecodeRuneInString(out[i:]); w.hides(r, size) && (name == "Line" || r != '\n' && r != '\t') {
					t.Errorf("%s(%q) = %q holds U+%04X", name, s, out, r)
				}
			}
		}
		if n := utf8.RuneCountInString(Cut(s, 5)); n > 5 {
			t.Errorf("Cut(%q, 5) has %d letters", s, n)
		}
		quoted, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if err := json.Unmarshal(quoted, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(AppendJSON(nil, quoted), &after); err != nil || before != after {
			t.Errorf("%q became %q, %v", before, after, err)
		}
	})
}

func BenchmarkAppendText(b *testing.B) {
	for name, text := range map[string]string{"ascii": strings.Repeat("plain text, a line of it\n", 4000), "chinese": strings.Repeat("漢字", 16000)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var dst []byte
			for b.Loop() {
				dst = AppendText(dst[:0], []byte(text))
			}
		})
	}
}

// TestShorten checks that a text is cut between characters, at the latest after the given bytes.
func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aéé", 4, "aé…"}, {"aéé", 2, "a…"}, {"日本", 2, "…"}, {"\x1b[m", 9, "\x1b[m"}} {
		if got := Shorten(c.text, c.most); got != c.want {
			t.Errorf("%q to %d bytes is %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
