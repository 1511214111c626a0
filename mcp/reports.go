package mcp

// What [ServerOptions.Report] and [ClientOptions.Report] get as their first argument, besides the
// constants of package jsonrpc.
const (
	// ReportTool means that a tool returned an error that is not sent to the client; the error is a
	// *[jsonrpc.HandlerError]. On a client it means that a tool of the server has an invalid
	// description or schema. Cause: own code.
	ReportTool = "tool"

	// ReportNotify means that a notification could not be sent to a client. Cause: environment.
	ReportNotify = "notify"

	// ReportReopen means that a new session has no log level or subscription that the lost one had.
	// Cause: environment.
	ReportReopen = "reopen"
)
