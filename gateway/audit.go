package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/middleware"
)

const (
	maxAuditWaiting   = 4 << 20          // bytes of lines that are not written yet
	maxAuditText      = 256              // bytes of a text of the client in a line
	maxAuditArguments = 64 << 10         // bytes of arguments in a line
	auditSaid         = 10 * time.Second // between two reports about the log
)

// An auditLog writes one line of JSON for each call. It never delays one: what the disk does not
// take in time is dropped and counted. Use it so:
//
//	log, err := newAuditLog(&auditOptions{path: gw.Audit, to: os.Stderr, arguments: gw.AuditArguments, …})
//	log.record(&auditEntry{…}) // from any goroutine
//	log.reopen(path, arguments, redactor) // after a reload, and to continue after the file was moved
//	log.close(ctx)
type auditLog struct {
	report  func(what string, err error)
	dropped func(lines int) // counts what was lost; may be nil

	wake chan struct{} // capacity 1
	done chan struct{} // closed when the writing goroutine has ended

	mu        sync.Mutex // guards the fields below; never held during I/O
	waiting   []byte     // complete lines
	spare     []byte     // the buffer for the lines after those
	lines     int        // in waiting
	lost      int        // lines that were not reported yet
	said      time.Time  // when lost lines were last reported
	closed    bool
	moved     bool // open the file again
	path      string
	arguments bool
	redactor  *middleware.Redactor

	// only the writing goroutine uses what is below after the start
	to         io.Writer     // of lines without a path
	file       *private.File // nil if there is no path, or it cannot be opened
	tried      time.Time     // when the file was last opened
	complained time.Time     // when an error of the file was last reported
}

// auditOptions configure an auditLog.
type auditOptions struct {
	path      string    // of the file; if empty, lines are written to to
	to        io.Writer // if nil, lines without a path are dropped without being counted
	arguments bool      // log the params, without secrets
	redactor  *middleware.Redactor
	report    func(what string, err error)
	dropped   func(lines int)
}

// An auditEntry is one call, or one that was refused.
type auditEntry struct {
	time      time.Time // of the start
	request   jsonrpc.ID
	trace     string // trace ID in hexadecimal digits; may be empty
	principal string
	address   netip.Addr // zero if unknown
	protocol  string
	server    string
	method    string
	tool      string
	params    jsonrpc.Raw
	outcome   string // one of the outcomes below
	code      int64  // of the error; 0 if none
	duration  time.Duration
	bytesIn   int64 // of params
	bytesOut  int64 // of the result
	attempts  int   // 0 if nothing was sent
}

// Outcomes of calls, in the audit log and in metrics.
const (
	outcomeOK        = "ok"
	outcomeError     = "error"
	outcomeToolError = "tool_error" // a result with isError
	outcomeDenied    = "denied"     // by policy, a pin or a limit
	outcomeCancelled = "cancelled"  // the caller did not wait
)

// newAuditLog opens the file and starts the writing goroutine.
func newAuditLog(o *auditOptions) (*auditLog, error) {
	l := &auditLog{report: o.report, dropped: o.dropped, wake: make(chan struct{}, 1), done: make(chan struct{}),
		path: o.path, to: o.to, arguments: o.arguments, redactor: o.redactor}
	if err := l.open(o.path); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	go func() {
		defer close(l.done)
		for rescue.Run(l.report, l.write) != nil { // a writer of the program's panicked: continue with the next lines
			l.lose(1)
		}
	}()
	return l, nil
}

// redactorOf returns what removes the secrets of a configuration from arguments.
func redactorOf(file *config.File) *middleware.Redactor {
	r := new(middleware.Redactor)
	for i := range file.Entries {
		r.Secrets = append(r.Secrets, file.Entries[i].Secrets...)
	}
	return r
}

// open opens the file for appending, if there is a path.
func (l *auditLog) open(path string) error {
	if path == "" {
		return nil
	}
	f, err := private.Open(path)
	if err != nil {
		return err
	}
	if !f.Special {
		if _, err := f.Seek(0, io.SeekEnd); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	l.file = f
	return nil
}

// record queues the line of a call. It does not wait.
func (l *auditLog) record(e *auditEntry) {
	l.mu.Lock()
	withArguments, redactor := l.arguments, l.redactor
	l.mu.Unlock()
	scratch := auditLines.Get().(*[]byte)
	line := e.append((*scratch)[:0])
	if withArguments {
		line = appendArguments(line[:len(line)-1], e.params, redactor)
	}
	line = append(line, '\n')
	l.mu.Lock()
	fits := !l.closed && len(l.waiting)+len(line) <= maxAuditWaiting
	if fits {
		l.waiting = append(l.waiting, line...)
		l.lines++
	}
	l.mu.Unlock()
	if cap(line) <= 16<<10 {
		*scratch = line
		auditLines.Put(scratch)
	}
	if !fits {
		l.lose(1)
		return
	}
	select {
	case l.wake <- struct{}{}:
	default: // the goroutine has been woken already
	}
}

var auditLines = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// append appends the line without a newline.
func (e *auditEntry) append(b []byte) []byte {
	b = append(b, `{"time":"`...)
	b = e.time.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, `","request":`...)
	b = appendAuditID(b, e.request)
	b = appendAuditText(b, "trace", e.trace)
	b = appendAuditText(b, "principal", e.principal)
	b = append(b, `,"address":"`...)
	if e.address.IsValid() {
		b = e.address.AppendTo(b) // a zone is of this machine
	}
	b = append(b, '"')
	b = appendAuditText(b, "protocol", e.protocol)
	b = appendAuditText(b, "server", e.server)
	b = appendAuditText(b, "method", e.method)
	b = appendAuditText(b, "tool", e.tool)
	digest := sha256.Sum256(e.params)
	b = append(b, `,"params_sha256":"`...)
	b = hex.AppendEncode(b, digest[:])
	b = append(b, `","outcome":"`...)
	b = append(b, e.outcome...)
	b = append(b, `","code":`...)
	if e.code == 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, e.code, 10)
	}
	b = append(b, `,"duration_ms":`...)
	b = strconv.AppendFloat(b, float64(e.duration.Microseconds())/1000, 'f', 3, 64)
	b = append(b, `,"bytes_in":`...)
	b = strconv.AppendInt(b, e.bytesIn, 10)
	b = append(b, `,"bytes_out":`...)
	b = strconv.AppendInt(b, e.bytesOut, 10)
	b = append(b, `,"attempts":`...)
	b = strconv.AppendInt(b, int64(e.attempts), 10)
	return append(b, '}')
}

// appendAuditID appends the ID of a request as the client wrote it, or null for a notification. A
// long one is shortened, and then a text.
func appendAuditID(b []byte, id jsonrpc.ID) []byte {
	if id.IsZero() {
		return append(b, "null"...)
	}
	start := len(b)
	b = id.Append(b)
	if text := string(b[start:]); len(text) > maxAuditText {
		b = jsonrpc.AppendString(b[:start], harmless.Cut(text, maxAuditText))
	} else if !harmless.Has(text) {
		return b
	}
	safe := harmless.AppendJSON(nil, b[start:])
	return append(b[:start], safe...)
}

// appendAuditText appends a member with a text, which is shortened and safe on a terminal.
func appendAuditText(b []byte, name, text string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	if len(text) > maxAuditText {
		text = harmless.Cut(text, maxAuditText)
	}
	start := len(b)
	b = jsonrpc.AppendString(b, text)
	if !harmless.Has(text) {
		return b
	}
	safe := harmless.AppendJSON(nil, b[start:])
	return append(b[:start], safe...)
}

// appendArguments appends the params without secrets to a line without its closing brace.
func appendArguments(b []byte, params jsonrpc.Raw, redactor *middleware.Redactor) []byte {
	b = append(b, `,"arguments":`...)
	switch {
	case len(params) == 0:
		b = append(b, "null"...)
	case len(params) > maxAuditArguments:
		b = append(b, `"[too long]"`...)
	default:
		if redactor == nil {
			redactor = new(middleware.Redactor)
		}
		text := redactor.Text(params)
		if _, err := jsonrpc.ParseRaw([]byte(text)); err != nil {
			b = append(b, `"[not JSON]"`...)
			break
		}
		b = harmless.AppendJSON(b, []byte(text))
	}
	return append(b, '}')
}

// lose counts lines that are not written, and reports them now and then.
func (l *auditLog) lose(lines int) {
	l.mu.Lock()
	l.lost += lines
	l.mu.Unlock()
	if l.dropped != nil {
		l.dropped(lines)
	}
	l.sayLost(false)
}

// sayLost reports the lines that were lost since the last report, if that is long ago or final is
// set.
func (l *auditLog) sayLost(final bool) {
	l.mu.Lock()
	lost := l.lost
	if lost == 0 || !final && time.Since(l.said) < auditSaid {
		l.mu.Unlock()
		return
	}
	l.lost, l.said = 0, time.Now()
	l.mu.Unlock()
	l.report(ReportAudit, fmt.Errorf("%d lines of the audit log were dropped, since they could not be written in time", lost))
}

// write writes lines until the log is closed.
func (l *auditLog) write() {
	for range l.wake {
		for {
			l.mu.Lock()
			text, lines, moved, path, closed := l.waiting, l.lines, l.moved, l.path, l.closed
			l.waiting, l.spare, l.lines, l.moved = l.spare[:0], nil, 0, false
			l.mu.Unlock()
			if moved || l.file == nil && path != "" && time.Since(l.tried) >= time.Second {
				l.openAgain(path)
			}
			if len(text) > 0 {
				l.writeLines(text, lines)
			}
			l.mu.Lock()
			l.spare = text[:0]
			more := len(l.waiting) > 0
			l.mu.Unlock()
			if more {
				continue
			}
			if closed {
				l.closeFile()
				return
			}
			break
		}
		l.sayLost(false)
	}
}

// writeLines writes complete lines. What cannot be written is lost.
func (l *auditLog) writeLines(text []byte, lines int) {
	to := l.to
	if l.file != nil {
		to = l.file
	}
	if to == nil || l.file == nil && l.hasPath() {
		if l.hasPath() {
			l.lose(lines)
		}
		return
	}
	n, err := to.Write(text)
	if err == nil {
		return
	}
	l.complain(err)
	whole := 0
	for _, c := range text[:min(max(n, 0), len(text))] {
		if c == '\n' {
			whole++
		}
	}
	if n > 0 && text[n-1] != '\n' && l.file != nil && !l.file.Special {
		l.cutLine(int64(n - 1 - lastNewline(text[:n])))
	}
	l.lose(lines - whole)
}

// lastNewline returns the index of the last newline, or -1.
func lastNewline(text []byte) int {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '\n' {
			return i
		}
	}
	return -1
}

// cutLine removes the beginning of a line that could not be written completely.
func (l *auditLog) cutLine(n int64) {
	end, err := l.file.Seek(0, io.SeekCurrent)
	if err != nil || end < n || l.file.Truncate(end-n) != nil {
		return // the next line is then joined to it
	}
	_, _ = l.file.Seek(end-n, io.SeekStart) // an error would be that of the next write
}

func (l *auditLog) hasPath() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.path != ""
}

// openAgain opens the file of this path in place of the current one.
func (l *auditLog) openAgain(path string) {
	l.closeFile()
	l.tried = time.Now()
	if err := l.open(path); err != nil {
		l.complain(err)
	}
}

// complain reports an error of the file, now and then.
func (l *auditLog) complain(err error) {
	if time.Since(l.complained) >= auditSaid {
		l.complained = time.Now()
		l.report(ReportAudit, fmt.Errorf("audit: %w", err))
	}
}

func (l *auditLog) closeFile() {
	if l.file == nil {
		return
	}
	if err := l.file.Close(); err != nil {
		l.complain(err)
	}
	l.file = nil
}

// reopen applies a new configuration. Lines from now on are written to the file of this path, which
// is opened again also if it is the same: it may have been moved away.
func (l *auditLog) reopen(path string, arguments bool, redactor *middleware.Redactor) {
	l.mu.Lock()
	l.path, l.arguments, l.redactor, l.moved = path, arguments, redactor, true
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// close writes what waits, until ctx ends. Later calls are not recorded.
func (l *auditLog) close(ctx context.Context) error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if first {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	select {
	case <-l.done:
		l.sayLost(true)
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		l.lost += l.lines
		l.mu.Unlock()
		l.sayLost(true)
		return context.Cause(ctx)
	}
}
