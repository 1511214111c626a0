package bridge

// What Options.Report gets as its first argument, besides the constants of packages jsonrpc and
// transport/streamable.
const (
	// ReportServer means that a server could not be reached or started, ended, or gave no response
	// to a call. Cause: environment.
	ReportServer = "server"

	// ReportUndelivered means that a message of a server has no receiver. Cause: environment.
	ReportUndelivered = "undelivered"
)
