package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/middleware"
)

var auditMembers = []string{"time", "request", "trace", "principal", "address", "protocol", "server", "method", "tool", "params_sha256",
	"outcome", "code", "duration_ms", "bytes_in", "bytes_out", "attempts"}

// membersOf returns the names of a line in order.
func membersOf(t *testing.T, line string) (names []string) {
	t.Helper()
	raw, err := jsonrpc.ParseRaw([]byte(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	for name := range raw.Members() {
		names = append(names, string(name))
	}
	return names
}

func idOf(t testing.TB, text string) (id jsonrpc.ID) {
	t.Helper()
	if err := id.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return id
}

func newTestLog(t *testing.T, o *auditOptions) (l *auditLog, reports *[]string) {
	t.Helper()
	reports = new([]string)
	var mu sync.Mutex
	o.report = func(what string, err error) {
		mu.Lock()
		defer mu.Unlock()
		*reports = append(*reports, what+": "+err.Error())
	}
	l, err := newAuditLog(o)
	if err != nil {
		t.Fatal(err)
	}
	return l, reports
}

func closeLog(t *testing.T, l *auditLog) {
	t.Helper()
	if err := l.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAuditLine checks the members of a line, their order and their values.
func TestAuditLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, reports := newTestLog(t, &auditOptions{path: path})
	params := jsonrpc.Raw(`{"name":"read","arguments":{"token":"canary"}}`)
	l.record(&auditEntry{time: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), request: idOf(t, "9007199254740993"), trace: "4bf92f3577b34da6a3ce929d0e0e4736",
		principal: "token:ci", address: netip.MustParseAddr("192.0.2.1"), protocol: "mcp", server: "crm", method: "tools/call", tool: "read", params: params,
		outcome: outcomeToolError, code: -32602, duration: 1500 * time.Microsecond, bytesIn: 47, bytesOut: 12, attempts: 2})
	l.record(&auditEntry{method: "evil\u202e\x1b[2J\u0085" + strings.Repeat("x", 5000), request: idOf(t, `"`+strings.Repeat("y", 5000)+"\u202e"+`"`), outcome: outcomeDenied})
	l.record(&auditEntry{method: "note", outcome: outcomeOK, request: idOf(t, `"a\u202eb"`)})
	closeLog(t, l)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	digest := sha256.Sum256(params)
	want := `{"time":"2026-01-02T03:04:05.006Z","request":9007199254740993,"trace":"4bf92f3577b34da6a3ce929d0e0e4736","principal":"token:ci","address":"192.0.2.1",` +
		`"protocol":"mcp","server":"crm","method":"tools/call","tool":"read","params_sha256":"` + hex.EncodeToString(digest[:]) +
		`","outcome":"tool_error","code":-32602,"duration_ms":1.500,"bytes_in":47,"bytes_out":12,"attempts":2}`
	if len(lines) != 3 || lines[0] != want {
		t.Fatalf("the lines are\n%s\nwant\n%s", text, want)
	}
	for _, line := range lines {
		if got := membersOf(t, line); !slices.Equal(got, auditMembers) {
			t.Errorf("members %v", got)
		}
		if len(line) > 1500 || harmless.Has(line) {
			t.Errorf("a line of %d bytes that a terminal may obey: %t", len(line), harmless.Has(line))
		}
	}
	if len(*reports) > 0 {
		t.Errorf("reports %q", *reports)
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
}

// TestAuditArguments checks that params are logged only if configured, and without secrets.
func TestAuditArguments(t *testing.T) {
	var b safeBuffer
	l, _ := newTestLog(t, &auditOptions{to: &b, arguments: true, redactor: &middleware.Redactor{Secrets: []string{"resolved-secret"}}})
	for _, params := range []string{`{"amount":5,"apiKey":"canary","text":"with resolved-secret in it","evil":"\u202e"}`, "", `["canary"]`, `{"a":"` + strings.Repeat("x", 70<<10) + `"}`, "{\"a\":\"\u202e\"}"} {
		l.record(&auditEntry{params: jsonrpc.Raw(params), outcome: outcomeOK})
	}
	closeLog(t, l)
	text := b.String()
	for _, secret := range []string{"canary", "resolved-secret", "\u202e"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log contains %q: %s", secret, text)
		}
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, want := range []string{`"amount":5`, `"arguments":null}`, `"arguments":["[redacted]"]}`, `"arguments":"[too long]"}`, `\u202e`} {
		if !json.Valid([]byte(lines[i])) || !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %s, want %s", i, lines[i], want)
		}
		if got := membersOf(t, lines[i]); !slices.Equal(got, append(slices.Clone(auditMembers), "arguments")) {
			t.Errorf("members %v", got)
		}
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A stuckDisk accepts nothing until it is released.
type stuckDisk struct{ release chan struct{} }

func (d stuckDisk) Write(p []byte) (int, error) { <-d.release; return len(p), nil }

// TestAuditNeverDelays checks that a disk that hangs delays no call, and that the lines for which
// there is no room are counted and reported.
func TestAuditNeverDelays(t *testing.T) {
	disk := stuckDisk{make(chan struct{})}
	var dropped atomic.Int64
	l, reports := newTestLog(t, &auditOptions{to: disk, dropped: func(n int) { dropped.Add(int64(n)) }})
	const calls = 40_000
	method := strings.Repeat("m", 200)
	for range calls {
		l.record(&auditEntry{method: method, outcome: outcomeOK})
	}
	if n := dropped.Load(); n == 0 || n == calls {
		t.Errorf("%d of %d lines were dropped", n, calls)
	}
	l.mu.Lock()
	if len(l.waiting) > maxAuditWaiting {
		t.Errorf("%d bytes wait", len(l.waiting))
	}
	l.mu.Unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("late"))
	if err := l.close(ctx); err == nil {
		t.Error("close waits for a disk that hangs, and has no error")
	}
	close(disk.release)
	closeLog(t, l)
	if len(*reports) < 2 || !strings.Contains((*reports)[0], "lines of the audit log were dropped") {
		t.Errorf("reports %q", *reports)
	}
}

// TestAuditFullDisk checks that an error of the disk is reported and its lines are counted, and
// that the log goes on.
func TestAuditFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		return // only Linux has it
	}
	var dropped atomic.Int64
	l, reports := newTestLog(t, &auditOptions{path: "/dev/full", dropped: func(n int) { dropped.Add(int64(n)) }})
	l.record(&auditEntry{outcome: outcomeOK})
	l.record(&auditEntry{outcome: outcomeOK})
	path := filepath.Join(t.TempDir(), "audit")
	for dropped.Load() < 2 {
		runtime.Gosched()
	}
	l.reopen(path, false, nil)
	l.record(&auditEntry{outcome: outcomeOK})
	closeLog(t, l)
	if text, err := os.ReadFile(path); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("the new file is %q, %v", text, err)
	}
	if len(*reports) < 2 {
		t.Errorf("reports %q", *reports)
	}
}

// A shortDisk accepts a part of the first write.
type shortDisk struct{ n int }

func (d *shortDisk) Write(p []byte) (int, error) {
	if d.n > 0 {
		n := d.n
		d.n = 0
		return n, io.ErrShortWrite
	}
	return len(p), nil
}

// TestAuditCountsWholeLines checks that lines which were written before an error do not count as
// dropped.
func TestAuditCountsWholeLines(t *testing.T) {
	var dropped atomic.Int64
	l := &auditLog{report: func(string, error) {}, dropped: func(n int) { dropped.Add(int64(n)) }, to: &shortDisk{n: 9}}
	l.writeLines([]byte("{one}\n{two}\n{three}\n"), 3)
	if got := dropped.Load(); got != 2 {
		t.Errorf("%d lines were dropped, want 2", got)
	}
}

// TestAuditReopens checks that the log continues in a new file after the old one was moved, that it
// appends, and that a wrong path loses lines and no calls.
func TestAuditReopens(t *testing.T) {
	dir := t.TempDir()
	path, old := filepath.Join(dir, "audit"), filepath.Join(dir, "audit.1")
	if err := os.WriteFile(path, []byte("before\n"), 0o644); err != nil { //nolint:gosec // the mode is corrected
		t.Fatal(err)
	}
	var dropped atomic.Int64
	l, _ := newTestLog(t, &auditOptions{path: path, dropped: func(n int) { dropped.Add(int64(n)) }})
	l.record(&auditEntry{method: "first", outcome: outcomeOK})
	for size := int64(0); size < 100; {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size = info.Size()
	}
	if err := os.Rename(path, old); err != nil {
		t.Fatal(err)
	}
	l.reopen(path, false, nil)
	l.record(&auditEntry{method: "second", outcome: outcomeOK})
	for {
		if info, err := os.Stat(path); err == nil && info.Size() > 100 {
			break
		}
		runtime.Gosched()
	}
	l.reopen(filepath.Join(dir, "no", "such", "folder"), false, nil)
	l.record(&auditEntry{method: "third", outcome: outcomeOK})
	closeLog(t, l)
	for name, want := range map[string][]string{old: {"before", "first"}, path: {"second"}} {
		text, err := os.ReadFile(name)
		if err != nil || strings.Count(string(text), "\n") != len(want) {
			t.Errorf("%s is %q, %v", name, text, err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s does not contain %s: %s", name, w, text)
			}
		}
		if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v, %v", name, info.Mode(), err)
		}
	}
	if dropped.Load() != 1 {
		t.Errorf("%d lines were dropped, want 1", dropped.Load())
	}
	if _, err := newAuditLog(&auditOptions{path: filepath.Join(dir, "no", "x"), report: func(string, error) {}}); err == nil {
		t.Error("a file in a folder that does not exist is opened")
	}
}

func BenchmarkAudit(b *testing.B) {
	l, err := newAuditLog(&auditOptions{to: io.Discard, report: func(string, error) {}})
	if err != nil {
		b.Fatal(err)
	}
	e := auditEntry{time: time.Now(), request: idOf(b, "12345"), principal: "https://id.example|alice|app", address: netip.MustParseAddr("192.0.2.1"), protocol: "jsonrpc", server: "billing",
		method: "billing.get", params: jsonrpc.Raw(`{"id":1,"text":"some text of usual length"}`), outcome: outcomeOK, duration: 1234 * time.Microsecond, attempts: 1}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.record(&e)
		}
	})
	if err := l.close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
