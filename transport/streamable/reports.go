package streamable

// What [ClientOptions.Report] gets as its first argument, besides the constants of package jsonrpc.
const (
	// ReportBrokenStream means that the stream of a response broke off. The client resumes it.
	// Cause: peer.
	ReportBrokenStream = "broken stream"

	// ReportUnknownResponse means that a stream contained a response that no call waits for. Cause:
	// peer.
	ReportUnknownResponse = "response without a waiting call"

	// ReportSessionStream means that the stream of a session could not be opened or broke off.
	// Cause: environment.
	ReportSessionStream = "stream of the session"

	// ReportCancel means that a cancellation could not be sent. Cause: environment.
	ReportCancel = "cancel"

	// ReportSessionEnd means that the request that ends a session failed. Cause: environment.
	ReportSessionEnd = "end of the session"
)
