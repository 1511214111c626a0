package middleware

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestRedact(t *testing.T) {
	more := &Redactor{Names: []string{"PIN", ""}, Secrets: []string{"hunter2", ""}}
	tests := []struct {
		name     string
		redactor *Redactor
		in, want string
	}{
		{"nothing", nil, ``, ``},
		{"harmless", nil, `{"a":[1,2.50,null,true,"x"],"b":{}}`, `{"a":[1,2.50,null,true,"x"],"b":{}}`},
		{"names in any case", nil, `{"Authorization":"Bearer x","userTOKEN":1,"password":null,"x-api-key":"k","clientSecret":[1]}`,
			`{"Authorization":"[redacted]","userTOKEN":"[redacted]","password":"[redacted]","x-api-key":"[redacted]","clientSecret":"[redacted]"}`},
		{"whole values go", nil, `{"tokens":{"a":["deep"]},"next":1}`, `{"tokens":"[redacted]","next":1}`},
		{"deep names", nil, `{"a":[{"cookie":"c"}]}`, `{"a":[{"cookie":"[redacted]"}]}`},
		{"escaped names", nil, `{"pass\u0077ord":"x"}`, `{"password":"[redacted]"}`},
		{"user information", nil, `{"url":"https://me:pw@example.com/a?b@c"}`, `{"url":"https://[redacted]@example.com/a?b@c"}`},
		{"no user information", nil, `{"url":"https://example.com/@me"}`, `{"url":"https://example.com/@me"}`},
		{"positional strings", nil, `["me","pw",5,["in here"],{"a":"b"}]`, `["[redacted]","[redacted]",5,["in here"],{"a":"b"}]`},
		{"more names", more, `{"myPin":1234}`, `{"myPin":"[redacted]"}`},
		{"known secrets", more, `{"text":"it is hunter2!","hunter2":1}`, `{"text":"it is [redacted]!","[redacted]":1}`},
		{"one member twice", nil, `{"token":1,"token":2}`, `{"token":"[redacted]","token":"[redacted]"}`},
		{"lone surrogate", nil, `{"a":"\ud800"}`, "{\"a\":\"\ufffd\"}"},
		{"no JSON", nil, `{"password":"x`, `[not JSON]`},
		{"a scalar", nil, `"https://u@h"`, `"https://[redacted]@h"`},
	}
	for _, tt := range tests {
		r := tt.redactor
		if r == nil {
			r = new(Redactor)
		}
		if got := r.Text(jsonrpc.Raw(tt.in)); got != tt.want {
			t.Errorf("%s: Text(%s)\ngot  %s\nwant %s", tt.name, tt.in, got, tt.want)
		}
	}
}

func TestRedactStopsEarly(t *testing.T) {
	in := `{"a":[{"b":"` + strings.Repeat(`x","b":"`, 1000) + `"}]}`
	got := new(Redactor).text(jsonrpc.Raw(in), 100)
	if len(got) > 130 || !jsontext.Value(got).IsValid(jsontext.AllowDuplicateNames(true)) {
		t.Errorf("text = %d bytes, want about 100 that are JSON: %s", len(got), got)
	}
}

// TestRedactorValueCopies checks that a Value has the text of the moment when it was created,
// because the params of handlers are reused.
func TestRedactorValueCopies(t *testing.T) {
	params := jsonrpc.Raw(`{"a":1}`)
	v := new(Redactor).Value(params)
	copy(params, `{"b":2}`)
	if got := v.LogValue(); !got.Equal(slog.StringValue(`{"a":1}`)) {
		t.Errorf("LogValue = %v", got)
	}
}

func FuzzRedact(f *testing.F) {
	for _, seed := range []string{`{"token":[1],"x":"https://a:b@c"}`, `["a",{"key":null}]`, `{"a":{"b":[{}]}}`, `1`, `"\ud800"`, `{"a"`} {
		f.Add(seed, int64(1000))
		f.Add(seed, int64(3))
	}
	r := &Redactor{Secrets: []string{"hunter2"}}
	f.Fuzz(func(t *testing.T, text string, limit int64) {
		got := r.text(jsonrpc.Raw(text), max(limit, 0))
		if got == "" || got == "[not JSON]" {
			return
		}
		if !jsontext.Value(got).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Errorf("%q became %q, which is no JSON", text, got)
		}
		if strings.Contains(got, "hunter2") {
			t.Errorf("the secret is in %q", got)
		}
	})
}
