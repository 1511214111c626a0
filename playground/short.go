package playground

import (
	"slices"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

// This file encodes rows in a short form. Most of the time for a long session is spent in the
// browser on parsing 100,000 objects. Therefore the common properties of a portion's rows are sent
// once, in "all", and most rows are lists:
//
//	[ref, time, kind, dir, id, method, bytes, parent, call, answer,
//	 state, ms, brief, name, http, code]
//
// kind, dir and state are indexes into the lists below, which the page also has
// (web/src/lib/short.js). refs are numbers. Empty values are 0 and are omitted at the end. A row
// with additional properties is an object, as capture.Row.AppendJSON writes it. All rows have the
// conn, target, carrier, session and version of "all" (exchanges have no version), except an object
// with a "conn" or of kind lost, which has its own.

var (
	shortKinds  = []string{"", capture.RowRequest, capture.RowNotification, capture.RowResult, capture.RowError, capture.RowStderr, capture.RowClose, capture.RowHTTP}
	shortStates = []string{"", capture.StateWaiting, capture.StateDone, capture.StateFailed, capture.StateCancelled, capture.StateUnanswered}
)

// A common holds the properties that the rows of a portion share.
type common struct {
	Conn    int64  `json:"conn"`
	Target  string `json:"target,omitzero"`
	Carrier string `json:"carrier,omitzero"`
	Session string `json:"session,omitzero"`
	Version string `json:"version,omitzero"`
}

func commonOf(r *capture.Row) common {
	return common{r.Conn, r.Target, r.Carrier, r.Session, r.Version}
}

// appendShort appends the members "all" and "rows".
func appendShort(dst []byte, rows []capture.Row) []byte {
	// The first message of a portion is the reference. A connection opened before it has no session
	// yet.
	lead := &rows[max(0, slices.IndexFunc(rows, func(r capture.Row) bool { return r.Conn > 0 && r.Method != "" && r.Kind != capture.RowHTTP }))]
	all := commonOf(lead)
	dst = append(append(dst, `,"all":`...), raw(all)...)
	dst = append(dst, `,"rows":[`...)
	for i := range rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		r := &rows[i]
		r.Rev, r.Count = 0, 0 // the page does not use them
		mine := commonOf(r)
		if r.Kind == capture.RowHTTP && r.Version == "" {
			mine.Version = all.Version
		}
		if mine != all {
			dst, _ = r.AppendJSON(dst) // never fails
			continue
		}
		kind, state := slices.Index(shortKinds, r.Kind), slices.Index(shortStates, r.State)
		if kind < 0 || state < 0 || r.HasCode && r.Code == 0 || r.Cut || r.Members > 0 || r.Progress != 0 || r.Total != 0 || r.Trace != "" || len(r.Findings) > 0 ||
			r.Ref.Member+r.Parent.Member+r.Call.Member+r.Answer.Member > 0 {
			r.Conn, r.Target, r.Carrier, r.Session, r.Version = 0, "", "", "", ""
			dst, _ = r.AppendJSON(dst) // likewise
			continue
		}
		dst = appendList(dst, r, kind, state)
	}
	return append(dst, ']')
}

// appendList appends a row as a list.
func appendList(dst []byte, r *capture.Row, kind, state int) []byte {
	end := len(dst)
	number := func(n int64) {
		dst = strconv.AppendInt(append(dst, ','), n, 10)
		if n != 0 {
			end = len(dst)
		}
	}
	text := func(s string) {
		if s == "" {
			dst = append(dst, `,0`...)
			return
		}
		dst = appendText(append(dst, ','), s)
		end = len(dst)
	}
	dst = strconv.AppendInt(append(dst, '['), r.Ref.Seq, 10)
	dst = append(r.Time.UTC().AppendFormat(append(dst, `,"`...), time.RFC3339Nano), '"')
	number(int64(kind))
	number(int64(r.Dir))
	text(r.ID)
	text(r.Method)
	number(int64(r.Size))
	number(r.Parent.Seq)
	number(r.Call.Seq)
	number(r.Answer.Seq)
	number(int64(state))
	if r.Took > 0 {
		ms := float64(r.Took.Microseconds()) / 1000
		if ms == 0 {
			ms = 0.0005 // less than a microsecond, but not zero
		}
		dst = strconv.AppendFloat(append(dst, ','), ms, 'f', -1, 64)
		end = len(dst)
	} else {
		dst = append(dst, `,0`...)
	}
	text(r.Brief)
	text(r.Name)
	number(r.Exchange)
	number(r.Code)
	return append(dst[:end], ']')
}

// appendText appends a JSON string.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(dst, raw(s)...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
