package httprpc

// What [Options.Report] gets as its first argument, besides the constants of package jsonrpc.
const (
	// ReportUnknownResponse means that the response to a batch contained an id that no call of the
	// batch has. Cause: peer.
	ReportUnknownResponse = "response with an unknown id in a batch"

	// ReportLateMessage means that a stream contained a message after the response. Cause: peer.
	ReportLateMessage = "message after the response"
)
