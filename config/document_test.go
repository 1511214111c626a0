package config_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/da1ed7bb/parley/config"
)

func ExampleParseDocument() {
	d, err := config.ParseDocument([]byte("name: demo\ncalls:\n  - method: sum\n    params: [1, 2]\n"))
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", d.JSON)
	fmt.Println(d.Position("/calls/0/params"))
	// Output:
	// {"name":"demo","calls":[{"method":"sum","params":[1,2]}]}
	// 4 5
}

func TestParseDocument(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a: 9007199254740993\nb: 1.50\nc: -0x10\nd: 1_000\ne: 0o17\ng: 2026-01-02\n", `{"a":9007199254740993,"b":1.50,"c":-16,"d":1000,"e":15,"g":"2026-01-02"}`},
		{"a: true\nb: null\nc: ~\nd:\ne: ''\n", `{"a":true,"b":null,"c":null,"d":null,"e":""}`},
		{"a: |\n  one\n  two\nb: \"\\u00e9\\n\"\n", `{"a":"one\ntwo\n","b":"é\n"}`},
		{"- [1, {x: y}]\n- z\n", `[[1,{"x":"y"}],"z"]`},
		{"", "null"}, {"1: x\ntrue: y\n", `{"1":"x","true":"y"}`},
	} {
		d, err := config.ParseDocument([]byte(c.text))
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		} else if string(d.JSON) != c.want {
			t.Errorf("%q is %s, want %s", c.text, d.JSON, c.want)
		}
	}
	for _, text := range []string{"a: [", "a: &x 1\nb: *x\n", "a: 1\na: 2\n"} {
		_, err := config.ParseDocument([]byte(text))
		if p, ok := errors.AsType[*config.Problem](err); !ok || p.Line == 0 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPositions(t *testing.T) {
	d, err := config.ParseDocument([]byte("# a comment\nname: x\ncalls:\n  - method: a\n    params: {b/c: 1}\n  -\n    method: b\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pointer      string
		line, column int
	}{{"", 2, 1}, {"/name", 2, 1}, {"/calls/0", 4, 5}, {"/calls/0/params/b~1c", 5, 14}, {"/calls/1/method", 7, 5}, {"/calls/1/nothing", 7, 5}, {"/calls/9/x", 3, 1}} {
		if line, column := d.Position(c.pointer); line != c.line || column != c.column {
			t.Errorf("%q is at %d:%d, want %d:%d", c.pointer, line, column, c.line, c.column)
		}
	}
}
