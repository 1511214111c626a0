package capture

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Ref identifies a [Row] by the number of its event and its member of the batch. Its text is "17"
// or "3.4". The zero Ref identifies no row.
type Ref struct {
	Seq    int64
	Member int // 1, 2, 3 … in a batch; 0 for a single message, and for the batch as a whole
}

// IsZero reports whether r identifies no row.
func (r Ref) IsZero() bool { return r == Ref{} }

// String returns the text of r, or "" if r is zero.
func (r Ref) String() string { return string(r.append(nil)) }

// append appends the result of String.
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

// ParseRef parses the result of String.
func ParseRef(text string) (Ref, error) {
	seq, member, batched := strings.Cut(text, ".")
	n, err := strconv.ParseInt(seq, 10, 64)
	if err != nil || n <= 0 {
		return Ref{}, fmt.Errorf("capture: %q is not the number of a row", text)
	}
	r := Ref{Seq: n}
	if batched {
		if r.Member, err = strconv.Atoi(member); err != nil || r.Member <= 0 {
			return Ref{}, fmt.Errorf("capture: %q is not the number of a row", text)
		}
	}
	return r, nil
}

// compare orders rows as they were transmitted.
func (r Ref) compare(o Ref) int {
	switch {
	case r.Seq != o.Seq:
		return int(max(-1, min(1, r.Seq-o.Seq)))
	default:
		return r.Member - o.Member
	}
}

// Values of Row.Kind.
const (
	RowRequest      = "request"
	RowNotification = "notification"
	RowResult       = "result" // a response with a result
	RowError        = "error"  // a response with an error
	RowBatch        = "batch"  // an array; each of its members has its own row
	RowJunk         = "junk"   // bytes that are not a message
	RowHTTP         = "http"   // an HTTP exchange
	RowStderr       = "stderr"
	RowOpen         = "open"  // the start of a connection
	RowClose        = "close" // the end of a connection
	RowLost         = "lost"  // events are missing here
)

// The states of a request or an exchange, in Row.State.
const (
	StateWaiting    = "waiting"    // no response yet
	StateDone       = "done"       // has a result
	StateFailed     = "error"      // has an error
	StateCancelled  = "cancelled"  // the caller cancelled it, and there was no response
	StateUnanswered = "unanswered" // it ended without a response
)

// maxText is the maximum length of each text of a [Row], in bytes.
const maxText = 512

// bounded returns text if it has at most maxText bytes. Otherwise it returns the beginning with a
// digest of the whole, so that different texts stay different.
func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	digest := sha256.Sum256([]byte(text))
	return strings.ToValidUTF8(text[:maxText-40], "") + "…" + hex.EncodeToString(digest[:16])
}

// bound shortens the texts that a peer can make long. Rows stay in memory when their payloads are
// on disk.
func (r *Row) bound() {
	for _, text := range [...]*string{&r.Session, &r.ID, &r.Method, &r.Name, &r.Brief, &r.Version, &r.Trace} {
		if len(*text) > maxText {
			*text = bounded(*text)
		}
	}
}

// A Row describes one message, with its call and its findings. It changes while its call is open,
// which increases Rev. Each text in it has at most 512 bytes: of a longer one it has the beginning,
// an ellipsis and a digest.
type Row struct {
	Ref  Ref
	Rev  int64 // grows with each change; unique in its Log
	Time time.Time
	Kind string
	Dir  Dir

	Conn     int64
	Target   string // of the connection
	Carrier  string // transport of the connection
	Exchange int64  // the HTTP exchange; the row of kind http with the same number describes it
	Session  string // the protocol's session, if any: the value of Mcp-Session-Id

	ID     string // the JSON text of the ID; "" for none
	Method string // of a response: the method of its request. Of kind http: POST
	// Name is what the method is applied to: the name of a tool, a task. Of kind http: path and
	// query.
	Name    string
	Brief   string // a short summary: an error's message, a progress message, a line of stderr
	Code    int64  // of an error, if HasCode. Of kind http: the status
	HasCode bool
	Version string // the negotiated protocol version, if a Judge sets it

	Size    int  // length in bytes
	Cut     bool // the stored payload is truncated
	Members int  // number of members of a batch

	Parent Ref // the row it is shown under: its call or its batch
	Call   Ref // of a response: its request
	Answer Ref // of a request or batch: its last response
	Count  int // of a request: the number of responses; more than 1 only in A2A's streams
	State  string
	// Took is the time from a request to its response, or from the start of an exchange to its end.
	Took time.Duration

	Progress, Total float64 // of a progress notification
	Trace           string  // the trace ID, 32 hexadecimal digits
	Findings        []Finding
}

// A Finding is a broken rule of a specification, or a doubt.
type Finding struct {
	Rule  string `json:"rule"`            // short name: parse, envelope, id-in-use, mcp-header
	Text  string `json:"text"`            // one sentence
	Doubt bool   `json:"doubt,omitempty"` // allowed but suspicious
}

// Broken reports whether a rule is broken: whether there is a finding that is not a doubt.
func (r *Row) Broken() bool {
	for _, f := range r.Findings {
		if !f.Doubt {
			return true
		}
	}
	return false
}

// AppendJSON appends r as an object with the members "ref", "rev", "time" (RFC 3339), "kind",
// "dir", "conn", "target", "carrier", "http", "session", "id" (the JSON text of the ID, as a
// string), "method", "name", "brief", "code", "version", "bytes", "cut", "members", "parent",
// "call", "answer", "count", "state", "ms" (Took in milliseconds, with fractions), "progress",
// "total", "trace" and "findings". Empty values are omitted. Refs are strings such as "3.4".
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
