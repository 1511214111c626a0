package demo

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

func number(t *testing.T, text string) *Number {
	t.Helper()
	var n Number
	if err := n.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatalf("UnmarshalJSON(%s) = %v", text, err)
	}
	return &n
}

func TestNumberReadsAndWrites(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"0", "0"},
		{"-0", "0"},
		{"-0.0", "0"},
		{"0e9", "0"},
		{"42", "42"},
		{"-19", "-19"},
		{"42.0", "42"},
		{"1e2", "100"},
		{"1E+2", "100"},
		{"1.50", "1.5"},
		{"15e-1", "1.5"},
		{"-0.05", "-0.05"},
		{"100e-2", "1"},
		{"9007199254740993", "9007199254740993"},
		{"123456789012345678901234567890", "123456789012345678901234567890"},
		{"1e-3", "0.001"},
	} {
		if got := number(t, c.in).String(); got != c.want {
			t.Errorf("%s is written %s, want %s", c.in, got, c.want)
		}
	}
}

func TestNumberRefuses(t *testing.T) {
	for _, in := range []string{
		`"42"`, `null`, `true`, `[1]`, `{}`, ``,
		`1e999999999`, `1e-999999999`, `1e99999999999999999999`, `1e1001`, `1e-1001`, strings.Repeat("9", maxDigits+1),
	} {
		var n Number
		if err := n.UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("UnmarshalJSON(%.40s) = nil, want an error", in)
		}
	}
}

func TestNumberAddsExactly(t *testing.T) {
	for _, c := range []struct{ a, b, sum, difference string }{
		{"42", "23", "65", "19"},
		{"0.1", "0.2", "0.3", "-0.1"},
		{"9007199254740993", "1", "9007199254740994", "9007199254740992"},
		{"1e300", "1", "1" + strings.Repeat("0", 299) + "1", strings.Repeat("9", 300)},
		{"2.5", "0.5", "3", "2"},
		{"-1", "-0.75", "-1.75", "-0.25"},
	} {
		a, b := number(t, c.a), number(t, c.b)
		if got := a.Add(b).String(); got != c.sum {
			t.Errorf("%s + %s = %s, want %s", c.a, c.b, got, c.sum)
		}
		if got := a.Sub(b).String(); got != c.difference {
			t.Errorf("%s - %s = %s, want %s", c.a, c.b, got, c.difference)
		}
		if a.String() != number(t, c.a).String() || b.String() != number(t, c.b).String() {
			t.Errorf("%s and %s changed: %s, %s", c.a, c.b, a, b)
		}
	}
}

// FuzzNumber compares Number with the rational numbers of the standard library.
func FuzzNumber(f *testing.F) {
	for _, seed := range []string{"0", "-0", "1e2", "1.50", "-12.034e-5", "9007199254740993", `"1"`, "null", "1e999999999"} {
		f.Add(seed, "1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		var x, y Number
		for _, in := range []struct {
			text string
			n    *Number
		}{{a, &x}, {b, &y}} {
			if !json.Valid([]byte(in.text)) || in.n.UnmarshalJSON([]byte(in.text)) != nil {
				return
			}
		}
		sum, ok := new(big.Rat).SetString(x.Add(&y).String())
		if !ok {
			t.Fatalf("%s + %s is written %q, which is not a number", a, b, x.Add(&y))
		}
		ra, _ := new(big.Rat).SetString(a)
		rb, _ := new(big.Rat).SetString(b)
		if want := new(big.Rat).Add(ra, rb); sum.Cmp(want) != 0 {
			t.Errorf("%s + %s = %s, want %s", a, b, x.Add(&y), want.FloatString(40))
		}
	})
}
