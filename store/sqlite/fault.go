package sqlite

import (
	"errors"
	"fmt"
	"strings"

	driver "modernc.org/sqlite"

	"github.com/da1ed7bb/parley/store"
)

// Result codes of SQLite (https://www.sqlite.org/rescode.html); the low byte is the primary code.
const (
	codeBusy      = 5
	codeLocked    = 6
	codeIOErr     = 10
	codeCorrupt   = 11
	codeFull      = 13
	codeNotADB    = 26
	codeIOWrite   = codeIOErr | 3<<8
	codeIOFsync   = codeIOErr | 4<<8
	codeShortRead = codeIOErr | 2<<8
)

// fault converts a database error to a Fault.
func fault(err error) *store.Fault {
	if f, ok := errors.AsType[*store.Fault](err); ok {
		return f
	}
	reason := store.ReasonFailed
	if e, ok := errors.AsType[*driver.Error](err); ok {
		switch code := e.Code(); {
		case code&0xff == codeFull, code == codeIOWrite: // a quota looks like a broken disk; the next write shows which it is
			reason = store.ReasonFull
		case code&0xff == codeCorrupt, code&0xff == codeNotADB, code == codeShortRead:
			reason = store.ReasonCorrupt
		case code&0xff == codeBusy, code&0xff == codeLocked:
			reason = store.ReasonInUse
		}
	}
	return &store.Fault{Reason: reason, Err: err}
}

// maxFindings bounds the list in a CorruptError.
const maxFindings = 100

// A CorruptError lists data that differs from what was written. It is the Err of a [store.Fault].
type CorruptError struct {
	Dir string
	// Findings has one sentence per finding, such as `log "runs/7": events 5 to 9 are missing`; at
	// most 100.
	Findings []string
	More     int // the number of findings not listed
}

func (e *CorruptError) Error() string {
	s := fmt.Sprintf("%s is corrupt: %s", e.Dir, strings.Join(e.Findings, "; "))
	if e.More > 0 {
		s += fmt.Sprintf("; and %d more", e.More)
	}
	return s
}

func (e *CorruptError) add(format string, args ...any) {
	if len(e.Findings) == maxFindings {
		e.More++
		return
	}
	e.Findings = append(e.Findings, fmt.Sprintf(format, args...))
}

func (s *Store) corrupt(format string, args ...any) *store.Fault {
	e := &CorruptError{Dir: s.dir}
	e.add(format, args...)
	return &store.Fault{Reason: store.ReasonCorrupt, Err: e}
}
