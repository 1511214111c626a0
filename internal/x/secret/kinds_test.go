package secret_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/secret"
)

// kinds are texts with one secret each. In the tests "¶" is the secret: it is a random word for
// most, and the whole token for known shapes.
var kinds = []struct{ text, secret string }{
	// Command lines.
	{"mysql -uroot -p¶ shop", ""},
	{"mysql -u root -p¶", ""},
	{"mysqldump --single-transaction -p'¶' shop > x.sql", ""},
	{"/usr/bin/mariadb.exe -h db -p¶", ""},
	{"docker exec db mysql -p¶ -e 'select 1'", ""},
	{"cd /tmp && mysql -p¶", ""},
	{"curl -u me:¶ https://h/", ""},
	{"curl -ume:¶ https://h/", ""},
	{"curl -sSfLu me:¶ https://h/", ""},
	{"curl -s 'https://h/?a=1&b=2' -u 'me:¶'", ""},
	{"curl -H 'Accept: a; q=1' -u \"me:¶\" https://h/", ""},
	{"curl --user me:¶ https://h/", ""},
	{"curl --user=me:¶ https://h/", ""},
	{"curl --proxy-user me:¶ -x http://p https://h/", ""},
	{"curl https://h/ \\\n  -u me:¶ \\\n  -o x", ""},
	{"curl -u :¶ https://h/", ""},
	{"sshpass -p ¶ ssh me@h", ""},
	{"sshpass -p¶ ssh me@h", ""},
	{"sshpass -p '¶' scp x me@h:", ""},
	{"PGPASSWORD=¶ psql -h db", ""},
	{"env MYSQL_PWD=¶ mysql", ""},
	{"redis-cli -h db -a ¶ ping", ""},
	{"mongosh -u me -p ¶ db", ""},
	{"docker login -u me -p ¶ registry.example", ""},
	{"ldapsearch -D cn=x -w ¶ -b dc=y", ""},
	{"unzip -P ¶ x.zip", ""},
	{"http -a me:¶ GET h/", ""},
	{"openssl enc -aes-256-cbc -pass pass:¶ -in x", ""},
	{"tool --pin 4711¶", "4711"},
	{"Your PIN: 4711¶", "4711"},
	{"otp=4711¶", "4711"},

	// Addresses.
	{"redis://:¶@cache:6379/0", ":¶"},
	{"redis://:¶/x?y@cache:6379/0", ":¶/x?y"},
	{"postgres://me:¶@db:5432/shop?sslmode=disable", "me:¶"},
	{"DATABASE_URL=postgres://me:¶@db/shop", "me:¶"},
	{"dsn: me:¶@tcp(db:3306)/shop", "me:¶"},
	{"DB_DSN=me:¶@tcp(db:3306)/shop", "me:¶"},

	// YAML with the value on the lines after the name.
	{"password:\n  ¶\nuser: me", ""},
	{"db:\n  password: # of the shop\n  host: x\n  token:\n    ¶", ""},
	{"- name: a\n  password:\n    ¶\n", ""},
	{"password: |\n  ¶ and more\n\n  and more\nuser: me", "¶ and more\n\n  and more"},
	{"client_secret: >-\n  ¶\n  and more\n", "¶\n  and more"},
	{"token: !vault |\n  ¶\n", ""},
	{"tokens:\n- ¶\n- other\nport: 80", "¶\n- other"},
	{"\"password\":\n  \"¶ and more\"\n", "\"¶ and more\""},
	{"password:\r\n  ¶\r\nuser: me", ""},

	// XML.
	{"<password>¶</password>", ""},
	{"<user>me</user><password type=\"text\">¶</password>", ""},
	{"<wsse:Password Type=\"x#y\">¶</wsse:Password>", ""},
	{"<password>\n  ¶\n</password>", ""},
	{"<password><![CDATA[¶]]></password>", ""},
	{"<add key=\"ApiToken\" value=\"¶\" />", ""},
	{"<property name='password'>¶</property>", ""},
	{"<parameter name=\"token\">¶</parameter>", ""},
	{"<dict><key>password</key>\n<string>¶</string><key>user</key><string>me</string></dict>", ""},
	{"<property><name>fs.s3a.secret.key</name><value>¶</value></property>", ""},
	{"write <password> for it, as in <token>¶</token>", ""},
	{"<server password=\"¶\"/>", ""},
	{"<user>me</user><password>¶1", "¶1"},

	// Headers.
	{"Authorization: MyScheme ¶12345678 and more", "MyScheme ¶12345678"},
	{"authorization: Digest username=\"me\", response=\"¶\" status=200 took=3ms", "Digest username=\"me\", response=\"¶\""},
	{"Cookie: a=1; sid=¶ status=200 took=3ms", "a=1; sid=¶"},
	{"Set-Cookie: sid=¶; Expires=Wed, 21 Oct 2015 07:28:00 GMT; Secure; HttpOnly, and more", "sid=¶; Expires=Wed, 21 Oct 2015 07:28:00 GMT; Secure; HttpOnly"},
	{"Cookie: a=" + strings.Repeat("x", 10<<10) + "; sid=¶\nHost: h", "a=" + strings.Repeat("x", 10<<10) + "; sid=¶"},
	{"authorization: Bearer ¶1, see https://h/?a=b, then go on", "¶1"},

	// Private keys.
	{"-----BEGIN " + "PRIVATE KEY-----¶==\nand more\n-----END " + "PRIVATE KEY-----", "¶==\nand more\n"},
	{"-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n\n¶\n-----END PGP " + "PRIVATE KEY BLOCK-----", "\n\n¶\n"},

	// Tokens of known shapes. They are assembled here, so that no scanner takes them for real ones.
	{"see ghp_" + "0123456789abcdefghijABCDEFGHIJ012345.", "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"},
	{"see github_pat_" + "11ABCDEFG0abcdefghijkl_0123456789abcdefghijABCDEFGHIJ", "github_pat_" + "11ABCDEFG0abcdefghijkl_0123456789abcdefghijABCDEFGHIJ"},
	{"sk-" + "proj-abcdefghij0123456789-_ABCDEF is it", "sk-" + "proj-abcdefghij0123456789-_ABCDEF"},
	{"sk-" + "ant-api03-abcdefgh_ijklmnopqrst0-uvwxyzABCDEFGHIJ-KLMNOP", "sk-" + "ant-api03-abcdefgh_ijklmnopqrst0-uvwxyzABCDEFGHIJ-KLMNOP"},
	{"(sk-" + "abcdefghijklmnopqrstuvwxyz012345)", "sk-" + "abcdefghijklmnopqrstuvwxyz012345"},
	{"xoxb-" + "123456789012-1234567890123-abcdefghijABCDEFGHIJabcd", "xoxb-" + "123456789012-1234567890123-abcdefghijABCDEFGHIJabcd"},
	{"AIza" + "SyA-0123456789abcdefghijABCDEFGHIJ_", "AIza" + "SyA-0123456789abcdefghijABCDEFGHIJ_"},
	{"glpat-" + "0123456789abcdefghij", "glpat-" + "0123456789abcdefghij"},
	{"npm_" + "0123456789abcdefghijABCDEFGHIJ012345", "npm_" + "0123456789abcdefghijABCDEFGHIJ012345"},
	{"hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH", "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"},
	{"a\nhf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH\n", "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"},
	{"https://h/" + "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJ" + "zdWIiOiIxIn0.abc-_0123/x", "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJ" + "zdWIiOiIxIn0.abc-_0123"},
	{"AKIA" + "0123456789ABCDEF", "AKIA" + "0123456789ABCDEF"},
}

// TestKinds checks each kind of secret in free text, as a log line or an error, and in a string of
// JSON, as most messages have it. Nothing else is redacted, and the result can be redacted again.
func TestKinds(t *testing.T) {
	s := secret.New(nil)
	for _, k := range slices.Concat(kinds, wider) {
		hidden := k.secret
		if hidden == "" {
			hidden = "¶"
		}
		in := strings.ReplaceAll(k.text, "¶", "x7kQ")
		if hidden == "4711" {
			in = strings.ReplaceAll(k.text, "¶", "")
		}
		want := strings.Replace(in, strings.ReplaceAll(hidden, "¶", "x7kQ"), secret.Hidden, 1)
		if got := s.Text(in); got != want {
			t.Errorf("Text(%.200q)\n is   %.200q\n want %.200q", in, got, want)
		} else if again := s.Text(got); again != got {
			t.Errorf("twice, %q becomes %q", got, again)
		}
		message, err := jsontext.AppendQuote([]byte(`{"a":[`), in)
		if err != nil {
			t.Fatal(err)
		}
		message = append(message, `],"n":1}`...)
		got := s.JSON(message)
		var plain []byte
		if !jsontext.Value(got).IsValid() {
			t.Errorf("%s becomes %s, which is no JSON", message, got)
			continue
		}
		plain, err = jsontext.AppendUnquote(nil, got[len(`{"a":[`):len(got)-len(`],"n":1}`)])
		if err != nil || string(plain) != want {
			t.Errorf("JSON(%.200s)\n is   %.200q\n want %.200q", message, plain, want)
		}
	}
}

// TestVisible checks what must not be redacted.
func TestVisible(t *testing.T) {
	s := secret.New(nil)
	for _, text := range []string{
		"pin the version", "please pin: the version", "Pin the version to 1.2.3.", "spinning: 12345", "the password is hunter", "an otp generator",
		"mysql -p asks for it", "mysql -P 3306 -h db", "mkdir -pv x", "docker run -p 8080:80 -u 1000:1000 x", "docker run --name mysql -p3306:3306 mysql", "curl -o x https://h/",
		"curl -u me https://h/", "curl -u me:$PASSWORD https://h/", "curl -u me:${PASS:-x} h", "cp -p a b", "curl -s x; tool -u a:b", "curl x\ntool -u a:b", "curl's -u flag",
		"sshpass -e ssh me@h", "openssl enc -pass env:NAME -in x", "redis-cli -p 6379", "tar -u me:x", "ls -a b",
		"https://h:8080/x?y=a@b", "https://h/@scope/name", "http://[::1]:80/a@b", "redis://cache:6379/0", "mailto:me@h", "http://h:${PORT}/@me", "dsn: host=db port=1", "the dsn: is it",
		"tool --token-file secrets/t.txt --port 80", "tool --password-file ./p", "TOKEN_FILE=run/secrets/t", "key_path: certs/key.pem",
		"password:\nuser: me", "password:\n  type: string\n  minLength: 8", "token:\n  A word of many.\n", "tokens:\n- name: a\n  uses: 3", "Password:\n", "password:\n\nNext", "password:\n  null\n",
		"properties:\n  password:\n    $ref: '#/x'",
		"use <password> or <token>", "curl -u <user>:<password> h", "<user>me</user>", "<password></password>", "<password/>", "<key>name</key><string>me</string>", "<add key=\"mode\" value=\"x\"/>", "a < b and c > d",
		"total tokens: 12345", "tokens=12345&x=1",
		"task-0123456789abcdef0123456789", "123e4567-e89b-12d3-a456-426614174000", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"toolu_01A09q90qw90lq917835lq9", "call_abc123DEF456ghi789JKL012", "chatcmpl-9f86d081884c7d659a2feaa0", "msg_01XFDUDYJgAACzvnptvVoYEL", "get_weather_for_a_city_by_name", "sk-fading-circle12 sk-top-container-1",
		"npm_config_registry npm_lifecycle_event", "github_pat_rotation_days", "hf_hub_download_progress_bars", "eyJhbGciOiJIUzI1NiJ9", "eyJ.md", "AKIA and ASIA", "ghp_ and sk-... and xoxb-…",
		"2.0.0-rc.1+build.20260101", "com.example.product.feature.Name", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
		"0123456789012345678901234567890123456789", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
		"Cookie: a word", "authorization: see https://h/?a=b, then go on", "Authorization: is needed here", "cookie: none; go on",
	} {
		staysVisible(t, s, text)
	}
}

// TestLists checks names and values that alternate in lists, and commands as lists.
func TestLists(t *testing.T) {
	s := secret.New(nil)
	for _, c := range []struct{ in, want string }{
		{`["--token","x7kQ"]`, `["--token","[redacted]"]`},
		{`["Authorization","Bearer x"]`, `["Authorization","[redacted]"]`},
		{`{"headers":[["X-Api-Key","x"],["Accept","y"]]}`, `{"headers":[["X-Api-Key","[redacted]"],["Accept","y"]]}`},
		{`{"rawHeaders":["Host","h","Cookie","x","Mcp-Session-Id","y","Accept","z"]}`, `{"rawHeaders":["Host","h","Cookie","[redacted]","Mcp-Session-Id","[redacted]","Accept","z"]}`},
		{`["a","b","api_key","abc123def"]`, `["a","b","api_key","[redacted]"]`},
		{`["Cookie","a=b"]`, `["Cookie","[redacted]"]`},
		{`["mysql","-u","root","-px7kQ","shop"]`, `["mysql","-u","root","-p[redacted]","shop"]`},
		{`["/usr/bin/curl","-u","me:x7kQ","https://h/"]`, `["/usr/bin/curl","-u","me:[redacted]","https://h/"]`},
		{`["curl","--user=me:x7kQ"]`, `["curl","--user=me:[redacted]"]`},
		{`["sshpass","-p","x","ssh","h"]`, `["sshpass","-p","[redacted]","ssh","h"]`},
		{`["sshpass","-p",123456]`, `["sshpass","-p","[redacted]"]`},
		{`["docker","login","-p","x7kQ"]`, `["docker","login","-p","[redacted]"]`},
		{`{"command":"curl","args":["-u","me:x7kQ"],"x":["-u","a:b"]}`, `{"command":"curl","args":["-u","me:[redacted]"],"x":["-u","a:[redacted]"]}`},
		{`{"args":["-u","me:x7kQ"], "command": "curl"}`, `{"args":["-u","me:[redacted]"], "command": "curl"}`},
		{`["bash","-c","mysql -px7kQ"]`, `["bash","-c","mysql -p[redacted]"]`},
		{`{"dsn":"me:x@tcp(db)/shop","DATABASE_URL":"mysql://me:x@db/shop"}`, `{"dsn":"[redacted]@tcp(db)/shop","DATABASE_URL":"mysql://[redacted]@db/shop"}`},
		{`{"u":"redis:\/\/:x7@cache"}`, `{"u":"redis://[redacted]@cache"}`},
		{`{"x":"\u003cpassword\u003ex7\u003c/password\u003e"}`, `{"x":"<password>[redacted]</password>"}`},
		{`{"x":"<password>x7<\/password>"}`, `{"x":"<password>[redacted]</password>"}`},
		{`{"otp":"1","pin":1234,"OTP":true}`, `{"otp":"[redacted]","pin":"[redacted]","OTP":true}`},
		{`{"id":"AKIA` + `0123456789ABCDEF","k":"abcdefghij/0123456789+ABCDEFGHIJabcdefgh","sha":"da39a3ee5e6b4b0d3255bfef95601890afd80709"}`,
			`{"id":"[redacted]","k":"[redacted]","sha":"da39a3ee5e6b4b0d3255bfef95601890afd80709"}`},
		{`{"a":"x\nhf_` + `abcdefghijklmnopqrstuvwxyzABCDEFGH\\hf_` + `abcdefghijklmnopqrstuvwxyzABCDEFGH"}`, `{"a":"x\n[redacted]\\[redacted]"}`},

		{`{"required":["password","token2"],"enum":["token","abc123def"]}`, ``},
		{`["password","token","key"]`, ``},
		{`["Authorization","Content-Type"]`, ``},
		{`["docker","run","-p","80:80","-u","1000:1000"]`, ``},
		{`["mysql","-p","shop"]`, ``},
		{`["tool","-u","me:x"]`, ``},
		{`{"tools":["curl","mysql"],"mode":["-p"]}`, ``},
		{`["a","Authorization","Bearer of news"]`, ``},
		{`{"tokenFile":"secrets/t","pinned":1234,"spin":"x","opinion":"y"}`, ``},
		{`{"dsn":"the name","database_url":"file:x.db"}`, ``},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		got := string(s.JSON([]byte(c.in)))
		if got != want {
			t.Errorf("%s\nbecomes %s\nwant    %s", c.in, got, want)
		}
		if !jsontext.Value(got).IsValid() {
			t.Errorf("%s is no JSON", got)
		}
		if again := string(s.JSON([]byte(got))); again != got {
			t.Errorf("twice: %s, then %s", got, again)
		}
	}
}

// TestLongKinds checks that hostile texts take time proportional to their length: the test would
// take minutes otherwise.
func TestLongKinds(t *testing.T) {
	s := secret.New(nil)
	for _, text := range []string{
		strings.Repeat("<password>", 1<<18), strings.Repeat("<", 4<<20), strings.Repeat("<password name=", 1<<17), strings.Repeat("mysql -p ", 1<<18), strings.Repeat(" -p", 1<<20),
		strings.Repeat("password:\n ", 1<<18), strings.Repeat("password:\n", 1<<18), "password: |\n" + strings.Repeat(" x\n", 1<<20), strings.Repeat("password: |\n", 1<<18),
		strings.Repeat("AKIA"+"0123456789ABCDEF ", 1<<16), strings.Repeat("ghp_", 1<<20), strings.Repeat("eyJ.", 1<<20), strings.Repeat("abcdefgh_", 1<<19),
		strings.Repeat("Cookie: a=1, ", 1<<18), strings.Repeat("Authorization: x a=1, ", 1<<17), strings.Repeat("Set-Cookie: Expires=,", 1<<17), strings.Repeat("dsn:@", 1<<19), strings.Repeat("a://b:c/", 1<<18),
		strings.Repeat(`\`, 4<<20) + "n" + strings.Repeat("a", 20),
	} {
		text = shorter(text)
		s.Text(text)
		s.JSON([]byte(text))
	}
	s.JSON([]byte(`["` + strings.Repeat(`token","`, 1<<18) + `"]`))
	s.JSON([]byte(strings.Repeat(`["token","`, 1<<18)))
	s.JSON([]byte(strings.Repeat(`{"args":[`, 1<<12)))
}

// Benchmark measures messages without secrets, as most are.
func Benchmark(b *testing.B) {
	s := secret.New(nil)
	s.Add("long-secret-0123", "another-secret")
	prose := strings.Repeat(`The quick brown fox jumps over the lazy dog, see https://example.org/a_b-c?x=1 and "so" on.\n`, 10)
	for name, text := range map[string]string{
		"call":    `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Berlin","days":3,"units":["c","f"]},"_meta":{"progressToken":7}}}`,
		"prose":   fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"%s"}]}}`, strings.ReplaceAll(prose, `"so"`, `\"so\"`)),
		"image":   `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"image","data":"` + strings.Repeat("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+P/f", 1<<10) + `"}]}}`,
		"numbers": `{"values":[` + strings.Repeat(`{"x":1.5,"y":-2,"name":"a"},`, 200) + `0]}`,
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(text)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				s.JSON(data)
			}
		})
	}
}

// staysVisible checks that nothing in text is hidden, also when it is a JSON string.
func staysVisible(t *testing.T, s *secret.Set, text string) {
	t.Helper()
	if got := s.Text(text); got != text {
		t.Errorf("%q becomes %q", text, got)
	}
	message, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.JSON(message); string(got) != string(message) {
		t.Errorf("%s becomes %s", message, got)
	}
}
