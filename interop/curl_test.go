package interop

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/interop/harness"
)

// curl runs curl and splits its output into status line and headers, and body.
func curl(t *testing.T, input string, args ...string) (head, body string) {
	t.Helper()
	program, err := exec.LookPath("curl")
	if err != nil {
		t.Fatalf("curl is missing (%v); run: make setup", err)
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--silent", "--show-error", "--include", "--max-time", "20", "--noproxy", "*"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("curl %q: %v\n%s%s", args, err, out, stderr.Bytes())
	}
	text := string(out)
	for {
		var rest string
		head, rest, _ = strings.Cut(text, "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 100") {
			return head, rest
		}
		text = rest
	}
}

func TestCurl(t *testing.T) {
	t.Parallel()
	url := harness.Demo(t, "http://127.0.0.1:0")[0]
	const kind = "Content-Type: application/json"
	for _, c := range []struct {
		name, send string
		args       []string
		status     string
		header     string // must be one of the headers
		want       string // the body, compared as JSON; "" for an empty one
	}{
		{"a call", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}`, nil, "200", "Content-Type: application/json", `{"jsonrpc":"2.0","id":1,"result":19}`},
		{"by name", `{"jsonrpc":"2.0","id":"a","method":"subtract","params":{"subtrahend":23,"minuend":42}}`, nil, "200", "", `{"jsonrpc":"2.0","id":"a","result":19}`},
		{"a notification", `{"jsonrpc":"2.0","method":"update","params":[1,2,3]}`, nil, "204", "", ``},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"get_data"},{"jsonrpc":"2.0","method":"update"},1]`, nil, "200", "",
			`[{"jsonrpc":"2.0","id":1,"result":["hello",5]},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}]`},
		{"a batch of notifications", `[{"jsonrpc":"2.0","method":"update"}]`, nil, "204", "", ``},
		{"broken JSON", `{"jsonrpc":"2.0","id":1,`, nil, "200", "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`},
		{"an empty batch", `[]`, nil, "200", "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`},
		{"an unknown method", `{"jsonrpc":"2.0","id":null,"method":"foobar"}`, nil, "200", "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}`},
		{"a chunked body", `{"jsonrpc":"2.0","id":2,"method":"add","params":{"a":5,"b":3}}`, []string{"-H", "Transfer-Encoding: chunked"}, "200", "", `{"jsonrpc":"2.0","id":2,"result":8}`},
		{"an announced body", `{"jsonrpc":"2.0","id":3,"method":"add","params":[5,3]}`, []string{"-H", "Expect: 100-continue"}, "200", "", `{"jsonrpc":"2.0","id":3,"result":8}`},
		{"HTTP/1.0", `{"jsonrpc":"2.0","id":4,"method":"add","params":[5,3]}`, []string{"--http1.0"}, "200", "", `{"jsonrpc":"2.0","id":4,"result":8}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"-X", "POST", "-H", kind, "--data-binary", "@-", url}, c.args...)
			head, body := curl(t, c.send, args...)
			if !strings.Contains(strings.SplitN(head, "\r\n", 2)[0], " "+c.status) || !strings.Contains(strings.ToLower(head), strings.ToLower(c.header)) {
				t.Errorf("sent %s\ngot %s\nwant the status %s and %q", c.send, head, c.status, c.header)
			}
			if (c.want == "") != (body == "") || c.want != "" && !sameJSON(t, []byte(body), []byte(c.want)) {
				t.Errorf("sent %s\ngot  %s\nwant %s", c.send, body, c.want)
			}
		})
	}
	for name, c := range map[string]struct {
		args   []string
		status string
		header string
	}{
		"a form":       {[]string{"--data", `{"jsonrpc":"2.0","id":1,"method":"get_data"}`, url}, "415", ""},
		"GET":          {[]string{url}, "405", "allow: "},
		"PUT":          {[]string{"-X", "PUT", "-H", kind, "--data", "{}", url}, "405", "allow: "},
		"another host": {[]string{"-H", "Host: example.com", "-H", kind, "--data", "{}", url}, "403", ""},
		"a web page":   {[]string{"-H", "Origin: https://example.com", "-H", kind, "--data", "{}", url}, "403", ""},
		"health":       {[]string{strings.TrimSuffix(url, "/rpc") + "/healthz"}, "200", ""},
		"the page":     {[]string{strings.TrimSuffix(url, "/rpc") + "/"}, "200", "content-type: text/html"},
	} {
		t.Run(name, func(t *testing.T) {
			head, _ := curl(t, "", c.args...)
			if !strings.Contains(strings.SplitN(head, "\r\n", 2)[0], " "+c.status) || !strings.Contains(strings.ToLower(head), c.header) {
				t.Errorf("got %s\nwant the status %s and %q", head, c.status, c.header)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		head, _ := curl(t, `["`+strings.Repeat("x", 5<<20)+`"]`, "-H", kind, "--data-binary", "@-", url)
		if !strings.Contains(head, " 413") {
			t.Errorf("5 MiB: %s", head)
		}
	})
	t.Run("events", func(t *testing.T) {
		send := `{"jsonrpc":"2.0","id":7,"method":"countdown","params":{"from":3,"interval_ms":1}}`
		head, body := curl(t, send, "--no-buffer", "-H", kind, "-H", "Accept: application/json, text/event-stream", "--data-binary", "@-", url)
		if !strings.Contains(strings.ToLower(head), "content-type: text/event-stream") {
			t.Fatalf("got %s", head)
		}
		var ticks []int
		var result string
		for line := range strings.Lines(body) {
			data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data:")
			if !ok {
				continue
			}
			var m struct {
				Method string
				Params struct{ Left int }
				ID     int
				Result string
			}
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Errorf("%s: %v", data, err)
			}
			if m.Method == "countdown/tick" {
				ticks = append(ticks, m.Params.Left)
			} else {
				result = m.Result
			}
		}
		if len(ticks) != 3 || ticks[0] != 3 || ticks[2] != 1 || result != "liftoff" {
			t.Errorf("ticks %v, then %q:\n%s", ticks, result, body)
		}
	})
}

// TestCurlHTTP2 uses curl over TLS, where it uses HTTP/2.
func TestCurlHTTP2(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	url := harness.DemoWith(t, []string{"--tls-cert", cert, "--tls-key", key}, "https://127.0.0.1:0")[0]
	head, body := curl(t, `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}`,
		"--http2", "--cacert", cert, "-H", "Content-Type: application/json", "--data-binary", "@-", url)
	if !strings.HasPrefix(head, "HTTP/2 200") || !sameJSON(t, []byte(body), []byte(`{"jsonrpc":"2.0","id":1,"result":19}`)) {
		t.Errorf("got %s\n\n%s", head, body)
	}
}

// certificate creates a self-signed certificate for 127.0.0.1, and writes it and its key to files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "127.0.0.1"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
