package jsonrpc

import (
	"context"
	"iter"
	"reflect"
	"sync/atomic"
	"time"
)

// STUBS: signatures only; replaced by the real files.

type counter = atomic.Int64
type running struct{}
type scanner struct{ lone bool }

func (s *scanner) value(b []byte, i int) (int, error) { panic("stub") }
func skipSpace(b []byte, i int) int                   { panic("stub") }
func decodeValue(r Raw, v any) error                  { panic("stub") }
func appendValue(dst []byte, v any) ([]byte, error)   { panic("stub") }
func appendString(dst []byte, s string) []byte        { panic("stub") }

// A SyntaxError tells where a text stops being JSON.
type SyntaxError struct {
	Offset int
	Reason string
}

func (e *SyntaxError) Error() string { return e.Reason }

// Peer is the peer of this request; it may be kept, after the answer it says ErrAnswered.
func (r *Request) Peer() Peer { panic("stub") }

// After runs f once the answer is queued.
func (r *Request) After(f func()) { panic("stub") }

// Batched reports whether the request came in a batch.
func (r *Request) Batched() bool { panic("stub") }

// Function is a typed Handler.
type Function struct {
	In, Out reflect.Type // what params are decoded into; what is returned
}

func (f *Function) Handle(ctx context.Context, req *Request) (any, error) { panic("stub") }

// Fields of In in order, for discovery: exactly what decoding accepts. nil if In is Raw, a slice (variadic) or no struct.
func (f *Function) Fields() []Field { panic("stub") }

// Field is one parameter.
type Field struct {
	Name     string // on the wire
	Index    []int  // reflect.Type.FieldByIndex
	Type     reflect.Type
	Required bool
	Doc      string // from the jsonschema tag
}

func Func[In, Out any](f func(context.Context, In) (Out, error)) *Function           { panic("stub") }
func PeerFunc[In, Out any](f func(context.Context, Peer, In) (Out, error)) *Function { panic("stub") }

// Mux finds the Handler by method name.
type Mux struct{ _ int }

func (m *Mux) Add(method string, h Handler, mode ...Mode)            { panic("stub") } // panics on "rpc." names, doubles
func (m *Mux) AddReserved(method string, h Handler, mode ...Mode)    { panic("stub") } // for rpc.discover
func (m *Mux) Mode(method string) Mode                               { panic("stub") }
func (m *Mux) All() iter.Seq2[string, Handler]                       { panic("stub") } // in the order they were added
func (m *Mux) Handle(ctx context.Context, req *Request) (any, error) { panic("stub") }

// Answerer is the answering half.
type Answerer struct {
	Handler      Handler
	Mode         func(method string) Mode // nil: none. Asked once per name, then remembered
	Limits       Limits
	Gate         *Gate // nil: no bound beyond this conversation
	Version      Version
	NoBatch      bool         // the protocol has no batches: an array is -32600
	NoNull       bool         // id null is refused with -32600 (MCP)
	Cancellation Cancellation // implies tracking
	Track        bool
	Report       func(what string, err error)
}

// Answer handles one payload on the calling goroutine and appends the response, if any, to dst.
// The *Error is the one that went out for a single message, for carriers that mirror it in a status.
func (a *Answerer) Answer(ctx context.Context, dst, payload []byte, x *Exchange) ([]byte, *Error) {
	panic("stub")
}
func (a *Answerer) Cancel(id ID) bool               { panic("stub") }
func (a *Answerer) Drain(ctx context.Context) error { panic("stub") }

// Asker is the asking half.
type Asker struct {
	Limits    Limits
	Version   Version
	Abandoned func(id ID)
}

func (k *Asker) Call(ctx context.Context, s Sink, method string, params, result any, on func(*Request) error) error {
	panic("stub")
}
func (k *Asker) Batch(ctx context.Context, s Sink, items []Item) error { panic("stub") }
func (k *Asker) Fail(err error)                                        { panic("stub") }
func PeerOf(k *Asker, s Sink) Peer                                     { panic("stub") }

// Conn joins both halves on a Transport.
type Conn struct {
	Answerer
	Related func(*Request) (ID, bool)
	Open    func(method string) bool // our own calls that have no deadline; nil: none
	Quiet   bool                     // garbage from the peer is counted and reported, not answered (a child's stdout)
	Grace   time.Duration            // how long handlers may finish after the peer's end of stream
}

func NewConn(t Transport) *Conn                                                   { panic("stub") }
func (c *Conn) Serve(ctx context.Context) error                                   { panic("stub") }
func (c *Conn) Start(ctx context.Context)                                         { panic("stub") } // Serve on a goroutine that Close waits for
func (c *Conn) Call(ctx context.Context, method string, params, result any) error { panic("stub") }
func (c *Conn) Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	panic("stub")
}
func (c *Conn) Notify(ctx context.Context, method string, params any) error { panic("stub") }
func (c *Conn) Do(ctx context.Context, item *Item) error                    { panic("stub") }
func (c *Conn) Batch(ctx context.Context, items []Item) error               { panic("stub") }
func (c *Conn) Shutdown(ctx context.Context) error                          { panic("stub") }
func (c *Conn) Close() error                                                { panic("stub") }
func (c *Conn) Hangup(cause error)                                          { panic("stub") } // from a handler: Close without waiting
func (c *Conn) Pending() []ID                                               { panic("stub") } // our calls that wait, oldest first

// Local answers calls in this process, on the caller's goroutine.
func Local(a, back *Answerer) Peer { panic("stub") }

// A Message is one parsed message of a payload: see Scan.
type Message struct {
	Request bool // has a method, or was meant to; otherwise a response
	ID      ID
	Method  string
	Params  Raw
	Result  Raw
	Error   Raw
	Bad     *Error // not nil: what a server answers to it; for a response: why it is none
}

// Scan parses a payload strictly, without copying, and calls f for each message. The *Error is for the payload as a whole.
func Scan(payload []byte, f func(*Message)) *Error { panic("stub") }

// Decode is what Call does with the answer: the error as *Error, or the result into result.
func (m *Message) Decode(result any) error { panic("stub") }

func AppendRequest(dst []byte, v Version, id ID, method string, params any) ([]byte, error) {
	panic("stub")
}
func AppendNotification(dst []byte, v Version, method string, params any) ([]byte, error) {
	panic("stub")
}
func AppendResult(dst []byte, v Version, id ID, result any) ([]byte, error) { panic("stub") }
func AppendError(dst []byte, v Version, id ID, e *Error) []byte             { panic("stub") }
