package guard

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// A Body defines which request bodies are accepted. The zero value accepts application/json of at
// most 4 MiB. Without Memory a Body is safe for concurrent use once it is configured.
type Body struct {
	// Max is the maximum length of the body, in bytes. Zero means 4 MiB, negative means no limit. A
	// longer body gets 413. If Content-Length announces it, nothing is read, and a client that
	// waits for 100 Continue sends nothing.
	Max int64

	// Types lists accepted media types besides application/json, in lower case.
	Types []string

	// Time is the maximum time for reading the whole body. Zero means 30 s. In addition, after the
	// first 5 s the average rate must be at least 1 KiB per second. A slower body gets 408, and the
	// connection is closed.
	Time time.Duration

	// Memory, if not nil, bounds the memory of all bodies that share it. A body that gets no room
	// within 60 s gets 503; the time of that wait does not count toward Time. With Memory, a Body
	// is for one request, and after Read the caller must call Done when neither the body nor the
	// response is needed any more.
	Memory *Memory

	// Key is the key of the account of Memory that is charged. If empty, it is that of [KeyOf].
	Key string

	// Watch, if not nil, makes the common case cheap: no deadline is set for a body that arrives
	// together with its headers. The grace period of 5 s is then accurate to one second. A Watch is
	// shared by many bodies.
	Watch *Watch

	share share // share of Memory
}

const (
	defaultMax  = 4 << 20
	defaultTime = 30 * time.Second
	grace       = 5 * time.Second // before the rate counts
	rate        = 1 << 10         // bytes per second
	// Memory is reserved as bytes arrive, not by the announced length.
	step      = 64 << 10
	longStep  = 16 << 10         // the first step of a longer body
	writeTime = 10 * time.Second // for one write
)

var (
	noType      = refuse(http.StatusUnsupportedMediaType, "the body requires Content-Type: application/json")
	wrongType   = refuse(http.StatusUnsupportedMediaType, "unsupported Content-Type; use application/json")
	wrongText   = refuse(http.StatusUnsupportedMediaType, "unsupported charset; JSON must be UTF-8")
	encoded     = &Refusal{Status: http.StatusUnsupportedMediaType, Text: "compressed bodies are not supported", Name: "Accept-Encoding", Value: "identity"}
	tooLong     = &Refusal{Status: http.StatusRequestEntityTooLarge, Text: "the body is too large", Close: true}
	tooSlow     = &Refusal{Status: http.StatusRequestTimeout, Text: "the body was sent too slowly", Close: true}
	noRoom      = &Refusal{Status: http.StatusServiceUnavailable, Text: "the server is out of buffer memory, try again", Name: "Retry-After", Value: "1"}
	cutOff      = &Refusal{Status: http.StatusBadRequest, Text: "the body is truncated or has invalid framing", Close: true}
	nothingFits = refuse(http.StatusNotAcceptable, "none of the types in Accept is supported")
)

// NotAcceptable returns the refusal of an Accept header that excludes every available type (RFC
// 9110, section 15.5.7).
func NotAcceptable() *Refusal { return nothingFits }

// Check returns the reason to reject r before its body is read, or nil: media type, charset,
// content coding, announced length.
func (b *Body) Check(r *http.Request) *Refusal {
	if f := b.checkType(r); f != nil {
		return f
	}
	for _, coding := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(coding, "identity") && coding != "" {
			return encoded
		}
	}
	if limit := b.limit(); limit >= 0 && r.ContentLength > limit {
		return tooLong
	}
	return nil
}

func (b *Body) limit() int64 {
	if b.Max == 0 {
		return defaultMax
	}
	return b.Max
}

func (b *Body) checkType(r *http.Request) *Refusal {
	values := r.Header["Content-Type"]
	switch {
	case len(values) == 0:
		if r.ContentLength == 0 {
			return nil
		}
		return noType
	case len(values) > 1:
		return wrongType // two Content-Type headers are ambiguous
	case values[0] == "application/json":
		return nil
	}
	kind, params, err := mime.ParseMediaType(values[0])
	if err != nil || kind != "application/json" && !slices.Contains(b.Types, kind) {
		return wrongType
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return wrongText
	}
	return nil
}

// Read appends the body of r to dst. It calls Check first. If it returns a Refusal, the caller must
// respond with [Refusal.Write] and nothing else; dst is still returned, so that its memory can be
// reused. Read sets read and write deadlines if the server supports them.
func (b *Body) Read(w http.ResponseWriter, r *http.Request, dst []byte) ([]byte, *Refusal) {
	if f := b.Check(r); f != nil {
		return dst, f
	}
	if r.ContentLength == 0 {
		return dst, b.Begin(r)
	}
	if f := b.share.begin(r, b.Memory, b.Key); f != nil {
		return dst, f
	}
	before := len(dst)
	dst, f := b.read(w, r, dst)
	if f != nil {
		b.share.end()
		return dst, f
	}
	b.share.arrived(int64(len(dst) - before))
	return dst, nil
}

// Begin is Read for a request whose body is not read: its response is counted, and it waits while
// its HTTP/2 connection does not read the responses before it. The caller must call Done.
func (b *Body) Begin(r *http.Request) *Refusal {
	if f := b.share.begin(r, b.Memory, b.Key); f != nil {
		return f
	}
	b.share.arrived(0)
	return nil
}

// Unread returns a function that counts bytes of a streamed response while they are written: it is
// called with their number before, and with its negative after. It is nil over HTTP/1, where a
// client that does not read sends no more requests. It may be called by several goroutines.
func (b *Body) Unread() func(n int) { return b.share.unread() }

// Writing counts a response of the given length as being written, until Done.
func (b *Body) Writing(bytes int) { b.share.writing(int64(bytes)) }

// Holding counts a response of the given length as held, until Done, but not as unread: its writer
// counts that.
func (b *Body) Holding(bytes int) { b.share.holding(int64(bytes)) }

// Done releases the memory of a body that Read returned, and of the response to it. A second call
// has no effect.
func (b *Body) Done() { b.share.end() }

func (b *Body) time() time.Duration {
	if b.Time == 0 {
		return defaultTime
	}
	return b.Time
}

// read reads the whole body. With a Watch, the first chunk is read without a deadline.
func (b *Body) read(w http.ResponseWriter, r *http.Request, dst []byte) ([]byte, *Refusal) {
	in := intake{body: r.Body, limit: b.limit(), announced: r.ContentLength, dst: dst}
	start := time.Now()
	if b.Watch != nil {
		e := b.Watch.begin(w, grace, false)
		done, f := in.step(firstStep(r))
		b.Watch.end(e)
		if done || f != nil {
			return in.dst, f
		}
	}
	control := http.NewResponseController(w)
	for {
		// A deadline that passes during the wait would end the body of an HTTP/2 stream for good.
		if !b.share.grow(r, in.got, func() { _ = control.SetReadDeadline(time.Time{}) }) {
			return in.dst, noRoom
		}
		// Without deadlines the server's own limits apply.
		_ = control.SetReadDeadline(b.due(start.Add(b.share.waited), in.got))
		done, f := in.step(nextStep(in.got))
		if done {
			// The server continues to read after the body, to detect whether the client
			// disconnects. That read has no deadline.
			_ = control.SetReadDeadline(time.Time{})
		}
		if done || f != nil {
			return in.dst, f
		}
	}
}

// An intake is a body that is being read.
type intake struct {
	body      io.Reader
	limit     int64
	announced int64 // negative if unknown
	got       int64
	dst       []byte
}

// step reads at most room bytes, once. done reports the end of the body.
func (in *intake) step(room int64) (done bool, f *Refusal) {
	if in.announced >= 0 {
		room = min(room, in.announced-in.got)
	}
	if int64(cap(in.dst)-len(in.dst)) < min(room, 512) {
		in.dst = grow(in.dst, int(room), in.announced-in.got)
	}
	room = min(room, int64(cap(in.dst)-len(in.dst)))
	n, err := in.body.Read(in.dst[len(in.dst) : len(in.dst)+int(room)])
	in.dst = in.dst[:len(in.dst)+n]
	in.got += int64(n)
	switch {
	case in.limit >= 0 && in.got > in.limit:
		return false, tooLong
	case in.got == in.announced, err == io.EOF && in.announced < 0:
		return true, nil
	case err != nil:
		return false, refusalOf(err)
	}
	return false, nil
}

// grow returns dst with capacity for at least room more bytes: it doubles the capacity, but not
// beyond the announced length.
func grow(dst []byte, room int, announced int64) []byte {
	more := int64(max(room, len(dst)))
	if announced >= 0 {
		more = min(more, announced)
	}
	bigger := make([]byte, len(dst), int64(len(dst))+more)
	copy(bigger, dst)
	return bigger
}

// due returns the deadline for the next bytes after got bytes have arrived.
func (b *Body) due(start time.Time, got int64) time.Time {
	earned := grace + time.Duration(got/rate)*time.Second + time.Duration(got%rate)*time.Second/rate
	return start.Add(min(b.time(), earned))
}

func refusalOf(err error) *Refusal {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return tooSlow
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLong // an outer handler has a lower limit
	}
	return cutOff
}
