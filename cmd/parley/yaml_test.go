package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// yamlTexts are JSON values that YAML could show as something else.
var yamlTexts = []string{
	`19`, `null`, `"x"`, `""`, `{}`, `[]`, `[[]]`, `[[1,[2]],{"a":[{}]}]`, `-0.5`, `1.5e300`, `[1e2, 1E-2, 12345678901234567890]`,
	`{"a":1,"b":{"c":[1,{"d":2,"e":[]},[3,[4]]]},"f":"g"}`,
	`["true","null","~","no","On","y","1","1.5","1e3","0x10","0o7","1_000","2026-01-01",".inf","-","- a","a: b","a #b","# c","&a","*a","!a","|",">","%a","@a","?","? a",":","a:","[a]","{a}","'a'","` + "`" + `a","---","...","a\nb","a\r\nb","\ta"," a","a ","a\\b","\"a\"","\u0000","\u001b[31m","é","日本","\ud83d\ude00","\u2028","\u0085","\ufeff","\udb40\udc41","=","<<","a/b","/rpc","_x"]`,
	`{"true":1,"1":2,"":3,"a b":4,"a: b":5,"é":6,"x\ny":7,"<<":8,"y":9}`,
	strings.Repeat("[", 150) + strings.Repeat("]", 150),
	strings.Repeat(`{"a":[`, 80) + "1" + strings.Repeat("]}", 80),
}

// TestYAML checks that a reader of YAML gets the value that was written, and that nothing in it
// can control a terminal.
func TestYAML(t *testing.T) {
	for _, text := range yamlTexts {
		var out bytes.Buffer
		if err := writeYAML(&out, jsonrpc.Raw(text), palette{}); err != nil {
			t.Fatal(err)
		}
		if harmless.Has(strings.ReplaceAll(out.String(), "\n", " ")) {
			t.Errorf("%q has hidden characters", &out)
		}
		var want, got any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		var read any
		err := yaml.Unmarshal(out.Bytes(), &read)
		var asJSON []byte
		if err == nil {
			asJSON, err = json.Marshal(read)
		}
		if err == nil {
			err = json.Unmarshal(asJSON, &got)
		}
		if err != nil {
			t.Errorf("%v in\n%s", err, &out)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is\n%s\nwhich is read as %s", text, &out, asJSON)
		}
	}
}

// TestYAMLLooks compares the layout of a value.
func TestYAMLLooks(t *testing.T) {
	var out bytes.Buffer
	if err := writeYAML(&out, jsonrpc.Raw(`{"name":"a b","tags":["x","yes"],"next":[{"id":1,"of":{"k":null}},[1,2]],"none":{},"far":1e9}`), palette{}); err != nil {
		t.Fatal(err)
	}
	want := `name: a b
tags:
  - x
  - "yes"
next:
  - id: 1
    of:
      k: null
  - - 1
    - 2
none: {}
far: 1.0e+9
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
