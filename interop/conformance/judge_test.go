package conformance

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	seed      = flag.Uint64("seed", 1, "where the mutations begin")
	mutations = flag.Int("mutations", 20_000, "how many texts are tried on each carrier")
)

// TestMutations sends random mutations of the texts in the tables, and compares the responses with
// those of judge.
func TestMutations(t *testing.T) {
	var seeds []string
	for _, p := range [][]payload{grammarRules(), envelopeRules(), idRules(), paramsRules(), batchRules()} {
		for _, p := range p {
			if len(p.sends) < 400 && !strings.ContainsAny(p.sends, "\n\v") && !containsAny(p.sends, "sleep", "ask", "countdown", "fail", "panic") {
				seeds = append(seeds, p.sends)
			}
		}
	}
	if len(seeds) < 1000 {
		t.Fatalf("%d seeds", len(seeds))
	}
	d, err := Start(context.WithoutCancel(t.Context()), program(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("-seed %d", *seed)
	for _, carrier := range []string{TCP, Header, WebSocket} {
		random := rand.New(rand.NewPCG(*seed, 7))
		wire, err := d.dial(carrier)
		if err != nil {
			t.Fatal(err)
		}
		defer wire.Close()
		counts := make(map[string]int)
		for range *mutations {
			text := mutate(random, seeds)
			if random.IntN(2) == 0 {
				text = invent(random)
			}
			v := judge(text)
			if carrier == WebSocket && !utf8.Valid(text) || v.blank {
				continue // closes some transports, or has no response: the tables cover it
			}
			if err := wire.Send(text); err != nil {
				t.Fatalf("%s after %q: %v", carrier, text, err)
			}
			counts[v.kind()]++
			if len(v.answers) > 0 {
				message, err := wire.Recv()
				if err != nil {
					t.Fatalf("%s: %q, want %v: %v", carrier, text, v.answers, err)
				}
				if err := v.check(message); err != nil {
					t.Fatalf("%s: %q\n got  %s\n want %v: %v", carrier, text, short(message), v.answers, err)
				}
			}
			if err := d.probe(wire); err != nil {
				t.Fatalf("%s: after %q, want %v: %v", carrier, text, v.answers, err)
			}
		}
		t.Logf("%s: %v", carrier, counts)
		for _, kind := range []string{"nothing", "an answer", "a batch", "-32600", "-32700"} {
			if counts[kind] < *mutations/1000 {
				t.Errorf("%s: only %d of %d texts had %s as their answer", carrier, counts[kind], *mutations, kind)
			}
		}
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
}

func containsAny(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// pieces are inserted into texts.
var pieces = []string{`{`, `}`, `[`, `]`, `,`, `:`, `"`, `\`, `\u0061`, `\uD800`, `\uDC00`, `null`, `true`, `0`, `-`, `1.0`, `e9`, ` `, "\t", "\x00", "\x1f", "é", "\xff", "\xed\xa0\x80", "\ufeff",
	`"id":`, `"method":`, `"jsonrpc":"2.0",`, `"result":1,`, `"error":null,`, `"params":`, `"ID"`, `"x":1,`, `"\u0069d":2,`, `""`, `{}`, `[]`, `"2.0"`, `"update"`}

// mutate makes small changes to one text, or combines two.
func mutate(random *rand.Rand, seeds []string) []byte {
	text := []byte(seeds[random.IntN(len(seeds))])
	for range 1 + random.IntN(3) {
		at := random.IntN(len(text) + 1)
		end := min(len(text), at+1+random.IntN(4))
		switch random.IntN(7) {
		case 0: // remove a few bytes
			text = append(text[:at:at], text[end:]...)
		case 1: // insert a piece
			text = bytes.Join([][]byte{text[:at], text[at:]}, []byte(pieces[random.IntN(len(pieces))]))
		case 2: // change a byte
			if at < len(text) {
				text[at] = byte(random.IntN(256))
			}
		case 3: // duplicate a section
			text = bytes.Join([][]byte{text[:end], text[at:]}, nil)
		case 4: // put two texts in an array
			text = bytes.Join([][]byte{[]byte("["), text, []byte(","), []byte(seeds[random.IntN(len(seeds))]), []byte("]")}, nil)
		case 5: // replace a few bytes with a piece
			text = bytes.Join([][]byte{text[:at], text[end:]}, []byte(pieces[random.IntN(len(pieces))]))
		case 6: // swap two bytes
			if at+1 < len(text) {
				text[at], text[at+1] = text[at+1], text[at]
			}
		}
	}
	// a newline ends a message on line transports
	return bytes.ReplaceAll(text, []byte("\n"), []byte(" "))
}

// The members from which invent builds messages: names in several spellings, values of each kind.
// Duplicates increase the frequency.
var (
	inventedNames = []string{`"jsonrpc"`, `"jsonrpc"`, `"jsonrpc"`, `"id"`, `"id"`, `"id"`, `"method"`, `"method"`, `"method"`, `"params"`, `"params"`, `"\u006dethod"`, `"i\u0064"`, `"result"`, `"error"`, `"x"`, `"ID"`, `"paramſ"`, `"id\u0000"`, `""`, `"\ud83d\ude00"`, `"a\ud800"`}
	usual         = map[string][]string{
		`"jsonrpc"`: {`"2.0"`, `"2.0"`, `"2.0"`, `"2.0"`, `"2.0"`, `"\u0032.0"`, `"1.0"`, `2.0`},
		`"id"`:      {`1`, `2`, `"a"`, `"\u0061"`, `null`, `1.50`, `-0`, `12345678901234567890123`, `"\ud83d\ude00"`, `"\udc00"`, `{}`, `true`},
		`"method"`:  {`"get_data"`, `"update"`, `"echo"`, `"sum"`, `"add"`, `"\u0065cho"`, `"none"`, `"rpc.x"`, `""`, `1`, `"echo\ud800"`},
		`"params"`:  {`[]`, `{}`, `[1,2]`, `{"a":1,"b":2}`, `null`, `[[{}]]`, `["\ud800"]`, `{"a":1,"a":2}`, `1`, `"x"`},
	}
	unusual = []string{`null`, `true`, `0`, `-1e5`, `""`, `"2.0"`, `[]`, `{}`, `[null]`, `{"jsonrpc":"2.0","id":1,"method":"x"}`, `"\udfff"`}
	blanks  = []string{``, ``, ``, ``, ` `, "\t", "\r", `  `}
)

// invent returns a message, or a batch of messages, that is always JSON and rarely valid.
func invent(random *rand.Rand) []byte {
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	var b strings.Builder
	one := func() {
		if random.IntN(12) == 0 {
			b.WriteString(pick(unusual))
			return
		}
		names := []string{`"jsonrpc"`, `"id"`, `"method"`, `"params"`}
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if random.IntN(2) == 0 {
			at := random.IntN(len(names))
			names = append(names[:at], names[at+1:]...)
		}
		for range random.IntN(3) {
			names = append(names, pick(inventedNames))
		}
		b.WriteString("{" + pick(blanks))
		for i, name := range names {
			if i > 0 {
				b.WriteString(pick(blanks) + "," + pick(blanks))
			}
			values := usual[name]
			if values == nil || random.IntN(15) == 0 {
				values = unusual
			}
			b.WriteString(name + pick(blanks) + ":" + pick(blanks) + pick(values))
		}
		b.WriteString(pick(blanks) + "}")
	}
	if random.IntN(3) > 0 {
		one()
		return []byte(b.String())
	}
	b.WriteString("[" + pick(blanks))
	for i := range random.IntN(5) {
		if i > 0 {
			b.WriteString(pick(blanks) + "," + pick(blanks))
		}
		one()
	}
	b.WriteString(pick(blanks) + "]")
	return []byte(b.String())
}

func (v verdict) kind() string {
	switch {
	case len(v.answers) == 0:
		return "nothing"
	case v.batch:
		return "a batch"
	case v.answers[0].code != "":
		return v.answers[0].code
	}
	return "an answer"
}
