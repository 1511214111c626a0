package sse

import (
	"io"
	"net/http"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// ContentType is the media type of an event stream.
const ContentType = eventstream.ContentType

// An Event is one event of a stream, with three fields:
//
//   - Type string is the name of the event. A [Reader] sets "message" for an event without one; for
//     "message" a [Writer] writes no name.
//   - Data []byte is the content of the event: its data lines, joined by "\n". A [Writer] starts a
//     new line for each of "\n", "\r\n" and "\r" in it; in JSON text they are all white space.
//   - ID string is the last event ID that the stream has set so far. A [Writer] writes it if it is
//     not empty.
type Event = eventstream.Event

// AppendEvent appends the encoding of an event to dst. An event without data gets one empty line of
// data, since clients ignore an event without one. A line end in the type, and a line end or a NUL
// in the ID, are errors.
func AppendEvent(dst []byte, e Event) ([]byte, error) { return eventstream.AppendEvent(dst, e) }

// A Reader parses a stream into events, regardless of how the bytes are split. It is for one
// goroutine at a time.
//
// It accepts what the format permits: each of the three line ends, one byte order mark, comments,
// unknown fields. It does not check that the data is UTF-8; its user must do that. An event that
// the end of the stream cuts off is dropped. Its methods:
//
//   - Next() (Event, error) waits for an event. Its Data is valid until the second call of Next or
//     Try after this one. The error is io.EOF at the end of the stream, and wraps
//     jsonrpc.ErrTooLarge for an event over the limit, after which the next call continues.
//   - Try() (e Event, ok bool, err error) is Next without waiting: ok is false unless the rest of
//     an event is buffered.
//   - LastID() string returns the ID with which a client that reconnects requests the missed events
//     (Last-Event-ID).
//   - Retry() (d time.Duration, ok bool) returns how long a client should wait before it
//     reconnects; ok is false if the server did not set it.
//   - OnSilence(d time.Duration, f func()), called before the first Next, sets f to be called when
//     Next has waited for a byte for d, on a stream that the server keeps alive with comments. f
//     must end the read that Next waits in.
type Reader = eventstream.Reader

// NewReader returns a Reader of r. maxEvent bounds the data of one event and the length of one
// line, in bytes: zero means 16 MiB, negative means no bound.
func NewReader(r io.Reader, maxEvent int64) *Reader { return eventstream.NewReader(r, maxEvent) }

// WriterOptions configure NewWriter. The zero value is ready for use. Its fields:
//
//   - KeepAlive time.Duration is how long the stream may be silent before a comment is sent. Zero
//     means 15 s, negative means never.
//   - Timeout time.Duration bounds the time in which a client takes nothing, of each 64 KiB that
//     are written. Zero means 10 s. After it the stream ends.
//   - Unread func(n int), if not nil, counts the bytes of events on their way: it is called with
//     their number before they wait for their turn, and with its negative when they are written or
//     have failed. It may be called by several goroutines at once.
type WriterOptions = eventstream.WriterOptions

// A Writer sends events as the response to one HTTP request. Its methods are safe for concurrent
// use; events are sent whole, one after the other, each with one write and at once:
//
//   - Open(ctx) error sends the headers, so that the client detects the start of the stream.
//   - Send(ctx, ...Event) error sends events with one write. It waits for its turn until ctx ends;
//     the timeout ends a write under way. After Finish and Stop it returns jsonrpc.ErrClosed.
//   - SetRetry(ctx, time.Duration) error sends how long the client should wait before it reconnects
//     after the end of the stream, in whole milliseconds.
//   - Finish(...Event) error sends the last events, if any, and ends the stream: when it returns,
//     the ResponseWriter is no longer used. The last bytes are sent when the HTTP handler returns,
//     together with the end of the response.
//   - Last(...Event) is Finish for a stream whose HTTP handler does not return: its bytes are sent
//     at once.
//   - Stop() interrupts: a write under way fails, and so do all later ones. Finish must still be
//     called.
//   - WrittenBytes() uint64 grows whenever the client has taken a piece of a long write.
type Writer = eventstream.Writer

// NewWriter returns a Writer for the response w. Nothing is sent before Open or the first event. It
// must be finished before the HTTP handler returns. If o is nil, the defaults apply.
func NewWriter(w http.ResponseWriter, o *WriterOptions) *Writer { return eventstream.NewWriter(w, o) }

// A Lazy is the stream that the response to a request becomes if there are messages to send before
// its end. A goroutine that a handler started may outlive the handler and still send messages: it
// gets no stream after the end of the response, because the ResponseWriter must not be used any
// more. The zero value is a response that has not begun. It is safe for concurrent use.
//
//   - Get(begin func() *Writer) *Writer returns the stream, which begin creates on the first call,
//     or nil after the end of the response. begin must not use the Lazy.
//   - End() *Writer marks the end of the response, and returns the stream for its last event, or
//     nil if there is no stream. Only the first call returns the stream: the last event is sent
//     once.
//   - Abandon() ends the stream without a last event, so that no keep-alive is sent: for a panic on
//     its way to net/http, which ends the connection. It does nothing after End.
type Lazy = eventstream.Lazy

// MediaType returns the media type of a response, in lower case and without parameters; "" if its
// Content-Type cannot be parsed.
func MediaType(answer *http.Response) string { return eventstream.MediaType(answer) }

// IsStream reports whether a response is an event stream.
func IsStream(answer *http.Response) bool { return eventstream.IsStream(answer) }

// A StatusError is an HTTP response that is not a JSON-RPC response: an HTTP layer before the
// server refused the request.
type StatusError = httprpc.StatusError

// The statuses that require an action of the caller, for errors.Is with a [StatusError].
var (
	ErrUnauthorized = httprpc.ErrUnauthorized // 401
	ErrForbidden    = httprpc.ErrForbidden    // 403
)

// NewStatusError reads the beginning of the response's body. The caller closes it.
func NewStatusError(answer *http.Response) *StatusError { return httprpc.NewStatusError(answer) }
