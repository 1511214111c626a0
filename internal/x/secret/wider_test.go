package secret_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/secret"
)

// wider are further texts for TestKinds: commands, files, addresses.
var wider = []struct{ text, secret string }{
	// Commands with the password after a slash, a percent sign or a comma, or as the last argument.
	{"sqlplus me/¶@db", ""},
	{"sqlplus -s me/¶@//host:1521/x @script.sql", ""},
	{"sqlplus64 -L me/¶", ""},
	{"sqlplus me/\"¶\"@db", ""},
	{"expdp system/¶@orcl full=y", ""},
	{"sqlldr userid=me/¶ control=a/b.ctl", ""},
	{"exp me/¶@db file=x", ""},
	{"rman target sys/¶@db", ""},
	{"smbclient //h/s -U me%¶", ""},
	{"smbclient -U 'DOM\\me%¶' //h/s", ""},
	{"rpcclient --user=me%¶ h", ""},
	{"lftp -u me,¶ h", ""},
	{"htpasswd -b f me ¶", ""},
	{"htpasswd -nbB me ¶", ""},
	{"rabbitmqctl add_user me ¶", ""},
	{"rabbitmqctl -n r change_password me ¶", ""},
	// Flags with other names, and words as passwords.
	{"docker login --password ¶ -u me", ""},
	{"redis-cli --pass ¶ ping", ""},
	{"wget --user=me --password ¶ h", ""},
	{"gpg --batch --passphrase ¶ -d x", ""},
	{"svn co --username me --password ¶ u", ""},
	{"mongosh --password ¶ -u me", ""},
	{"keytool -storepass ¶ -list", ""},
	{"ssh-keygen -N ¶ -f x", ""},
	{"plink -pw ¶ me@h", ""},
	{"az login -u me -p ¶", ""},
	{"ldappasswd -s ¶ dn", ""},
	{"rar a -hp¶ x.rar", ""},
	{"rar a -p¶ x.rar", ""},
	{"ipmitool -U a -P ¶ -H h", ""},
	{"cqlsh -u me -p ¶", ""},
	{"kubectl create secret generic x --from-literal=foo=¶", "foo=¶"},
	{"aws configure set aws_secret_access_key ¶1", "¶1"},
	{"npm config set //npm.example/:_auth" + "Token ¶1", "¶1"},
	{"SETX API_KEY ¶1", "¶1"},
	{"ansible-playbook -e 'ansible_become_pass=¶'", ""},
	{"requests.get(u, auth=('me', '¶'))", "'me', '¶'"},

	// Files.
	{"localhost:5432:*:me:¶\n", ""},
	{"# comment\n*:*:*:postgres:¶", ""},
	{"10.0.0.1:6432:a.b:me:a\\:¶\n", "a\\:¶"},
	{"apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  foo: ¶\n", ""},
	{"apiVersion: v1\nstringData:\n  foo: ¶\nkind: Secret\n", ""},
	{"apiVersion: v1\ndata:\n  mode: on\nkind: ConfigMap\n---\nkind: Secret\nstringData:\n  foo: \"¶ and more\"\n---\ndata:\n  mode: on\nkind: ConfigMap\n", "¶ and more"},
	{"items:\n- data:\n    mode: on\n  kind: ConfigMap\n- kind: Secret\n  data:\n    foo: ¶\n- data:\n    mode: on\n  kind: ConfigMap\n", ""},
	{"kind: Secret\nstringData:\n  foo: |\n    ¶\n", ""},
	{"variable \"db_password\" {\n  type    = string\n  default = \"¶\"\n}", ""},
	{"machine h\nlogin me\npassword ¶\n", ""},
	{"USER me\r\nPASS ¶\r\n", ""},
	{"network={\n ssid=\"x\"\n psk=\"¶\"\n}", ""},

	// Addresses.
	{"postgres://me:a\"¶@h/db", "me:a\"¶"},
	{"postgres://me:a'¶@h/db", "me:a'¶"},
	{"mysql://me:\"¶\"@h.example:3306/", "me:\"¶\""},
	{"url='https://me:a\"¶@h/x' and more", "me:a\"¶"},
	{"url=\"https://me:a'¶@h/x\" and more", "me:a'¶"},
	{"https://me:a`¶@10.0.0.1/", "me:a`¶"},
	{"jdbc:oracle:oci8:me/¶@h", "me/¶"},
	{"https://x.webhook.office.com/webhookb2/¶-abcdefghij@x/IncomingWebhook/a/1", "¶-abcdefghij@x/IncomingWebhook/a/1"},
	{"https://outlook.office.com/webhook/¶-abcdefghij@x/IncomingWebhook/a/1", "¶-abcdefghij@x/IncomingWebhook/a/1"},
	{"https://discord.com/api/v10/webhooks/123456789/¶abcdefghijklmnop?wait=true", "¶abcdefghijklmnop"},
	{"https://ptb.discord.com/api/webhooks/123456789/¶abcdefghijklmnop", "¶abcdefghijklmnop"},
	{"https://hooks.zapier.com/hooks/catch/1234567/¶abcdefgh/", "1234567/¶abcdefgh/"},
	{"https://maker.ifttt.com/trigger/x/with/key/¶abcdefghijkl", "¶abcdefghijkl"},
	{"https://chat.example/hooks/abcdefghijklmnopqrstuvwx42", "abcdefghijklmnopqrstuvwx42"},
}

// TestPairs checks names and values that belong together, as members of an object or as two strings
// of a list.
func TestPairs(t *testing.T) {
	s := secret.New(nil)
	for _, c := range []struct{ in, want string }{
		{`["password","word"]`, `["password","[redacted]"]`},
		{`{"a":["api_key","word"]}`, `{"a":["api_key","[redacted]"]}`},
		{`[ "token" , "word" ]`, `[ "token" , "[redacted]" ]`},
		{`{"name":"Authorization","content":"word"}`, `{"name":"Authorization","content":"[redacted]"}`},
		{`{"content":"Basic word","name":"Authorization"}`, `{"content":"[redacted]","name":"Authorization"}`},
		{`{"key":"password","text":"word"}`, `{"key":"password","text":"[redacted]"}`},
		{`{"header":"X-Api-Key","data":"word"}`, `{"header":"X-Api-Key","data":"[redacted]"}`},
		{`{"param":"password","value":"a word"}`, `{"param":"password","value":"[redacted]"}`},
		{`{"id":"api_key","value":"word"}`, `{"id":"api_key","value":"[redacted]"}`},
		{`{"n":"password","v":"word"}`, `{"n":"password","v":"[redacted]"}`},
		{`{"type":"password","value":"word"}`, `{"type":"password","value":"[redacted]"}`},
		{`{"headerName":"X-Api-Key","headerValue":"word"}`, `{"headerName":"X-Api-Key","headerValue":"[redacted]"}`},
		{`{"fieldValue":"word","fieldName":"password"}`, `{"fieldValue":"[redacted]","fieldName":"password"}`},
		{`{"OptionName":"DB_PASSWORD","Value":"word"}`, `{"OptionName":"DB_PASSWORD","Value":"[redacted]"}`},
		{`{"ParameterKey":"DbPassword","ParameterValue":"word"}`, `{"ParameterKey":"[redacted]","ParameterValue":"[redacted]"}`},
		{`{"name":"token","default":"hunter2"}`, `{"name":"token","default":"[redacted]"}`},
		{`{"sensitive":true,"type":"string","value":"word"}`, `{"sensitive":true,"type":"string","value":"[redacted]"}`},
		{`{"value":{"a":"word"},"sensitive":true}`, `{"value":"[redacted]","sensitive":true}`},
		{`{"kind":"Secret","data":{"foo":"d29yZA=="},"stringData":{"a":{"b":"word"}}}`, `{"kind":"Secret","data":{"foo":"[redacted]"},"stringData":{"a":{"b":"[redacted]"}}}`},
		{`{"data":{"foo":"d29yZA=="},"stringData":{"foo":"word"},"kind":"Secret"}`, `{"data":"[redacted]","stringData":"[redacted]","kind":"Secret"}`},
		{`{"items":[{"data":{"a":"on"},"kind":"ConfigMap"},{"data":{"a":"word"},"kind":"Secret"},{"data":{"a":"on"}}]}`, `{"items":[{"data":{"a":"on"},"kind":"ConfigMap"},{"data":"[redacted]","kind":"Secret"},{"data":{"a":"on"}}]}`},
		{`["sqlplus","-s","me/word@db","@a/b.sql"]`, `["sqlplus","-s","me/[redacted]@db","@a/b.sql"]`},
		{`{"command":"smbclient","args":["-U","me%word","//h/s"]}`, `{"command":"smbclient","args":["-U","me%[redacted]","//h/s"]}`},
		{`["htpasswd","-b","f","me","word"]`, `["htpasswd","-b","f","me","[redacted]"]`},
		{`["plink","-pw","word","h"]`, `["plink","-pw","[redacted]","h"]`},
		{`["docker","login","--password","word"]`, `["docker","login","--password","[redacted]"]`},
		{`{"httpAuth":["me","word"]}`, `{"httpAuth":["[redacted]","[redacted]"]}`},

		{`["password","username"]`, ``},
		{`["token","refresh"]`, ``},
		{`["tokens","many"]`, ``},
		{`["secret","password"]`, ``},
		{`["password"]`, ``},
		{`["a","password"]`, ``},
		{`["key","value"]`, ``},
		{`{"required":["password","word"]}`, ``},
		{`{"name":"get_token","content":"The token is not here."}`, ``},
		{`{"name":"reset_password","content":[{"type":"text","text":"word"}]}`, ``},
		{`{"key":"password","text":"Password"}`, ``},
		{`{"name":"token","default":"none","text":"A word of many","body":"https://h/x"}`, ``},
		{`{"name":"total_tokens","value":123}`, ``},
		{`{"label":"Tokens","value":"12,345"}`, ``},
		{`{"id":"key-123","value":"x"}`, ``},
		{`{"type":"token","value":"if"}`, ``},
		{`{"type":"text","text":"secret"}`, ``},
		{`{"sensitive":false,"value":"x"}`, ``},
		{`{"kind":"ConfigMap","data":{"a":"on"}}`, ``},
		{`{"kind":"Secret","metadata":{"name":"x"},"type":"Opaque"}`, ``},
		{`["htpasswd","f","me"]`, ``},
		{`["sqlplus","/nolog","@a/b.sql"]`, ``},
		{`["smbclient","-U","me","//h/s"]`, ``},
		{`["kubectl","create","configmap","x","--from-literal=a=b"]`, ``},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		for _, form := range [][2]string{{c.in, want}, {"got " + c.in + " here", "got " + want + " here"}} {
			if got := s.Text(form[0]); got != form[1] {
				t.Errorf("Text(%s)\nis   %s\nwant %s", form[0], got, form[1])
			}
		}
		got := string(s.JSON([]byte(c.in)))
		if got != want || !jsontext.Value(got).IsValid() {
			t.Errorf("%s\nbecomes %s\nwant    %s", c.in, got, want)
		}
		if again := string(s.JSON([]byte(got))); again != got {
			t.Errorf("twice: %s, then %s", got, again)
		}
	}
	for in, want := range map[string]string{"x = ['password', 'word']": "x = ['password', '[redacted]']", "['token', 'type']": "", "['a', 'b']": ""} {
		if want == "" {
			want = in
		}
		if got := s.Text(in); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

// TestWiderVisible checks that ordinary text next to the shapes of wider is not redacted.
func TestWiderVisible(t *testing.T) {
	s := secret.New(nil)
	for _, text := range []string{
		"sqlplus / as sysdba", "sqlplus /nolog @a/b.sql", "use sqlplus and/or rman", "exp and/or imp", "2 years exp a/b", "rman target / catalog x", "a man and/or a woman", "sqlldr control=a/b.ctl",
		"smbclient -U me //h/s", "lftp -u me h", "htpasswd f me", "htpasswd -c /etc/f me other", "rabbitmqctl list_users", "mysql --password shop", "rar a -r x.rar", "zip -r x.zip y", "ssh-keygen -t ed25519 -f x",
		"config set token limits", "npm config set registry https://h/", "aws configure set region eu-1", "az account show -p", "kubectl get secret x -o yaml", "kubectl create configmap x --from-literal=a=b",
		"main.go:5432: error", "12:54:32:10:20", "2001:db8:5432:1:2:3", "host:5432", "host:5432:db", "see h:5432:a:b:c d", "fe80:5432:a:b:c:d",
		"kind: Secret", "kind: Secretary\ndata:\n  a: b\n", "kind: ConfigMap\ndata:\n  a: on\n", "my kind: Secret\ndata:\n  a: b\n", "kind: Secret\nmetadata:\n  name: x\n  labels:\n    a: b\n",
		"variable \"region\" {\n  default = \"eu\"\n}", "variable \"token\" {\n  type = string\n}\nvariable \"x\" {\n  default = \"eu\"\n}", "variable \"token\" is unset",
		"PASS TestX", "PASS src/x.test.js", "all tests PASS now",
		"'http://me:abc', 'x@y.com'", "\"http://h:80\",\"x@y.com\"", "http://h:80'x@y", "<a href=\"http://h\">me@x.com</a>", "<https://h:80> x@y.z", "http://me:abc' and x@y",
		"https://h.example/hooks/abc", "https://discord.com/api/v10/webhooks/", "https://discord.com/channels/123456789/123456789012345678", "https://hooks.slack.com/", "https://nothooks.zapier.com.example/hooks/catch/1234567/abcdefghijkl/",
		"the password 'word' is wrong", "unexpected token \"}\"", "risk=1 psk", "auth=()",
	} {
		staysVisible(t, s, text)
	}
}

// TestLongWider checks that hostile texts take time proportional to their length: the test would
// take minutes otherwise.
func TestLongWider(t *testing.T) {
	s := secret.New(nil)
	for _, text := range []string{
		strings.Repeat("sqlplus ", 1<<17), strings.Repeat("sqlplus a/b ", 1<<16), strings.Repeat("htpasswd -b ", 1<<16), strings.Repeat("kind: Secret\n", 1<<16), "kind: Secret\ndata:\n" + strings.Repeat(" a: b\n", 1<<16),
		strings.Repeat("data:\n a: b\n", 1<<16), strings.Repeat("- data:\n    a: b\n", 1<<16) + "  kind: Secret\n", strings.Repeat("variable \"token\" {", 1<<15), strings.Repeat("variable \"token\" { default = ", 1<<15),
		strings.Repeat("x:5432:", 1<<17), strings.Repeat("x:*:a:b:", 1<<17), strings.Repeat("a://b:c'", 1<<16), strings.Repeat("a://b:c'd@e", 1<<16), strings.Repeat("['token', '", 1<<16), strings.Repeat("USER a\nPASS ", 1<<16),
		strings.Repeat("config set token ", 1<<16), strings.Repeat("https://hooks.slack.com/services/", 1<<14), strings.Repeat("https://h/hooks/abcdefghij", 1<<15), strings.Repeat("token=('", 1<<16),
	} {
		text = shorter(text)
		s.Text(text)
		s.JSON([]byte(text))
		s.JSON([]byte(`"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(text) + `"`))
	}
	for _, text := range []string{
		strings.Repeat(`["token","x"],`, 1<<16), strings.Repeat(`["token",`, 1<<16), strings.Repeat(`{"data":{`, 1<<15), strings.Repeat(`{"kind":"Secret","data":{`, 1<<15), `{` + strings.Repeat(`"data":{},"kind":"Secret",`, 1<<15),
		`{` + strings.Repeat(`"content":"x","name":"token",`, 1<<15), strings.Repeat(`{"xName":"`, 1<<16), `{` + strings.Repeat(`"sensitive":true,"value":1,`, 1<<15),
	} {
		text = shorter(text)
		s.JSON([]byte(text))
	}
}
