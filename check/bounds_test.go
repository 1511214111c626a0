package check_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/check"
)

// hostile serves connections with a function.
func hostile(t *testing.T, f func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wait.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // the test is over
		mu.Lock()
		for _, c := range open {
			_ = c.Close() // the test is over
		}
		mu.Unlock()
		wait.Wait()
	})
	return "tcp://" + l.Addr().String()
}

// TestHostileServers checks servers that never answer, never stop, or answer with garbage: each
// check ends within its budget, and the verdict is Fail.
func TestHostileServers(t *testing.T) {
	for name, f := range map[string]func(c net.Conn){
		"silent":      func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"closes":      func(net.Conn) {},
		"endless":     func(c net.Conn) { _, _ = io.Copy(c, endless("x")) },
		"newlines":    func(c net.Conn) { _, _ = io.Copy(c, endless("\n")) },
		"messages":    func(c net.Conn) { _, _ = io.Copy(c, endless(`{"jsonrpc":"2.0","id":1,"result":1}`+"\n")) },
		"own-request": func(c net.Conn) { _, _ = io.Copy(c, endless(`{"jsonrpc":"2.0","id":1,"method":"x"}`+"\n")) },
		"garbage":     func(c net.Conn) { _, _ = io.Copy(c, endless("\x00\xff{[\"\n")) },
		"nested":      func(c net.Conn) { _, _ = io.WriteString(c, strings.Repeat("[", 1<<20)+"\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := everything()
			o.Timeout, o.Budget = 100*time.Millisecond, 3*time.Second
			for _, target := range []string{hostile(t, f)} {
				if report := run(t, target, o); report.Verdict != check.Fail {
					t.Errorf("%s: %s", target, report.Verdict)
				}
				web := "http" + strings.TrimPrefix(target, "tcp") + "/"
				if report := run(t, web, o); report.Verdict != check.Fail {
					t.Errorf("%s: %s", web, report.Verdict)
				}
			}
		})
	}
}

// endless repeats a text.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e) <= len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at, err := parley.ParseTarget("tcp://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // nothing listens from here on
	_, err = check.Check(t.Context(), at, nil)
	if _, ok := errors.AsType[*check.UnreachableError](err); !ok {
		t.Errorf("%v", err)
	}
	at.Scheme = "gopher"
	if _, err := check.Check(t.Context(), at, nil); err == nil {
		t.Error("gopher was checked")
	}
}

// TestUnmappedMethods requires that rules whose methods are not named are not checked.
func TestUnmappedMethods(t *testing.T) {
	report := run(t, serve(t, new(plainServer))["tcp"], &check.Options{Only: []string{"panic", "value", "fail", "id"}})
	for _, r := range report.Rules {
		family, _, _ := strings.Cut(r.ID, "/")
		if want := map[string]check.Outcome{"id": check.Pass}[family]; want == "" && r.Outcome != check.NotChecked || want != "" && r.Outcome != want {
			t.Errorf("%s: %s %s", r.ID, r.Outcome, r.Why)
		}
	}
	if report.Verdict != check.Pass || report.Counts.NotChecked < 60 {
		t.Errorf("%s, %+v", report.Verdict, report.Counts)
	}
}

// TestExports checks that the exports are well-formed and have one entry for each rule.
func TestExports(t *testing.T) {
	report := run(t, serve(t, &plainServer{defect: "nul-lost"})["http"], &check.Options{Echo: "echo", Strict: true, Only: []string{"value", "batch"}})
	var junit, sarif bytes.Buffer
	if err := errors.Join(report.WriteJUnit(&junit, true), report.WriteSARIF(&sarif, true)); err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(junit.Bytes(), &suites); err != nil {
		t.Fatal(err)
	}
	if suites.Tests != len(report.Rules) || suites.Failures != len(report.Violations(true)) || suites.Failures == 0 || len(suites.Suites) < 2 {
		t.Errorf("%d tests and %d failures in %d suites, want %d and %d", suites.Tests, suites.Failures, len(suites.Suites), len(report.Rules), len(report.Violations(true)))
	}
	var log struct {
		Version string
		Runs    []struct {
			Results []struct{ RuleID, Kind, Level string }
		}
	}
	if err := json.Unmarshal(sarif.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 || len(log.Runs[0].Results) != len(report.Rules) {
		t.Errorf("%+v", log)
	}
	text, err := json.Marshal(report)
	if err != nil || !bytes.Contains(text, []byte(`"rules":[{"id":`)) || !bytes.Contains(text, []byte(`"outcome":"not_checked"`)) {
		t.Errorf("%v %.300s", err, text)
	}
}
