package capture

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Ref names a [Row]: the number of its event, and which member of the batch it is. "17" and "3.4" are its texts. The zero
// Ref names none.
type Ref struct {
	Seq    int64
	Member int // 1, 2, 3 … in a batch; 0 for a message by itself, and for the batch as a whole
}

// IsZero reports whether r names no row.
func (r Ref) IsZero() bool { return r == Ref{} }

// String is the text of r, "" for none.
func (r Ref) String() string { return string(r.append(nil)) }

// append adds what String returns.
func (r Ref) append(dst []byte) []byte {
	if r.IsZero() {
		return dst
	}
	dst = strconv.AppendInt(dst, r.Seq, 10)
	if r.Member > 0 {
		dst = strconv.AppendInt(append(dst, '.'), int64(r.Member), 10)
	}
	return dst
}

// ParseRef reads what String wrote.
func ParseRef(text string) (Ref, error) {
	seq, member, batched := strings.Cut(text, ".")
	n, err := strconv.ParseInt(seq, 10, 64)
	if err != nil || n <= 0 {
		return Ref{}, fmt.Errorf("capture: %q names no row", text)
	}
	r := Ref{Seq: n}
	if batched {
		if r.Member, err = strconv.Atoi(member); err != nil || r.Member <= 0 {
			return Ref{}, fmt.Errorf("capture: %q names no row", text)
		}
	}
	return r, nil
}

// compare orders rows as they crossed the wire.
func (r Ref) compare(o Ref) int {
	switch {
	case r.Seq != o.Seq:
		return int(max(-1, min(1, r.Seq-o.Seq)))
	default:
		return r.Member - o.Member
	}
}

// What a [Row] can be, in Row.Kind.
const (
	RowRequest      = "request"
	RowNotification = "notification"
	RowResult       = "result" // a response with a result
	RowError        = "error"  // a response with an error
	RowBatch        = "batch"  // an array; its members are rows of their own
	RowJunk         = "junk"   // bytes that are no message
	RowHTTP         = "http"   // an HTTP exchange
	RowStderr       = "stderr"
	RowOpen         = "open"  // a connection begins
	RowClose        = "close" // a connection ended
	RowLost         = "lost"  // events are missing here
)

// What a request or an exchange came to, in Row.State.
const (
	StateWaiting    = "waiting"    // no answer yet
	StateDone       = "done"       // answered with a result
	StateFailed     = "error"      // answered with an error
	StateCancelled  = "cancelled"  // the caller gave it up, and there was no answer
	StateUnanswered = "unanswered" // it ended without an answer
)

// A Row is one message as people want to see it: with the call it belongs to and what is wrong with it. It changes while
// its call is open; Rev tells.
type Row struct {
	Ref  Ref
	Rev  int64 // grows with each change; unique in its Log
	Time time.Time
	Kind string
	Dir  Dir

	Conn     int64
	Target   string // of the connection
	Carrier  string // of the connection
	Exchange int64  // the HTTP exchange; its own row is the one of kind http with the same number
	Session  string // of the protocol, if it has one: what stands in Mcp-Session-Id

	ID      string // the JSON text of the id; "" for none
	Method  string // of a response: that of its request. Of kind http: POST
	Name    string // what the method is used on: a tool's name, a task. Of kind http: path and query
	Brief   string // a few words: an error's message, what progress says, a line of stderr
	Code    int64  // of an error, when HasCode. Of kind http: the status
	HasCode bool
	Version string // of the protocol that was agreed on, if a Judge knows

	Size    int  // bytes
	Cut     bool // some of them were not kept
	Members int  // of a batch

	Parent Ref // the row it is shown under: its call, its batch
	Call   Ref // of a response: its request
	Answer Ref // of a request or batch: its response, the last one
	Count  int // of a request: how many responses it had; more than 1 only in A2A's streams
	State  string
	Took   time.Duration // from a request to its response, from an exchange's begin to its end

	Progress, Total float64 // of a progress notification
	Trace           string  // the trace id, 32 hexadecimal digits
	Findings        []Finding
}

// A Finding is a rule of a specification that a message breaks, or a doubt.
type Finding struct {
	Rule  string `json:"rule"`            // a short name: parse, envelope, id-in-use, mcp-header
	Text  string `json:"text"`            // a sentence for people
	Doubt bool   `json:"doubt,omitempty"` // worth a look, but allowed
}

// Broken reports whether a rule is broken: whether there is a finding that is no doubt.
func (r *Row) Broken() bool {
	for _, f := range r.Findings {
		if !f.Doubt {
			return true
		}
	}
	return false
}

// AppendJSON adds r as an object: "ref", "rev", "time" (RFC 3339), "kind", "dir", "conn", "target", "carrier", "http",
// "session", "id" (the JSON text of the id, as a string), "method", "name", "brief", "code", "version", "bytes", "cut",
// "members", "parent", "call", "answer", "count", "state", "ms" (what Took is, with fractions), "progress", "total", "trace",
// "findings". What is empty is left out; refs are strings such as "3.4".
func (r *Row) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(r.Ref.append(append(dst, `{"ref":"`...)), '"')
	dst = appendNumber(dst, "rev", r.Rev)
	dst = append(dst, `,"time":"`...)
	dst = r.Time.UTC().AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	dst = appendText(dst, "kind", r.Kind)
	dst = appendText(dst, "dir", r.Dir.String())
	dst = appendNumber(dst, "conn", r.Conn)
	dst = appendText(dst, "target", r.Target)
	dst = appendText(dst, "carrier", r.Carrier)
	dst = appendNumber(dst, "http", r.Exchange)
	dst = appendText(dst, "session", r.Session)
	dst = appendText(dst, "id", r.ID)
	dst = appendText(dst, "method", r.Method)
	dst = appendText(dst, "name", r.Name)
	dst = appendText(dst, "brief", r.Brief)
	if r.HasCode {
		dst = append(dst, `,"code":`...)
		dst = strconv.AppendInt(dst, r.Code, 10)
	}
	dst = appendText(dst, "version", r.Version)
	dst = appendNumber(dst, "bytes", int64(r.Size))
	if r.Cut {
		dst = append(dst, `,"cut":true`...)
	}
	dst = appendNumber(dst, "members", int64(r.Members))
	dst = appendRef(dst, "parent", r.Parent)
	dst = appendRef(dst, "call", r.Call)
	dst = appendRef(dst, "answer", r.Answer)
	dst = appendNumber(dst, "count", int64(r.Count))
	dst = appendText(dst, "state", r.State)
	if r.Took > 0 {
		dst = append(dst, `,"ms":`...)
		dst = strconv.AppendFloat(dst, float64(r.Took.Microseconds())/1000, 'f', -1, 64)
	}
	for _, n := range []struct {
		name  string
		value float64
	}{{"progress", r.Progress}, {"total", r.Total}} {
		if n.value != 0 {
			dst = append(append(append(dst, `,"`...), n.name...), `":`...)
			dst = strconv.AppendFloat(dst, n.value, 'f', -1, 64)
		}
	}
	dst = appendText(dst, "trace", r.Trace)
	if len(r.Findings) > 0 {
		dst = appendValue(dst, "findings", r.Findings)
	}
	return append(dst, '}'), nil
}

func appendRef(dst []byte, name string, r Ref) []byte {
	if r.IsZero() {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":"`...)
	return append(r.append(dst), '"')
}
