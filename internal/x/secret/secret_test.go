package secret_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/race"
	"github.com/da1ed7bb/parley/internal/x/secret"
)

func TestName(t *testing.T) {
	for _, name := range strings.Fields(`authorization Authorization Proxy-Authorization x-authorization cookie Cookie Set-Cookie set-cookie2 cookies password PASSWORD db_password
		passwordHash user.password passwd passphrase sshPassphrase passcode pwd dbPwd secret client_secret clientSecret secretKey X-Secret-Key aws_secret_access_key
		AWS_SESSION_TOKEN credentials X-Amz-Credential token Token github_token GITHUB_TOKEN X-Auth-Token Private-Token X-GitHub-Token X-Vault-Token X-Amz-Security-Token
		access_token refreshToken id-token registration_access_token tokens api_key apikey APIKEY X-Api-Key x-api-key-v2 apiKeyValue X-Auth-Key accessKey aws_access_key_id
		privateKey private_key_pem ssh_key encryption-key Ocp-Apim-Subscription-Key storage_key session_key bearer jwt x-jwt code_verifier client_assertion Mcp-Session-Id auth
		authorization_server_client_secret token_endpoint_secret access_control_token hotkey_secret monkey_password keyboard_token DB_PASS smtp_pass basic_auth
		ｐａｓｓｗｏｒｄ ſecret` + " pass\u200bword pa\u00adssword to\u212aen") {
		if !secret.Name(name) {
			t.Errorf("%s is no secret", name)
		}
	}
	for _, name := range strings.Fields(`progressToken nextToken next_page_token pageToken maxTokens tokenType token_type token_endpoint token_endpoint_auth_methods_supported
		authorization_endpoint authorization_servers authorizationUrl tokenUrl key keys keyword keywords publicKey primary_key idempotencyKey Idempotency-Key cacheKey
		Sec-WebSocket-Key keyboard monkey hotkeys tokenCount Access-Control-Allow-Credentials apiKeySecurityScheme method params id jsonrpc sessionId author authority
		compass passed passenger bypass`) {
		if secret.Name(name) {
			t.Errorf("%s is a secret", name)
		}
	}
	for name, want := range map[string]bool{"key": true, "sig": true, "X-Amz-Signature": true, "sessionId": true, "api_key": true, "page": false, "q": false} {
		if secret.Query(name) != want {
			t.Errorf("the query parameter %s is a secret: %v", name, !want)
		}
	}
	if !secret.Header("X-Session-Id") || secret.Header("Mcp-Method") || secret.Header("Content-Type") {
		t.Error("headers")
	}
}

var messages = []struct{ in, want string }{
	{`{"password":"CANARY","n":1}`, `{"password":"[redacted]","n":1}`},
	{`{"password" : "CANARY"}`, `{"password" : "[redacted]"}`},
	{"{\"password\"\t:\"CANARY\"}", "{\"password\"\t:\"[redacted]\"}"},
	{"{\"password\"\r\n:\n\"CANARY\"}", "{\"password\"\r\n:\n\"[redacted]\"}"},
	{`{"pass\u0077ord":"CANARY"}`, `{"pass\u0077ord":"[redacted]"}`},
	{`{"\u0070\u0061\u0073\u0073word":"CANARY"}`, `{"\u0070\u0061\u0073\u0073word":"[redacted]"}`},
	{`{"a":[{"api_key":"CANARY"},{"API-Key":7}]}`, `{"a":[{"api_key":"[redacted]"},{"API-Key":"[redacted]"}]}`},
	{`{"Authorization":["Bearer CANARY"]}`, `{"Authorization":["[redacted]"]}`},
	{`{"password":{"value":"CANARY","ok":true,"none":null,"n":-1.5e3,"deep":[["CANARY"],{"x":"CANARY"}]},"after":"x"}`,
		`{"password":{"value":"[redacted]","ok":true,"none":null,"n":"[redacted]","deep":[["[redacted]"],{"x":"[redacted]"}]},"after":"x"}`},
	{`{"github_token":"CANARY","aws_secret_access_key":"CANARY","passphrase":"CANARY"}`, `{"github_token":"[redacted]","aws_secret_access_key":"[redacted]","passphrase":"[redacted]"}`},
	{`{"progressToken":"p7","nextToken":1,"key":"a","maxTokens":100}`, `{"progressToken":"p7","nextToken":1,"key":"a","maxTokens":100}`},
	{`{"usage":{"inputTokens":12,"tokens":{"in":1}},"token":123456}`, `{"usage":{"inputTokens":12,"tokens":{"in":1}},"token":"[redacted]"}`},
	{`{"password":null,"token":true}`, `{"password":null,"token":true}`},
	{`{"password":"half CANARY`, `{"password":"[redacted]"`},
	{`{"text":"{\"password\":CANARY:1`, `{"text":"{\"password\":[redacted]`},
	{`{"password":["CANARY","CANARY`, `{"password":["[redacted]","[redacted]"`},
	{`{"x":@,"password":"CANARY"}`, `{"x":@,"password":"[redacted]"}`},
	{`{"a":1}{"password":"CANARY"}`, `{"a":1}{"password":"[redacted]"}`},
	{`]]}{"password":"CANARY"}`, `]]}{"password":"[redacted]"}`},
	{`{"env":[{"name":"API_KEY","value":"CANARY"},{"value":"CANARY","name":"Authorization"},{"name":"HOME","value":"/h"}]}`,
		`{"env":[{"name":"API_KEY","value":"[redacted]"},{"value":"[redacted]","name":"Authorization"},{"name":"HOME","value":"/h"}]}`},
	{`{"args":["--api-key","CANARY","--port","80","--token=CANARY"]}`, `{"args":["--api-key","[redacted]","--port","80","--token=[redacted]"]}`},
	{`{"url":"https://u:CANARY@h/x?api_key=CANARY&n=1&key=CANARY#f"}`, `{"url":"https://[redacted]@h/x?api_key=[redacted]&n=1&key=[redacted]#f"}`},
	{`{"text":"{\"password\":\"CANARY\",\"n\":1}"}`, `{"text":"{\"password\":\"[redacted]\",\"n\":1}"}`},
	{`{"text":"see {\"password\": \"CANARY\"}"}`, `{"text":"see {\"password\": \"[redacted]\"}"}`},
	{`{"text":"curl -H 'Authorization: Bearer CANARY-1' -H \"X-Api-Key: CANARY-1\""}`, `{"text":"curl -H 'Authorization: Bearer [redacted]' -H \"X-Api-Key: [redacted]\""}`},
	{`{"text":"grant_type=refresh_token&refresh_token=CANARY&client_secret=CANARY"}`, `{"text":"grant_type=refresh_token&refresh_token=[redacted]&client_secret=[redacted]"}`},
	{`{"inputSchema":{"properties":{"password":{"type":"string","description":"the password: a word","default":"CANARY"},"token":{"type":"string"}}}}`,
		`{"inputSchema":{"properties":{"password":{"type":"string","description":"the password: a word","default":"[redacted]"},"token":{"type":"string"}}}}`},
	{`{"properties":{"password":{"type":"string","anyOf":[{"const":"CANARY"}]}}}`, `{"properties":{"password":{"type":"string","anyOf":[{"const":"[redacted]"}]}}}`},
	{`{"properties":{"password":{"secretValue":"CANARY"},"token":"CANARY"}}`, `{"properties":{"password":{"secretValue":"[redacted]"},"token":"[redacted]"}}`},
	{`{"securitySchemes":{"apiKey":{"type":"apiKey","in":"header","name":"X-API-Key"}},"security":[{"apiKey":[]}]}`,
		`{"securitySchemes":{"apiKey":{"type":"apiKey","in":"header","name":"X-API-Key"}},"security":[{"apiKey":[]}]}`},
	{`{"jsonrpc":"2.0","id":1,"method":"rpc.authenticate","params":["CANARY"]}`, `{"jsonrpc":"2.0","id":1,"method":"rpc.authenticate","params":["[redacted]"]}`},
	{`[{"params":{"t":"CANARY"},"id":1,"method":"rpc.authenticate"}]`, `[{"params":{"t":"[redacted]"},"id":1,"method":"rpc.authenticate"}]`},
	{`{"env":{"PWD":"/home/x","DB_PWD":"CANARY"}}`, `{"env":{"PWD":"/home/x","DB_PWD":"[redacted]"}}`},
	{`{"text":"The token: a word. Password: needed. key=value"}`, `{"text":"The token: a word. Password: needed. key=value"}`},
	{`{"a":"it is long-secret!","b":"l\u006fng-secret","lon\u0067-secret":true}`, `{"a":"it is [redacted]!","b":"[redacted]","[redacted]":true}`},
	{`{"a":"bG9uZy1zZWNyZXQ="}`, `{"a":"[redacted]"}`},
	{`{"env":[{"Name":"API_KEY","Value":"CANARY"},{"value":{"a":["CANARY"]},"name":"password"},{"value":123456,"name":"pin_token"},{"value":null,"name":"token"}]}`,
		`{"env":[{"Name":"API_KEY","Value":"[redacted]"},{"value":"[redacted]","name":"password"},{"value":"[redacted]","name":"pin_token"},{"value":null,"name":"token"}]}`},
	{`{"env":[{"name":"API_KEY","value":"CANARY","description":"of the weather service","required":true},{"value":"CANARY","name":"DB_PASSWORD","description":"of it"}]}`,
		`{"env":[{"name":"API_KEY","value":"[redacted]","description":"of the weather service","required":true},{"value":"[redacted]","name":"DB_PASSWORD","description":"of it"}]}`},
	{`{"field":"password","value":"CANARY"}`, `{"field":"password","value":"[redacted]"}`},
	{`{"method":"rpc.authenticat\u0065","params":{"t":"CANARY"}}`, `{"method":"rpc.authenticat\u0065","params":{"t":"[redacted]"}}`},
	{`{"par\u0061ms":["CANARY"],"meth\u006fd":"rpc\u002eauthenticate"}`, `{"par\u0061ms":["[redacted]"],"meth\u006fd":"rpc\u002eauthenticate"}`},
	{`{"command":"tool --token CANARY1 --port 80"}`, `{"command":"tool --token [redacted] --port 80"}`},
	{`{"text":"use --token to sign in, --key-file /etc/key.pem"}`, `{"text":"use --token to sign in, --key-file /etc/key.pem"}`},
	{`{"text":"got {\"password\": [\"CANARY\"]}"}`, `{"text":"got {\"password\": [\"[redacted]\"]}"}`},
	{`{"env":{"DB_PWD":"/CANARY","OLDPWD":"/home/y"}}`, `{"env":{"DB_PWD":"[redacted]","OLDPWD":"/home/y"}}`},
	{`{ password: 'CANARY', token: "CANARY" }`, `{ password: '[redacted]', token: "[redacted]" }`},
	{`{"password":CANARY,"x":1}`, `{"password":"[redacted]","x":1}`},
	{`{"text":"-----BEGIN EC ` + `PRIVATE KEY-----\nCANARY\n-----END EC ` + `PRIVATE KEY-----"}`, `{"text":"-----BEGIN EC ` + `PRIVATE KEY-----[redacted]-----END EC ` + `PRIVATE KEY-----"}`},
	{`{"text":"GET / HTTP/1.1\r\nCookie: a=1; sid=CANARY\r\nAccept: */*"}`, `{"text":"GET / HTTP/1.1\r\nCookie: [redacted]\r\nAccept: */*"}`},
	{`{"text":"Password:\nEnter it. Token:\n\tCANARY-1\r\nPassword:\r\n\"CANARY\""}`, `{"text":"Password:\nEnter it. Token:\n\t[redacted]\r\nPassword:\r\n\"[redacted]\""}`},
	{`api_key=CANARY password: "CANARY"`, `api_key=[redacted] password: "[redacted]"`},
	{`POST {"token": "CANARY"} failed`, `POST {"token": "[redacted]"} failed`},
}

func TestJSON(t *testing.T) {
	s := secret.New(nil)
	s.Add("long-secret", "abc", "")
	for _, m := range messages {
		got := string(s.JSON([]byte(m.in)))
		if got != m.want {
			t.Errorf("%s\nbecomes %s\nwant    %s", m.in, got, m.want)
		}
		if jsontext.Value(m.in).IsValid() && !jsontext.Value(got).IsValid() {
			t.Errorf("%s is no JSON any more: %s", m.in, got)
		}
		if again := string(s.JSON([]byte(got))); again != got {
			t.Errorf("twice: %s, then %s", got, again)
		}
	}
}

func TestText(t *testing.T) {
	s := secret.New(nil)
	s.Add("Bearer long-secret-1", "Basic "+base64.StdEncoding.EncodeToString([]byte("user:pass-4711")))
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"API_KEY=CANARY ok", "API_KEY=[redacted] ok"},
		{"export DB_PASSWORD='a CANARY b'", "export DB_PASSWORD='[redacted]'"},
		{"Authorization: Bearer CANARY", "Authorization: Bearer [redacted]"},
		{"authorization: basic dXNlcjpwYXNz", "authorization: basic [redacted]"},
		{"sent Bearer abcdef1234567890, got 401", "sent Bearer [redacted], got 401"},
		{`WWW-Authenticate: Bearer realm="x", error="invalid_token"`, `WWW-Authenticate: Bearer realm="x", error="invalid_token"`},
		{"no such host: http://u:CANARY@h:80/p?a=1", "no such host: http://[redacted]@h:80/p?a=1"},
		{"http://u:CAN@ARY@h/", "http://[redacted]@h/"},
		{"http://user:@h/ https://sk-1234:@h/", "http://user:@h/ https://[redacted]@h/"},
		{"http://h/?api%5Fkey=CANARY&x=1", "http://h/?api%5Fkey=[redacted]&x=1"},
		{"it is long-secret-1; and pass-4711", "it is [redacted]; and [redacted]"},
		{"url " + url.QueryEscape("user:pass-4711"), "url [redacted]"},
		{"Cookie: a=1; sid=CANARY\nHost: h", "Cookie: [redacted]\nHost: h"},
		{`curl -H "authorization: Digest username=\"u\", response=\"CANARY\"" http://h/`, `curl -H "authorization: [redacted]" http://h/`},
		{"Authorization: AWS4-HMAC-SHA256 Credential=CANARY/x, Signature=CANARY", "Authorization: [redacted]"},
		{"got Bearer  abcdef1234567890", "got Bearer  [redacted]"},
		{"password := \"CANARY\", token => 'CANARY'", "password := \"[redacted]\", token => '[redacted]'"},
		{"-----BEGIN " + "PRIVATE KEY-----\nCANARY", "-----BEGIN " + "PRIVATE KEY-----[redacted]"},
		{"password: is required", "password: is required"},
		{"use --token VALUE or --token MEMBER=VALUE (a, b)", "use --token VALUE or --token MEMBER=VALUE (a, b)"},
		{"--token VALUE1 --token MEMBER=CANARY", "--token [redacted] --token [redacted]"},
		{"invalid token: unexpected end", "invalid token: unexpected end"},
		{"sum key=a value=b 3:4", "sum key=a value=b 3:4"},
	} {
		if got := s.Text(c.in); got != c.want {
			t.Errorf("%q\nbecomes %q\nwant    %q", c.in, got, c.want)
		}
	}
}

func TestAddress(t *testing.T) {
	s := secret.New(nil)
	for in, want := range map[string]string{
		`cannot reach http://u:p@h/?k=CANARY&api_key=CANARY#x: refused`: `cannot reach http://[redacted]@h/?k=[redacted]&api_key=[redacted]#x: refused`,
		`Post "https://h/p?k=CANARY": EOF`:                              `Post "https://h/p?k=[redacted]": EOF`,
		`Post "https://h/p?CANARY12": EOF`:                              `Post "https://h/p?[redacted]": EOF`,
		"tcp://h:1?framing=header and ws://h?x=1: no":                   "tcp://h:1?framing=header and ws://h?x=[redacted]: no",
		"nothing": "nothing",
	} {
		if got := s.Address(in); got != want {
			t.Errorf("%q\nbecomes %q\nwant    %q", in, got, want)
		}
	}
}

func TestField(t *testing.T) {
	s := secret.New(nil)
	for _, c := range [][3]string{
		{"Authorization", "Bearer CANARY", "Bearer [redacted]"},
		{"Authorization", "CANARY", "[redacted]"},
		{"X-Auth-Token", "a CANARY", "[redacted]"},
		{"Cookie", "a=b", "[redacted]"},
		{"Mcp-Method", "tools/call", "tools/call"},
		{"Location", "http://h/?code=1&access_token=CANARY", "http://h/?code=1&access_token=[redacted]"},
	} {
		if got := s.Field(c[0], c[1]); got != c[2] {
			t.Errorf("%s: %s becomes %s, want %s", c[0], c[1], got, c[2])
		}
	}
	one, same, other := s.Field("Mcp-Session-Id", "CANARY-1"), s.Field("mcp-session-id", "CANARY-1"), s.Field("Mcp-Session-Id", "CANARY-2")
	if one != same || one == other || !strings.HasPrefix(one, secret.Hidden) || strings.Contains(one, "CANARY") || s.Field("Mcp-Session-Id", one) != one {
		t.Errorf("sessions are %s, %s and %s", one, same, other)
	}
	if got := (*secret.Set)(nil).Field("Cookie", "a"); got != "a" {
		t.Errorf("no set hides %q", got)
	}
}

func TestOwnNames(t *testing.T) {
	s := secret.New(append(append([]string{}, secret.Names...), "progressToken", "card*"))
	if !s.Name("progress_token") || !s.Name("cardNumber") || !s.Name("password") || s.Name("key") {
		t.Error("the last pattern does not decide")
	}
	none := secret.New([]string{})
	if none.Name("password") || string(none.JSON([]byte(`{"password":"x"}`))) != `{"password":"x"}` || none.Text("password=x1y2z3") != "password=x1y2z3" {
		t.Error("an empty list has names")
	}
}

func TestPlaces(t *testing.T) {
	s := secret.New(nil)
	seen := ""
	out := s.Without([]byte(`{"a":[1,{"b":"x"},[true]],"c":{"d":null}}`), func(at []string) bool {
		seen += "/" + strings.Join(at, ".")
		return strings.Join(at, ".") == "a.1.b" || strings.Join(at, ".") == "c"
	})
	if string(out) != `{"a":[1,{"b":"[redacted]"},[true]],"c":"[redacted]"}` {
		t.Errorf("%s", out)
	}
	if want := "/a/a.0/a.1/a.1.b/a.2/a.2.0/c/c.d"; seen != want {
		t.Errorf("the places are %s, want %s", seen, want)
	}
}

// TestBoundOfHeaders checks that JSON remains valid if the value of a header is longer than its
// bound: neither an escape nor a letter is split.
func TestBoundOfHeaders(t *testing.T) {
	s := secret.New(nil)
	for n := 8<<10 - 10; n < 8<<10+10; n++ {
		for _, more := range []string{`\"b\"`, "é", "世"} {
			in := `{"text":"Cookie: a=` + strings.Repeat("x", n) + more + `"}`
			if out := s.JSON([]byte(in)); !jsontext.Value(out).IsValid() {
				t.Errorf("%d bytes and %s: the text becomes %s", n, more, out)
			}
		}
	}
}

// shorter returns the beginning of text under the race detector. Time that grows faster than a text
// shows without it.
func shorter(text string) string {
	if race.Enabled {
		return text[:min(len(text), 1<<17)]
	}
	return text
}

// TestLongTexts checks that a hostile text takes time proportional to its length: the test would
// take minutes otherwise.
func TestLongTexts(t *testing.T) {
	s := secret.New(nil)
	for _, text := range map[string]string{
		"brackets": strings.Repeat(`[`, 4<<20), "objects": strings.Repeat(`{"a":`, 1<<20), "quotes": strings.Repeat(`"`, 4<<20), "escapes": `"` + strings.Repeat(`\"`, 2<<20),
		"signs": strings.Repeat("=:", 2<<20), "names": strings.Repeat("a", 4<<20) + "=", "blanks": strings.Repeat(" ", 4<<20) + "=", "users": strings.Repeat("://a@", 1<<20),
		"bearers": strings.Repeat(`Bearer "`, 1<<19), "colons": strings.Repeat(`"`+" ", 1<<20) + ":", "secrets": strings.Repeat(`{"password":`, 1<<18),
		"cookies": strings.Repeat("Cookie:", 1<<19), "flags": strings.Repeat(" --token", 1<<19), "more flags": strings.Repeat(` -token "x -token 'y`, 1<<17), "keys": strings.Repeat("PRIVATE KEY-----", 1<<18),
		"pairs": strings.Repeat(`{"value":{`, 1<<18), "methods": `"` + strings.Repeat(`\u0072","`, 1<<18), "schemas": strings.Repeat(`{"properties":{"password":{"type":`, 1<<12), "nested": `"` + strings.Repeat(`{\"a\":`, 1<<19) + `"`,
	} {
		text = shorter(text)
		s.JSON([]byte(text))
		s.Text(text)
		s.Address(text)
	}
}

func FuzzJSON(f *testing.F) {
	for _, m := range messages {
		f.Add([]byte(m.in))
	}
	s := secret.New(nil)
	s.Add("long-secret")
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		got := s.JSON(data)
		if !bytes.Equal(data, before) {
			t.Fatal("the input was changed")
		}
		if jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true)) && !jsontext.Value(got).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Errorf("%q became %q", data, got)
		}
		s.Text(string(data))
		s.Address(string(data))
	})
}

func Example() {
	s := secret.New(nil)
	s.Add("sesame-1") // from a configuration
	fmt.Println(string(s.JSON([]byte(`{"password":"x","text":"it is sesame-1","progressToken":7}`))))
	// Output: {"password":"[redacted]","text":"it is [redacted]","progressToken":7}
}

// TestValuesThatAreNotText checks that JSON remains valid if a value is a number, a literal or part
// of an escape, and that the literals are retained.
func TestValuesThatAreNotText(t *testing.T) {
	s := secret.New([]string{})
	s.Add("12345", "true", "null", "u00e9", `a"b\c`)
	for text, want := range map[string]string{
		`{"pin":12345,"list":[123456,-12345.5e1,7]}`: `{"pin":"[redacted]","list":["[redacted]","[redacted]",7]}`,
		`{"a":true,"b":[null,false],"c":"true"}`:     `{"a":true,"b":[null,false],"c":"[redacted]"}`,
		`{"caf\u00e9":"a\"b\\c","x":"12345"}`:        `{"caf\u00e9":"[redacted]","x":"[redacted]"}`,
		`{"a":"\u0061\"b\\c","n":12345}`:             `{"a":"[redacted]","n":"[redacted]"}`,
		`{"12345":{"12345":1},"pin":12345}`:          `{"[redacted]":{"[redacted]":1},"pin":"[redacted]"}`,
	} {
		if got := string(s.JSON([]byte(text))); got != want {
			t.Errorf("JSON(%s) = %s, want %s", text, got, want)
		}
		if got := string(s.KnownJSON([]byte(text))); got != want {
			t.Errorf("KnownJSON(%s) = %s, want %s", text, got, want)
		}
	}
	named := secret.New(nil)
	named.Add("12345")
	if got := string(named.KnownJSON([]byte(`{"password":"other","n":12345}`))); got != `{"password":"other","n":"[redacted]"}` {
		t.Errorf("KnownJSON uses names: %s", got)
	}
}
