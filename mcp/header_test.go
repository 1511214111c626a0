package mcp_test

import (
	"context"
	"net/textproto"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

func TestHeaderValues(t *testing.T) {
	for value, wire := range map[string]string{
		"us-west1": "us-west1", "": "", "a b": "a b", "tab\there": "tab\there",
		" lead": "=?base64?IGxlYWQ=?=", "trail\t": "=?base64?dHJhaWwJ?=", "Zürich": "=?base64?WsO8cmljaA==?=",
		"line\nbreak": "=?base64?bGluZQpicmVhaw==?=", "=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=",
	} {
		if got := mcp.EncodeHeader(value); got != wire {
			t.Errorf("EncodeHeader(%q) = %q, want %q", value, got, wire)
		}
		if got, err := mcp.DecodeHeader(wire); err != nil || got != value {
			t.Errorf("DecodeHeader(%q) = %q, %v", wire, got, err)
		}
	}
	for _, bad := range []string{"=?base64?WsO8cmljaA=?=", "=?base64?!!!?=", "=?base64?/w==?="} {
		if got, err := mcp.DecodeHeader(bad); err == nil {
			t.Errorf("DecodeHeader(%q) = %q", bad, got)
		}
	}
	if got, err := mcp.DecodeHeader("  x \t"); err != nil || got != "x" {
		t.Errorf("blanks around: %q, %v", got, err)
	}
}

func FuzzHeader(f *testing.F) {
	for _, seed := range []string{"", "x", " x", "=?base64?", "=?base64?eA==?=", "é", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, _ = mcp.DecodeHeader(s) // must not panic
		valid := strings.ToValidUTF8(s, "?")
		wire := mcp.EncodeHeader(valid)
		for _, c := range []byte(wire) {
			if c != '\t' && (c < 0x20 || c > 0x7e) {
				t.Fatalf("%q is not a valid header", wire)
			}
		}
		if got, err := mcp.DecodeHeader(wire); err != nil || got != valid {
			t.Fatalf("%q came back as %q, %v", valid, got, err)
		}
	})
}

type regionIn struct {
	Region string `json:"region" mcp:"header=Region"`
	Level  int    `json:"level,omitzero" mcp:"header=Level"`
	Deep   struct {
		Dry bool `json:"dry,omitzero" mcp:"header=Dry"`
	} `json:"deep,omitzero"`
}

func TestCheckHeaders(t *testing.T) {
	s := calculator(nil)
	mcp.AddTool(s, mcp.Tool{Name: "region"}, func(_ context.Context, _ *mcp.Request, in regionIn) (string, error) { return in.Region, nil })
	base := map[string]string{mcp.HeaderProtocolVersion: "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "region", "Mcp-Param-Region": "us", "Mcp-Param-Level": "3", "Mcp-Param-Dry": "true"}
	body := `{"name":"region","arguments":{"region":"us","level":3,"deep":{"dry":true}},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`
	for _, c := range []struct {
		name, header, value string
		ok                  bool
	}{
		{"as they are", "", "", true},
		{"an encoded name", "Mcp-Name", "=?base64?cmVnaW9u?=", true},
		{"blanks", "Mcp-Method", " tools/call ", true},
		{"an equal number", "Mcp-Param-Level", "3.0", true},
		{"another version", mcp.HeaderProtocolVersion, "2025-11-25", false},
		{"no version", mcp.HeaderProtocolVersion, "-", false},
		{"another method", "Mcp-Method", "tools/list", false},
		{"another case", "Mcp-Method", "Tools/Call", false},
		{"no method", "Mcp-Method", "-", false},
		{"an encoded method", "Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?=", false}, // a proxy that reads the header would not see the method
		{"an encoded method of another name", "Mcp-Method", "=?base64?dG9vbHMvbGlzdA==?=", false},
		{"broken base64 as a method", "Mcp-Method", "=?base64?!?=", false},
		{"a method with more behind it", "Mcp-Method", "tools/call\x00", false},
		{"a method with a control character", "Mcp-Method", "tools/\x1b[2Jcall", false},
		{"two methods in one", "Mcp-Method", "tools/list, tools/call", false},
		{"an encoded version", mcp.HeaderProtocolVersion, "=?base64?MjAyNi0wNy0yOA==?=", true},
		{"a name with a line break", "Mcp-Name", "=?base64?cmVnaW9uCg==?=", false},
		{"a name that is not UTF-8", "Mcp-Name", "=?base64?/w==?=", false},
		{"no name", "Mcp-Name", "-", false},
		{"another name", "Mcp-Name", "other", false},
		{"no param", "Mcp-Param-Region", "-", false},
		{"another param", "Mcp-Param-Region", "eu", false},
		{"broken base64", "Mcp-Param-Region", "=?base64?dXM?=", false},
		{"another bool", "Mcp-Param-Dry", "TRUE", false},
	} {
		headers := textproto.MIMEHeader{}
		for name, value := range base {
			if name != c.header {
				headers.Set(name, value)
			} else if c.value != "-" {
				headers.Set(name, c.value)
			}
		}
		req := &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: "tools/call", Params: jsonrpc.Raw(body)}
		err := s.CheckHeaders(req, func(name string) []string { return headers.Values(name) })
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if e, ok := err.(*jsonrpc.Error); !c.ok && (!ok || e.Code != mcp.CodeHeaderMismatch) {
			t.Errorf("%s: %v, want -32020", c.name, err)
		}
	}
	headers := textproto.MIMEHeader{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"region"}, "Mcp-Param-Region": {"us", "us"}}
	if err := s.CheckHeaders(&jsonrpc.Request{ID: jsonrpc.IntID(1), Method: "tools/call", Params: jsonrpc.Raw(body)}, headers.Values); err == nil {
		t.Error("a duplicate header was accepted")
	}
}

// TestClientHeaders checks that a client over HTTP drops tools with invalid headers, and stores the
// headers of the others.
func TestClientHeaders(t *testing.T) {
	s := calculator(nil)
	mcp.AddTool(s, mcp.Tool{Name: "region"}, func(_ context.Context, _ *mcp.Request, in regionIn) (string, error) { return in.Region, nil })
	c := connect(t, s, mcp.ClientOptions{OverHTTP: true}, mcp.V20260728)
	for _, err := range c.Tools(t.Context()) {
		must(t, err)
	}
	body := jsonrpc.Raw(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name":"region","arguments":{"region":"Zürich","level":null,"deep":{"dry":false}}}`)
	want := []mcp.HeaderField{{Name: mcp.HeaderProtocolVersion, Value: "2026-07-28"}, {Name: "Mcp-Method", Value: "tools/call"}, {Name: "Mcp-Name", Value: "region"},
		{Name: "Mcp-Param-Region", Value: "=?base64?WsO8cmljaA==?="}, {Name: "Mcp-Param-Dry", Value: "false"}}
	got := c.Headers("tools/call", body)
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got[i], want[i])
		}
	}
	if got := c.Headers("notifications/cancelled", jsonrpc.Raw(`{"requestId":1}`)); len(got) != 1 || got[0] != want[0] {
		t.Errorf("a notification has %v", got)
	}
}

func FuzzHeaderParams(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}`)
	f.Add(`{"x-mcp-header":1}`)
	f.Add(`{"items":{"x-mcp-header":"A"},"allOf":[{"x-mcp-header":"B"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := jsonrpc.ParseRaw([]byte(text))
		if err != nil {
			return
		}
		params, err := mcp.HeaderParams(raw)
		if err == nil {
			for _, p := range params {
				if p.Header == "" || len(p.Path) == 0 {
					t.Fatalf("%s gave %+v", text, p)
				}
			}
		}
	})
}
