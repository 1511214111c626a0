package capture

import (
	"fmt"
	"net/http"
	"time"
)

// A Kind is the type of an [Event].
type Kind uint8

const (
	// KindMessage is one payload: a message, a batch, or an invalid attempt at one.
	KindMessage Kind = iota + 1
	// KindRequest is the head of an HTTP request. The messages of its body follow, with the same
	// Exchange.
	KindRequest
	// KindResponse is the head of an HTTP response.
	KindResponse
	// KindEnd ends an HTTP exchange. Text is the reason if it failed.
	KindEnd
	// KindOpen starts a connection, which Wire describes.
	KindOpen
	// KindClose ends a connection. Text is the reason if it failed.
	KindClose
	// KindStderr is a line that a child process wrote to stderr.
	KindStderr
	// KindJunk is bytes that were not framed as a payload, such as a partial message before a
	// crash. Text describes them.
	KindJunk
	// KindLost replaces events that were not recorded because a limit was reached. Text contains
	// their number.
	KindLost
)

var kindNames = [...]string{"", "message", "request", "response", "end", "open", "close", "stderr", "junk", "lost"}

// String returns the name of k in session files.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// A Dir is a direction. The left end of a wire is the client, the right end is the server.
type Dir uint8

const (
	// Neither is used for events without a direction, such as the end of a connection.
	Neither Dir = iota
	// Out is from the client to the server, or sent by us.
	Out
	// In is from the server to the client, or received by us.
	In
)

// String returns "out", "in" or "".
func (d Dir) String() string {
	switch d {
	case Out:
		return "out"
	case In:
		return "in"
	}
	return ""
}

// Back returns the opposite direction.
func (d Dir) Back() Dir {
	switch d {
	case Out:
		return In
	case In:
		return Out
	}
	return d
}

// An Event is one recorded event of a connection.
type Event struct {
	Seq  int64     // 1, 2, 3 … in the order of recording; set by the Recorder
	Time time.Time // the time of the event; if zero, the Recorder sets it
	Kind Kind
	Dir  Dir
	Conn int64 // number of the connection, starting at 1

	// Exchange is the number of the HTTP exchange that the event belongs to, starting at 1 over all
	// connections. It is 0 without an exchange.
	Exchange int64

	// Data is the payload or the line, exactly as it was transmitted, truncated to
	// Options.MaxPayload bytes.
	Data []byte

	// Size is the original number of bytes: len(Data), or more if Data is truncated.
	Size int

	Text    string      // text for people: the reason of an end, the description of junk
	EventID string      // ID of the event-stream event that contained the payload; a Recorder stores at most 512 bytes of it
	Wire    *WireInfo   // for KindOpen
	Method  string      // for KindRequest, such as POST
	URL     string      // for KindRequest: path and query of the request line
	Status  int         // for KindResponse
	Header  http.Header // for KindRequest and KindResponse

	fields []string // names and values in turn, from which Header is made later
}

// Cut reports whether Data is truncated.
func (e *Event) Cut() bool { return e.Size > len(e.Data) }

// A WireInfo describes a connection.
type WireInfo struct {
	Target  string `json:"target,omitempty"`  // the server's address, a command line or "@name"
	Carrier string `json:"carrier,omitempty"` // stdio, http, ws, tcp, unix …
	Peer    string `json:"peer,omitempty"`    // the peer that connected, if known
	Title   string `json:"title,omitempty"`   // display name of the wire, such as a tap's name
}
