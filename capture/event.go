package capture

import (
	"fmt"
	"net/http"
	"time"
)

// A Kind is what an [Event] records.
type Kind uint8

const (
	// KindMessage is one payload: a message, a batch, or what should have been one.
	KindMessage Kind = iota + 1
	// KindRequest is the head of an HTTP request. The messages of its body follow, with the same Exchange.
	KindRequest
	// KindResponse is the head of an HTTP response.
	KindResponse
	// KindEnd ends an HTTP exchange; Text says why, if it did not end well.
	KindEnd
	// KindOpen begins a connection; Wire describes it.
	KindOpen
	// KindClose ends a connection; Text says why, if it did not end well.
	KindClose
	// KindStderr is a line that a child process wrote to stderr.
	KindStderr
	// KindJunk is bytes that were never framed as a payload, such as the half message before a crash; Text says what they are.
	KindJunk
	// KindLost stands where events were not recorded because a bound was met; Text says how many.
	KindLost
)

var kindNames = [...]string{"", "message", "request", "response", "end", "open", "close", "stderr", "junk", "lost"}

// String is the word for k in session files.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// A Dir is which way something went. A wire has a left end, the client's, and a right end, the server's.
type Dir uint8

const (
	// Neither is for what has no direction, such as the end of a connection.
	Neither Dir = iota
	// Out left the client, or us.
	Out
	// In came from the server, or to us.
	In
)

// String is "out", "in" or "".
func (d Dir) String() string {
	switch d {
	case Out:
		return "out"
	case In:
		return "in"
	}
	return ""
}

// Back is the other direction.
func (d Dir) Back() Dir {
	switch d {
	case Out:
		return In
	case In:
		return Out
	}
	return d
}

// An Event is one thing that happened on a wire.
type Event struct {
	Seq  int64     // 1, 2, 3 … in the order of recording; the Recorder sets it
	Time time.Time // when it was seen; the Recorder sets it if it is zero
	Kind Kind
	Dir  Dir
	Conn int64 // which connection, counted from 1

	// Exchange is the HTTP exchange that this is part of, counted from 1 over all connections; 0 for none.
	Exchange int64

	// Data is the payload, or the line, exactly as it went over the wire. It holds no more than Options.MaxPayload bytes.
	Data []byte

	// Size is how many bytes there were: len(Data), or more if it was cut.
	Size int

	Text    string      // for people: why something ended, what junk is
	EventID string      // the id of the event of an event stream that held the payload
	Wire    *WireInfo   // of KindOpen
	Method  string      // of KindRequest: POST
	URL     string      // of KindRequest: path and query as they stand in the request line
	Status  int         // of KindResponse
	Header  http.Header // of KindRequest and KindResponse

	fields []string // what Header is made of, later: names and values in turn
}

// Cut reports whether some of the bytes are missing.
func (e *Event) Cut() bool { return e.Size > len(e.Data) }

// A WireInfo describes a connection.
type WireInfo struct {
	Target  string `json:"target,omitempty"`  // the server's address, a command line or "@name"
	Carrier string `json:"carrier,omitempty"` // stdio, http, ws, tcp, unix …
	Peer    string `json:"peer,omitempty"`    // who connected, if that is known
	Title   string `json:"title,omitempty"`   // what people call this wire, such as a tap's name
}
