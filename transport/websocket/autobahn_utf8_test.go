package websocket

import (
	"fmt"
	"strings"
)

// A sample is a family of texts of group 6. Each text is sent as one message.
type sample struct {
	group string
	texts []string
	valid func(i int) bool
}

func always(valid bool) func(int) bool { return func(int) bool { return valid } }

// kosme has the old accent, which is three bytes long.
const kosme = "κ\u1f79σμε"

// utf8Cases returns group 6.
func utf8Cases() []behaviour {
	const euro = "Hello-µ@ßöäüàá-UTF-8!!"
	surrogate := kosme + "\xed\xa0\x80edited"
	all := []behaviour{
		echoed("6.1.1", whole, frames(msg("")), msg("")),
		echoed("6.1.2", whole, parts("", "", ""), msg("")),
		echoed("6.1.3", whole, parts("", "middle frame payload", ""), msg("middle frame payload")),
		echoed("6.2.1", whole, frames(msg(euro)), msg(euro)),
		echoed("6.2.2", whole, parts(euro[:12], euro[12:]), msg(euro)),
		echoed("6.2.3", whole, fragments(euro, 1), msg(euro)),
		echoed("6.2.4", whole, fragments(kosme, 1), msg(kosme)),
		refused("6.3.1", whole, 1007, frames(msg(surrogate))),
		refused("6.3.2", whole, 1007, fragments(surrogate, 1)),

		// Fail fast: the connection ends at the first wrong byte, before the message does. In the
		// first case of each pair that byte is past U+10FFFF; in the second, its start could still
		// have become a character.
		{id: "6.4.1", send: parts(kosme, "\xf4\x90\x80\x80", "edited")[:2], want: frames(bye(1007))},
		{id: "6.4.2", send: parts(kosme+"\xf4", "\x90", "\x80\x80edited")[:2], want: frames(bye(1007))},
		{id: "6.4.3", send: frames(msg(kosme + "\xf4\x90\x80\x80edited")), cut: 15, want: frames(bye(1007))},
		{id: "6.4.4", send: frames(msg(kosme + "\xf4\x90\x80\x80edited")), cut: 13, want: frames(bye(1007))},
	}
	for _, s := range samples() {
		for i, p := range s.texts {
			id := number(s.group, i+1)
			if s.valid(i) {
				all = append(all, echoed(id, whole, frames(msg(p)), msg(p)))
			} else {
				all = append(all, refused(id, whole, 1007, frames(msg(p))))
			}
		}
	}
	return all
}

func samples() []sample {
	var prefixes []string
	boundary := map[int]bool{}
	for i := range len(kosme) {
		prefixes = append(prefixes, kosme[:i+1])
	}
	for i := range kosme {
		boundary[i-1] = true
	}
	boundary[len(kosme)-1] = true

	return []sample{
		{"6.5", []string{"hello$world", "hello¢world", "hello€world", "hello𤭢world", kosme}, always(true)},
		{"6.6", prefixes, func(i int) bool { return boundary[i] }},
		{"6.7", []string{"\x00", "\xc2\x80", "\xe0\xa0\x80", "\xf0\x90\x80\x80"}, always(true)},
		{"6.8", []string{"\xf8\x88\x80\x80\x80", "\xfc\x84\x80\x80\x80\x80"}, always(false)},
		{"6.9", []string{"\x7f", "\xdf\xbf", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"}, always(true)},
		{"6.10", []string{"\xf7\xbf\xbf\xbf", "\xfb\xbf\xbf\xbf\xbf", "\xfd\xbf\xbf\xbf\xbf\xbf"}, always(false)},
		{"6.11", []string{"\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbd", "\xf4\x8f\xbf\xbf", "\xf4\x90\x80\x80"},
			func(i int) bool { return i < 4 }},
		{"6.12", lonelyContinuations(), always(false)},
		{"6.13", lonelyStarts(), always(false)},
		{"6.14", unfinished(), always(false)},
		{"6.15", []string{strings.Join(unfinished(), "")}, always(false)},
		{"6.16", []string{"\xfe", "\xff", "\xfe\xfe\xff\xff"}, always(false)},
		{"6.17", []string{"\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xf8\x80\x80\x80\xaf", "\xfc\x80\x80\x80\x80\xaf"}, always(false)},
		{"6.18", []string{"\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xf8\x87\xbf\xbf\xbf", "\xfc\x83\xbf\xbf\xbf\xbf"}, always(false)},
		{"6.19", []string{"\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xf8\x80\x80\x80\x80", "\xfc\x80\x80\x80\x80\x80"}, always(false)},
		{"6.20", []string{"\xed\xa0\x80", "\xed\xad\xbf", "\xed\xae\x80", "\xed\xaf\xbf", "\xed\xb0\x80", "\xed\xbe\x80", "\xed\xbf\xbf"}, always(false)},
		{"6.21", pairedSurrogates(), always(false)},
		{"6.22", nonCharacters(), always(true)},
		{"6.23", []string{"\ufff9", "\ufffa", "\ufffb", "\ufffc", "\ufffd", "\ufffe", "\uffff"}, always(true)},
	}
}

func lonelyContinuations() []string {
	texts := []string{"\x80", "\xbf"}
	run := "\x80"
	for i := range 5 {
		run += string([]byte{"\xbf\x80"[i%2]})
		texts = append(texts, run)
	}
	var every []byte
	for c := 0x80; c <= 0xbf; c++ {
		every = append(every, byte(c))
	}
	return append(texts, string(every))
}

// lonelyStarts returns all first bytes of each length, each followed by a space.
func lonelyStarts() []string {
	var texts []string
	for _, span := range [][2]int{{0xc0, 0xdf}, {0xe0, 0xef}, {0xf0, 0xf7}, {0xf8, 0xfb}, {0xfc, 0xfd}} {
		var p []byte
		for c := span[0]; c <= span[1]; c++ {
			p = append(p, byte(c), ' ')
		}
		texts = append(texts, string(p))
	}
	return texts
}

// unfinished returns the first and the last character of each length without its last byte.
func unfinished() []string {
	return []string{
		"\xc0", "\xe0\x80", "\xf0\x80\x80", "\xf8\x80\x80\x80", "\xfc\x80\x80\x80\x80",
		"\xdf", "\xef\xbf", "\xf7\xbf\xbf", "\xfb\xbf\xbf\xbf", "\xfd\xbf\xbf\xbf\xbf",
	}
}

func pairedSurrogates() []string {
	var texts []string
	for _, high := range []string{"\xed\xa0\x80", "\xed\xad\xbf", "\xed\xae\x80", "\xed\xaf\xbf"} {
		for _, low := range []string{"\xed\xb0\x80", "\xed\xbf\xbf"} {
			texts = append(texts, high+low)
		}
	}
	return texts
}

// nonCharacters returns the last two code points of each plane, which are valid UTF-8.
func nonCharacters() []string {
	var texts []string
	for plane := range rune(17) {
		texts = append(texts, fmt.Sprintf("%c", plane<<16|0xFFFE), fmt.Sprintf("%c", plane<<16|0xFFFF))
	}
	return texts
}
