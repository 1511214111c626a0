package guard

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// A Body says what the body of a request may be. The zero value takes application/json of at most 4 MiB. It is safe for
// concurrent use once it is set up.
type Body struct {
	// Max bounds the body, in bytes. Zero means 4 MiB, negative means no bound. More is 413, from Content-Length alone
	// where there is one: then nothing is read, and a client that waits for 100 Continue sends nothing.
	Max int64

	// Types are media types taken besides application/json, in lower case.
	Types []string

	// Time is how long the whole body may take. Zero means 30 s. Whatever it is, what has arrived must be 1 KiB a second
	// after the first 5 s. Slower is 408, and the connection is closed.
	Time time.Duration

	// Memory, if not nil, bounds the bodies in memory together with all others that share it. A body that finds no room
	// within Time is 503. Whoever has read one calls Done when it is not needed any more.
	Memory *Memory

	// Watch, if not nil, makes the usual case cheap: a body that is here with its headers sets no deadline. The grace of
	// 5 s is then exact to a second. It is shared by many.
	Watch *Watch
}

const (
	defaultMax  = 4 << 20
	defaultTime = 30 * time.Second
	grace       = 5 * time.Second  // before the rate counts
	rate        = 1 << 10          // bytes a second
	step        = 64 << 10         // memory is taken as bytes arrive, never on the word of a length
	writeTime   = 10 * time.Second // for one write
)

var (
	noType      = refuse(http.StatusUnsupportedMediaType, "a body needs Content-Type: application/json")
	wrongType   = refuse(http.StatusUnsupportedMediaType, "this Content-Type is not taken here, application/json is")
	wrongText   = refuse(http.StatusUnsupportedMediaType, "JSON is UTF-8, no other charset is taken")
	encoded     = &Refusal{Status: http.StatusUnsupportedMediaType, Text: "compressed bodies are not taken", Name: "Accept-Encoding", Value: "identity"}
	tooLong     = &Refusal{Status: http.StatusRequestEntityTooLarge, Text: "the body is too large", Close: true}
	tooSlow     = &Refusal{Status: http.StatusRequestTimeout, Text: "the body came too slowly", Close: true}
	noRoom      = &Refusal{Status: http.StatusServiceUnavailable, Text: "too much is in memory, try again", Name: "Retry-After", Value: "1"}
	cutOff      = &Refusal{Status: http.StatusBadRequest, Text: "the body is cut off or wrongly framed", Close: true}
	nothingFits = refuse(http.StatusNotAcceptable, "nothing of what Accept names can be sent")
)

// NotAcceptable is the refusal of an Accept header that leaves nothing (RFC 9110, section 15.5.7).
func NotAcceptable() *Refusal { return nothingFits }

// Check returns why r's body is not even read, or nil: media type, charset, content coding, announced length.
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
		return wrongType // two of them may be read as either
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

// Read appends the body of r to dst. It calls Check first. When it refuses, the caller answers with [Refusal.Write] and
// nothing else; dst is still returned, so that its memory can be used again. Read and write deadlines are set where the server has them.
func (b *Body) Read(w http.ResponseWriter, r *http.Request, dst []byte) ([]byte, *Refusal) {
	if f := b.Check(r); f != nil {
		return dst, f
	}
	if r.ContentLength == 0 {
		return dst, nil
	}
	held, f := b.hold(r)
	if f != nil {
		return dst, f
	}
	before := len(dst)
	dst, f = b.read(w, r, dst)
	if held > 0 {
		kept := int64(0)
		if f == nil {
			kept = weight(int64(len(dst) - before))
		}
		b.Memory.give(held - kept)
	}
	return dst, f
}

// hold takes room for the body, for as much as it may have.
func (b *Body) hold(r *http.Request) (int64, *Refusal) {
	if b.Memory == nil {
		return 0, nil
	}
	most := r.ContentLength
	if most < 0 {
		most = max(b.limit(), step+1)
	}
	held := weight(most)
	if held == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), b.time())
	defer cancel()
	if b.Memory.take(ctx, held) != nil {
		return 0, noRoom
	}
	return held, nil
}

// Done gives back the room of a body that Read returned, of so many bytes.
func (b *Body) Done(bytes int) {
	if held := weight(int64(bytes)); held > 0 && b.Memory != nil {
		b.Memory.give(held)
	}
}

func (b *Body) time() time.Duration {
	if b.Time == 0 {
		return defaultTime
	}
	return b.Time
}

// read takes in the whole body, by the first chunk without a deadline if there is a Watch.
func (b *Body) read(w http.ResponseWriter, r *http.Request, dst []byte) ([]byte, *Refusal) {
	in := intake{body: r.Body, limit: b.limit(), announced: r.ContentLength, dst: dst}
	start := time.Now()
	if b.Watch != nil {
		e := b.Watch.begin(w, grace, false)
		done, f := in.step()
		b.Watch.end(e)
		if done || f != nil {
			return in.dst, f
		}
	}
	control := http.NewResponseController(w)
	for {
		_ = control.SetReadDeadline(b.due(start, in.got)) // without deadlines the server's own limits hold
		done, f := in.step()
		if done {
			// The server reads on behind the body, to see whether the client goes away. That has no end.
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
	announced int64 // negative: not known
	got       int64
	dst       []byte
}

// step reads once. done: that was all.
func (in *intake) step() (done bool, f *Refusal) {
	room := int64(step)
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

// grow makes room for at least so many bytes: doubling, but not past what is announced.
func grow(dst []byte, room int, announced int64) []byte {
	more := int64(max(room, len(dst)))
	if announced >= 0 {
		more = min(more, announced)
	}
	bigger := make([]byte, len(dst), int64(len(dst))+more)
	copy(bigger, dst)
	return bigger
}

// due is until when the next bytes must be here, if got have come.
func (b *Body) due(start time.Time, got int64) time.Time {
	earned := grace + time.Duration(got/rate)*time.Second + time.Duration(got%rate)*time.Second/rate
	return start.Add(min(b.time(), earned))
}

func refusalOf(err error) *Refusal {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return tooSlow
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLong // somebody outside of us has a lower limit
	}
	return cutOff
}
