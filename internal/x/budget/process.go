package budget

import "sync/atomic"

// The pools of the process. They are in one place so that a test can check all of them.
var (
	// Messages bounds messages that arrive on all connections, and bodies of HTTP requests until
	// they are answered. Both count twice, because a response, or a larger buffer, may be as long.
	Messages = Pool{Max: 192 << 20}

	// Requests bounds requests and notifications that run or wait, by what they cost. Callbacks is
	// for requests of peers that have not responded to a call of ours.
	Requests  = Pool{Max: 48 << 20}
	Callbacks = Pool{Max: 48 << 20}

	// Resting bounds the handlers that wait for their peers. Each costs about 8 KiB and what the
	// collector has not freed. There is room for a thousand calls of each side with three levels of
	// nesting and both sides in one process, which is 6,000 handlers: seven eighths are 6,048.
	Resting = Pool{Max: 6912}

	// Rejections bounds the rejections that wait to be written to peers that do not read while calls
	// of ours are open, by what they cost. Without room the connection ends.
	Rejections = Pool{Max: 16 << 20}

	// Unread is the cost of responses that wait to be written, except for HTTP, and UnreadHTTP is
	// the number of response bytes that are being written on HTTP/2 connections.
	Unread, UnreadHTTP atomic.Int64

	// Parts is the length of the responses to members of batches that still run without a connection
	// of messages, as over HTTP. Those with one count in Unread.
	Parts atomic.Int64
)

// senders are the accounts of Messages that several connections share.
var senders = Accounts{Pool: &Messages}

// Senders returns the accounts of Messages.
func Senders() *Accounts { return &senders }
