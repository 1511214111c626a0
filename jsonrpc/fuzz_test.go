package jsonrpc_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// seeds adds the files of testdata/payloads and the texts of this package's test tables.
func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/payloads/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds in testdata/payloads: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, tt := range specExamples {
		f.Add([]byte(tt.in))
	}
	for _, tt := range grammar {
		f.Add([]byte(tt.text))
	}
}

// strictly is an independent strict reader: RFC 8259 in valid UTF-8. Escaped lone surrogates are
// valid grammar; they are removed first because that reader rejects them.
func strictly(text []byte) bool {
	v := jsontext.Value(withoutSurrogates(text))
	return v.IsValid(jsontext.AllowDuplicateNames(true))
}

// withoutSurrogates replaces every escaped surrogate with another escape of the same length.
func withoutSurrogates(text []byte) []byte {
	out := bytes.Clone(text)
	for i := 0; i+6 <= len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		if out[i+1] == 'u' && (out[i+2]|0x20) == 'd' && strings.IndexByte("89abcdefABCDEF", out[i+3]) >= 0 {
			out[i+2], out[i+3] = '0', '0'
		}
		i++ // an escaped backslash does not start an escape
	}
	return out
}

// FuzzParse compares the grammar with an independent reader, and checks that values are stored
// unchanged.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		raw, err := ParseRaw(text)
		if err, ok := err.(*SyntaxError); ok && err.Limit {
			return
		}
		if want := strictly(text); (err == nil) != want {
			t.Fatalf("%q: %v, the reference says valid=%v", text, err, want)
		}
		if err == nil && !bytes.Equal(bytes.Trim(text, " \t\r\n"), raw) {
			t.Fatalf("%q became %q", text, raw)
		}
	})
}

// FuzzAnswer checks that the response to every payload is valid JSON, with as many responses as the
// payload has calls, and is the same if the payload is sent over a Conn.
func FuzzAnswer(f *testing.F) {
	seeds(f)
	m := specMux()
	f.Fuzz(func(t *testing.T, payload []byte) {
		var answers [3][]byte
		for i, mode := range []Mode{0, Quick, Unordered} {
			a := &Answerer{Handler: m, Mode: func(string) Mode { return mode }}
			answers[i], _ = a.Answer(t.Context(), nil, payload, &Exchange{})
		}
		out := answers[0]
		if !bytes.Equal(out, answers[1]) || !bytes.Equal(out, answers[2]) {
			t.Fatalf("%q is answered\n%s\n%s\n%s", payload, answers[0], answers[1], answers[2])
		}
		if len(out) > 0 && !strictly(out) {
			t.Fatalf("%q is answered %q", payload, out)
		}
		calls, responses := 0, 0
		whole := Scan(payload, func(m *Message) {
			if m.Bad != nil && m.Request || m.Bad == nil && m.Request && !m.ID.IsZero() {
				calls++
			}
		})
		if whole != nil {
			calls = 1
		}
		if len(out) > 0 {
			if e := Scan(out, func(m *Message) {
				if m.Request || m.Bad != nil {
					t.Fatalf("%q is answered with no response: %q", payload, out)
				}
				responses++
			}); e != nil {
				t.Fatalf("%q is answered %q: %v", payload, out, e)
			}
		}
		if calls != responses {
			t.Fatalf("%q has %d calls and %d answers: %s", payload, calls, responses, out)
		}
	})
}

// FuzzID checks that an id is written as it was read.
func FuzzID(f *testing.F) {
	for _, s := range []string{`1`, `-1`, `0`, `-0`, `1.0`, `1e5`, `"1"`, `""`, `null`, `9007199254740993`, `999999999999999999`,
		`1000000000000000000`, `18446744073709551616`, `"\u0061"`, `"é"`, `"\ud800"`, ` 1`, `01`, `true`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		id, err := ParseID(text)
		if err != nil {
			return
		}
		if got := id.Append(nil); !bytes.Equal(got, text) || id.String() != string(text) {
			t.Fatalf("%q became %q", text, got)
		}
		if again, err := ParseID(id.Append(nil)); err != nil || again != id {
			t.Fatalf("%q: %v, %v", text, again, err)
		}
		if n, ok := id.Int(); ok && IntID(n) != id {
			t.Fatalf("%q is the integer %d, whose id is %q", text, n, IntID(n))
		}
	})
}

// FuzzResult checks that a plain struct is written as the codec writes it.
func FuzzResult(f *testing.F) {
	f.Add(int64(0), false, "", "")
	f.Add(int64(-1<<63), true, "plain", "quote \" slash \\ / < > & \u2028 é 😀 \x00 \x7f")
	f.Add(int64(1), true, "\xff", "plain")
	f.Add(int64(2), true, "tab\t", "é")
	f.Fuzz(func(t *testing.T, n int64, on bool, a, b string) {
		v := struct {
			N  int64  `json:"n"`
			I  int    `json:"größe"`
			On bool   `json:"on"`
			A  string `json:"a"`
			B  string `json:"b"`
		}{n, int(n), on, a, b}
		want, wantErr := json.Marshal(v)
		got, err := AppendResult(nil, Version2, IntID(1), v)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%+v: %v, the codec says %v", v, err, wantErr)
		}
		if whole := `{"jsonrpc":"2.0","result":` + string(want) + `,"id":1}`; err == nil && string(got) != whole {
			t.Fatalf("got  %s\nwant %s", got, whole)
		}
	})
}

// FuzzParams checks that typed params never panic and that invalid params get an "Invalid params"
// error.
func FuzzParams(f *testing.F) {
	for _, s := range []string{`[42,23]`, `{"minuend":42,"subtrahend":23}`, `{"a":1}`, `[]`, `{}`, `null`, `{"text":"x","count":1,"nested":{"a":1}}`} {
		f.Add([]byte(s))
	}
	m := new(Mux)
	m.Add("numbers", shown[twoNumbers]())
	m.Add("kinds", shown[allKinds]())
	m.Add("codec", shown[formatted]())
	m.Add("list", shown[[]string]())
	m.Add("single", shown[bool]())
	a := &Answerer{Handler: m}
	f.Fuzz(func(t *testing.T, params []byte) {
		if _, err := ParseRaw(params); err != nil {
			return
		}
		for method := range m.All() {
			payload := append(append([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`), params...), '}')
			_, e := a.Answer(t.Context(), nil, payload, &Exchange{})
			if e != nil && e.Code != CodeInvalidParams && e.Code != CodeInvalidRequest {
				t.Fatalf("%s: %v", payload, e)
			}
		}
	})
}
