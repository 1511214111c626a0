package secret_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/secret"
)

// encodings are texts with one secret each, "¶", whose name or value is encoded or on another line.
var encodings = []struct{ text, secret string }{
	// Passwords in URLs that are not encoded.
	{"postgres://user:p/a@ss¶@host:5432/db", "user:p/a@ss¶"},
	{"see scheme://user:¶/a@¶@host/x", "user:¶/a@¶"},
	{"https://user:a/b@c/¶@host/x", "user:a/b@c/¶"},
	{"redis://user:1234/¶@host/x", "user:1234/¶"},
	{"amqp://user:¶?a#b@host/x", "user:¶?a#b"},
	{"https://me:¶@h.example/@scope/name", "me:¶"},
	{"https://me:¶@h.example/icon@2x.png", "me:¶"},
	{"jdbc:oracle:thin:me/¶@h:1521/x", "me/¶"},

	// XML whose brackets are entities, and what is encoded twice.
	{"&lt;password&gt;¶&lt;/password&gt;", ""},
	{"&amp;lt;password&amp;gt;¶&amp;lt;/password&amp;gt;", ""},
	{"&#60;password&#62;¶&#60;/password&#62;", ""},
	{"&#x3C;password&#x3E;¶&#x3c;/password&#x3e;", ""},
	{"&lt;add key=&quot;token&quot; value=&quot;¶&quot;/&gt;", ""},
	{"{&quot;password&quot;:&quot;¶ a&quot;}", "¶ a"},
	{"q=1&next=%2Fcb%3Faccess_token%3D¶%26x%3D1", ""},
	{"body=user%3Dme%26password%3D¶", ""},
	{"data=%7B%22password%22%3A%22¶%22%7D", ""},
	{"https://h/?u=redis%3A%2F%2Fme%3A¶%40host", "me%3A¶"},

	// Headers.
	{"Host: h\r\nAuthorization: secretword¶\r\nAccept: x\r\n\r\n", "secretword¶"},
	{"Host: h\nx-api-key: ¶\nAccept: x", ""},
	{"X-Auth-Token: ¶", ""},
	{"curl -H 'X-Api-Key: ¶' h", ""},
	{"curl -H \"Authorization: ¶\" h", ""},
	{"http h X-Api-Key:¶ a=b", ""},
	{"Authorization:\tBasic\tdXNlcjp4N2tR¶", "dXNlcjp4N2tR¶"},
	{"Authorization: Bearer\r\n  word¶\r\nHost: h", "word¶"},
	{"curl -b 'a=1; sid=¶' h", "a=1; sid=¶"},
	{"Sec-WebSocket-Protocol: bearer.aaaaaaaaaaaaaaaaaaaaaaaa1¶, mcp", "bearer.aaaaaaaaaaaaaaaaaaaaaaaa1¶"},

	// Forms.
	{"--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n¶\r\n--b--", ""},
	{"--b\r\nContent-Disposition: form-data; name=api_key\r\nContent-Type: text/plain\r\n\r\n¶ and\r\n¶\r\n--b\r\nx", "¶ and\r\n¶"},
	{"password=a;¶&x=1", "a;¶"},
	{"user=me&password=a;¶&x=1", "a;¶"},
	{"user[password]=¶&x=1", ""},
	{"config[\"password\"] = \"¶\"", ""},
	{"grant_type=authorization_code&code=¶&client_id=x", ""},
	{"https://h/cb?code=¶&state=y", ""},

	// Variables and files.
	{"password = secretword¶", "secretword¶"},
	{"[a]\nuser = me\npassword = ¶\nport = 1", ""},
	{"user: me\npassword: ¶\nport: 1", ""},
	{"API_KEY=$'¶'", ""},
	{"{'password': b'¶', 'x': 1}", ""},
	{"setenv API_KEY ¶1", "¶1"},
	{"FROM x\nENV API_KEY ¶1", "¶1"},
	{"machine h login me password ¶", ""},
	{"CREATE USER me IDENTIFIED BY '¶'", ""},
	{"ALTER USER me PASSWORD '¶ a'", "¶ a"},

	// What programs print.
	{"map[Accept:[x] X-Api-Key:[¶]]", ""},
	{"map[Authorization:[Basic ¶] Accept:[x]]", "Basic ¶"},
	{"&{User:me Password:¶ Port:1}", ""},
	{"{Port:1 Password:¶}", ""},
	{"[('Authorization', 'Basic ¶'), ('Accept', 'x')]", "Basic ¶"},
	{"[(b'x-api-key', b'¶')]", ""},

	// Tokens without a name.
	{"it is " + base64.StdEncoding.EncodeToString([]byte("alice:pass-W0rd")) + " here", base64.StdEncoding.EncodeToString([]byte("alice:pass-W0rd"))},
	{"https://hooks.slack.com/services/T00000000/B00000000/¶abcdefghijkl", "T00000000/B00000000/¶abcdefghijkl"},
	{"https://api.telegram.org/bot123456789:¶abcdefghijklmnop/getMe", "¶abcdefghijklmnop"},
	{"https://discord.com/api/webhooks/1234567890/¶abcdefghijklmnop", "¶abcdefghijklmnop"},
	{strings.Repeat("MIIabc/+", 16) + "\n¶==\n-----END " + "PRIVATE KEY-----", strings.Repeat("MIIabc/+", 16) + "\n¶==\n"},
}

// TestEncodings checks secrets that are encoded, in text, in a string of JSON, in JSON within JSON,
// with the escapes of other encoders, and in the JSON that a log line quotes. Nothing else is
// redacted, and the result can be redacted again.
func TestEncodings(t *testing.T) {
	s := secret.New(nil)
	quote := func(text string) string {
		out, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, k := range encodings {
		hidden := k.secret
		if hidden == "" {
			hidden = "¶"
		}
		in, hidden := strings.ReplaceAll(k.text, "¶", "hunterx"), strings.ReplaceAll(hidden, "¶", "hunterx")
		want := strings.Replace(in, hidden, secret.Hidden, 1)
		if got := s.Text(in); got != want {
			t.Errorf("Text(%.200q)\n is   %.200q\n want %.200q", in, got, want)
		} else if again := s.Text(got); again != got {
			t.Errorf("twice, %q becomes %q", got, again)
		}
		one := `{"a":` + quote(in) + `}`
		two := `{"b":` + quote(one) + `}`
		for _, message := range []string{
			one, two, `{"c":` + quote(two) + `}`,
			strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "'", `\u0027`, "=", `\u003d`).Replace(one),
		} {
			got := s.JSON([]byte(message))
			if !jsontext.Value(got).IsValid() {
				t.Errorf("%s becomes %s, which is no JSON", message, got)
			}
			plain := got
			for range 3 {
				var out []byte
				var err error
				if out, err = jsontext.AppendUnquote(nil, plain[len(`{"a":`):len(plain)-1]); err != nil {
					t.Fatalf("%s: %v", plain, err)
				}
				if plain = out; string(plain) == want || len(plain) < 6 || !jsontext.Value(plain).IsValid() {
					break
				}
			}
			if string(plain) != want {
				t.Errorf("JSON(%.200s)\n is   %.200q\n want %.200q", message, plain, want)
			}
			if again := s.JSON(got); string(again) != string(got) {
				t.Errorf("twice, %s becomes %s", got, again)
			}
		}
		for _, log := range []string{"level=error msg=" + quote(one) + " n=1", "the answer " + one + " is wrong"} {
			if got := s.Text(log); strings.Contains(got, hidden) {
				t.Errorf("Text(%.200q)\n is   %.200q", log, got)
			}
		}
	}
}

// TestMoreLists checks headers and variables in lists, without schemes and digits.
func TestMoreLists(t *testing.T) {
	s := secret.New(nil)
	for _, c := range []struct{ in, want string }{
		{`["Authorization","Basic bWU6aHVudGVyeA=="]`, `["Authorization","[redacted]"]`},
		{`["Authorization","sesame"]`, `["Authorization","[redacted]"]`},
		{`["authorization","sesame words"]`, `["authorization","[redacted]"]`},
		{`["Accept","y","x-api-key","sesame","Host","h"]`, `["Accept","y","x-api-key","[redacted]","Host","h"]`},
		{`["Authorization",["sesame"],"Accept",["y"]]`, `["Authorization",["[redacted]"],"Accept",["y"]]`},
		{`[["Authorization",["sesame"]],["Accept","y"]]`, `[["Authorization",["[redacted]"]],["Accept","y"]]`},
		{`{"headers":["X-Api-Key: sesame","Accept: y","Authorization: Bearer sesame"]}`, `{"headers":["X-Api-Key: [redacted]","Accept: y","Authorization: Bearer [redacted]"]}`},
		{`{"headers":["Api-Key","sesame","Accept","y"]}`, `{"headers":["Api-Key","[redacted]","Accept","y"]}`},
		{`{"headers":[{"k":"Authorization","v":"sesame"}]}`, `{"headers":[{"k":"Authorization","v":"[redacted]"}]}`},
		{`{"env":["API_KEY=a \"b; c&d\ne","X=1","PWD=/home/x","TOKENS=12"]}`, `{"env":["API_KEY=[redacted]","X=1","PWD=/home/x","TOKENS=12"]}`},
		{`["API_KEY=a","X=1"]`, `["API_KEY=[redacted]","X=1"]`},
		{`{"x":["curl","-b","sid=sesame","-H","X-Api-Key: sesame"]}`, `{"x":["curl","-b","[redacted]","-H","X-Api-Key: [redacted]"]}`},

		{`["Authorization","Content-Type"]`, ``},
		{`["Authorization","X-Request-Id"]`, ``},
		{`["Authorization","Cookie"]`, ``},
		{`["Authorization","Mcp-Session-Id","Accept"]`, ``},
		{`["authorization","security"]`, ``},
		{`["cookie","header"]`, ``},
		{`{"tags":["Authorization","Billing"],"scopes":["x-auth","all"]}`, ``},
		{`{"headers":["Authorization","Content-Type"]}`, ``},
		{`{"allowedHeaders":["Authorization","Content-Type","Accept","X-A"]}`, ``},
		{`{"env":["HOME=/x","LANG=C"]}`, ``},
		{`["curl","-b","cookies.txt","https://h/"]`, ``},
		{`{"k":"mode","v":"on"}`, ``},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		for _, message := range [][2]string{{c.in, want}, {"got " + c.in, "got " + want}} {
			got := string(s.JSON([]byte(message[0])))
			if got != message[1] {
				t.Errorf("%s\nbecomes %s\nwant    %s", message[0], got, message[1])
			}
			if again := string(s.JSON([]byte(got))); again != got {
				t.Errorf("twice: %s, then %s", got, again)
			}
			if got := s.Text(message[0]); got != message[1] {
				t.Errorf("Text(%s)\nis   %s\nwant %s", message[0], got, message[1])
			}
		}
	}
}

// TestMoreVisible checks that ordinary text next to the shapes of encodings is not redacted.
func TestMoreVisible(t *testing.T) {
	s := secret.New(nil)
	for _, text := range []string{
		"https://h:8080/x/y@z", "https://h/a@b/c@d", "git@github.com:x/y.git", "https://host/icon@2x.png", "http://host:80/@me/x?y", "npm i x@1.2.3 https://h/x@latest",
		"Authorization: missing", "authorization: required\nother: x", "X-Api-Key: required", "password: string\nname: string", "token: null\nuser: me", "Password: needed\n", "password = None",
		"user: me\nkey: value\nport: 1", "tokens: many\nname: x", "the key = value of it", "(see 'password', 'token')", "['password', 'token']", "('name', 'value')", "f('x-api-key')",
		"&lt;b&gt;token&lt;/b&gt;", "a &amp; b", "100%25 of tokens", "%20%3D", "tokens%3A%20many", "q=a%3Db", "{&quot;n&quot;:1}", "AT&T; token",
		"form-data; name=\"file\"\r\n\r\ncontent\r\n--b", "code=1&x=2", "https://h/?code=404&x=1", "exit code=1", "the user password is wrong", "reset PASSWORD now", "ENV API_KEY is unset",
		"identified by a number", "setenv PATH /usr/bin", "map[a:[b] c:[d]]", "tokens:[1 2 3]", "keyword:[a]", "{Name:x Tokens:5 Port:1}",
		"https://hooks.slack.com/services/", "https://api.telegram.org/bots", "-----END " + "CERTIFICATE-----", "end of PRIVATE KEY-----",
		base64.StdEncoding.EncodeToString([]byte("User:123456789")), base64.StdEncoding.EncodeToString([]byte("cursor:v2:000001")), base64.StdEncoding.EncodeToString([]byte("Product:9f86d081-884c-7d65")),
		base64.StdEncoding.EncodeToString([]byte("http://host/Path1")), base64.StdEncoding.EncodeToString([]byte("hello world, this is text")),
		"internationalization", "bearer.example.org", "the token (a word)", "x[0]=1", "list[token]",
	} {
		staysVisible(t, s, text)
	}
}

// TestLongEncodings checks that hostile texts take time proportional to their length: the test
// would take minutes otherwise.
func TestLongEncodings(t *testing.T) {
	s := secret.New(nil)
	deep := `x password=y `
	for len(deep) < 1<<20 {
		// Each level has twice as many backslashes in sequence.
		out, err := jsontext.AppendQuote(nil, `{"a":`+deep+`"\u003c`+strings.Repeat("b", 1<<12))
		if err != nil {
			t.Fatal(err)
		}
		deep = string(out)
	}
	for _, text := range []string{
		deep, `"` + strings.Repeat(`\\`, 1<<20) + `"`, strings.Repeat("&lt;", 1<<16), strings.Repeat("&amp;", 1<<16), strings.Repeat("%25", 1<<16), strings.Repeat("%3D%26", 1<<15), strings.Repeat(`\u0026lt;`, 1<<15), strings.Repeat(`\\u003c`, 1<<15),
		strings.Repeat("form-data; name=token\n", 1<<15), strings.Repeat("form-data;", 1<<15), strings.Repeat("('token', ", 1<<15), strings.Repeat(`[["token","`, 1<<15), strings.Repeat("[[", 1<<17),
		strings.Repeat("a://b:c@d/", 1<<15), "a://b:c" + strings.Repeat("@d/e", 1<<16), strings.Repeat("password=a;b;", 1<<15), strings.Repeat("token: x\n", 1<<15), strings.Repeat("code=1&", 1<<15),
		strings.Repeat("PASSWORD '", 1<<15), strings.Repeat("ENV ", 1<<16), strings.Repeat("END "+"PRIVATE KEY-----", 1<<14), strings.Repeat("YWxpY2U6", 1<<15), strings.Repeat("YWxpY2U6YWxpY2U6+", 1<<14),
		strings.Repeat("map[token:[", 1<<15), strings.Repeat(":thin:", 1<<15), strings.Repeat("{Token:", 1<<15), strings.Repeat("x[token]=", 1<<15),
	} {
		text = shorter(text)
		s.Text(text)
		s.JSON([]byte(text))
	}
	s.JSON([]byte(`["` + strings.Repeat(`Authorization","`, 1<<14) + `"]`))
	s.JSON([]byte(`{"headers":["` + strings.Repeat(`Authorization: x","`, 1<<14) + `"]}`))
}
