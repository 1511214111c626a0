package jsonrpc

// What [Answerer.Report], and the Report functions of the other packages, get as their first
// argument. A package that reports more has its own constants, and docs/reports.md lists all of
// them. The cause decides the level of a report in a log: peer means that any peer can cause it as
// often as it sends a message, and has the level Debug; own code and environment have Error. A
// report without an error has Debug.
const (
	// ReportPanic means that a handler, an agent or a tool panicked. If a request failed because of
	// it, the error is a *[PanicError]. Cause: own code.
	ReportPanic = "panic"

	// ReportHandler means that a handler returned an error that is not sent to the peer. The error
	// is a *[HandlerError]. Cause: own code.
	ReportHandler = "handler"

	// ReportEncode means that the result of a handler cannot be encoded as JSON. The error is a
	// *[HandlerError]. Cause: own code.
	ReportEncode = "encode"

	// ReportStuck means that handlers or agents still ran when Close stopped waiting for them.
	// Cause: own code.
	ReportStuck = "stuck"

	// ReportTask means that a task, or the request for one, failed with an error that is not sent
	// to the peer. Cause: own code.
	ReportTask = "task"

	// ReportStore means that a store did not read, write or remove a value, or that a stored value
	// is invalid. Cause: environment.
	ReportStore = "store"

	// ReportSession means that the messages of a session could not be stored or removed, or a
	// client did not get a new session for one that it lost. Cause: environment.
	ReportSession = "session"

	// ReportNotification means that a handler rejected a notification, which has no response. The
	// error is a *[HandlerError]. Cause: peer.
	ReportNotification = "notification"

	// ReportFrame means that the transport read a payload that cannot be used. The error is a
	// *[FrameError]. Cause: peer.
	ReportFrame = "frame"

	// ReportGarbage means that a payload of a peer with [Conn.Quiet] is not JSON-RPC and was
	// ignored. Cause: peer.
	ReportGarbage = "garbage"

	// ReportRefused means that a payload without any message got an error response, or a
	// server refused an HTTP request or a connection. Cause: peer.
	ReportRefused = "refused"

	// ReportDropped means that a message was dropped: a response that no call waits for, a response
	// to a connection that has ended, or a cancellation that has no room in the buffer. Cause: peer.
	ReportDropped = "dropped"

	// ReportServerMessage means that an HTTP client received an invalid message in a stream. Cause:
	// peer.
	ReportServerMessage = "message of the server"

	// ReportServerRequest means that an HTTP client received a request that it cannot handle or
	// answer. The error starts with the method. Cause: peer.
	ReportServerRequest = "request of the server"

	// ReportServerNotification means that an HTTP client received a notification that it cannot
	// handle. The error starts with the method. Cause: peer.
	ReportServerNotification = "notification of the server"

	// ReportServerReply means that an HTTP client could not send the response to a request of the
	// server. Cause: environment.
	ReportServerReply = "response to a request of the server"
)
