package interop

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/xml"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// h2specFails lists the cases of h2spec 2.2.1 that net/http (Go 1.26) fails, with the reason. A
// bare http.Server fails the same cases: HTTP/2 is implemented by net/http, and our listener only
// sets limits.
var h2specFails = map[string]string{
	"http2/3.5: Sends invalid connection preface":                                                                   "in cleartext only: what does not begin with the preface is read as HTTP/1, answered 400 and closed",
	"http2/4.2: Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE":                          "net/http announces frames of 1 MiB, and the case sends one of 16 KiB and more, which is allowed then; the headers in it are small enough",
	"http2/6.5.3: Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE":                                            "net/http ends the connection when a setting stands twice in a frame, as a guard against abuse",
	"http2/8.1.2.2: Sends a HEADERS frame that contains the connection-specific header field":                       "answered 400 instead of a reset: RFC 9113, section 8.1.1, allows a response to a malformed request",
	"http2/8.1.2.2: Sends a HEADERS frame that contains the TE header field with any value other than \"trailers\"": "answered 400 instead of a reset, likewise",
}

// TestH2spec runs h2spec, which checks RFC 7540 and 7541 frame by frame, against a listener over
// TLS and in cleartext. At least 139 of its 145 cases must pass, and each that fails must be in the
// table.
func TestH2spec(t *testing.T) {
	program := harness.Need(t, "h2spec", "../.cache/bin/h2spec")
	for _, scheme := range []string{"https", "http"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			l := &parley.Listener{
				Handler: new(jsonrpc.Mux),
				TLS:     selfSigned(t),
				Pages: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						panic(http.ErrAbortHandler) // some cases concern the end of a body
					}
					_, _ = io.WriteString(w, "a page of some bytes")
				}),
			}
			target, err := parley.ParseTarget(scheme + "://127.0.0.1:0/rpc")
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.Listen(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(context.Background()) }()
			defer func() {
				_ = s.Close() // the connections of the cases are no longer needed
				<-served
			}()
			_, port, err := net.SplitHostPort(s.Targets()[0].Address)
			if err != nil {
				t.Fatal(err)
			}
			report := filepath.Join(t.TempDir(), "report.xml")
			argv := []string{"--port", port, "--path", "/page", "--timeout", "5", "--junit-report", report}
			if scheme == "https" {
				argv = append(argv, "--tls", "--insecure")
			}
			// It exits with 1 if a case fails; the report contains the case.
			out, runErr := exec.CommandContext(t.Context(), program, argv...).CombinedOutput()
			passed, failed := readH2spec(t, report)
			t.Logf("%d passed, %d failed", passed, len(failed))
			for _, name := range failed {
				t.Logf("%s fails: %s", name, h2specFails[name])
				if h2specFails[name] == "" {
					t.Errorf("%s fails\n%s", name, out)
				}
			}
			if passed < 139 || passed+len(failed) != 145 {
				t.Errorf("%d of %d cases passed, want at least 139 of 145 (%v)\n%s", passed, passed+len(failed), runErr, out)
			}
		})
	}
}

// readH2spec parses the JUnit report.
func readH2spec(t *testing.T, path string) (passed int, failed []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Suites []struct {
			Name  string `xml:"name,attr"`
			ID    string `xml:"id,attr"`
			Pkg   string `xml:"package,attr"`
			Cases []struct {
				Name    string    `xml:"classname,attr"`
				Pkg     string    `xml:"package,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			if c.Failure != nil || c.Error != nil || c.Skipped != nil {
				failed = append(failed, suite.Pkg+": "+c.Name)
			} else {
				passed++
			}
		}
	}
	return passed, failed
}

// selfSigned returns a TLS configuration with a self-signed certificate for 127.0.0.1.
func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
}
