package mcphttp

// What [Options.Report] gets as its first argument, besides the constants of package jsonrpc.
const (
	// ReportEvents means that the event store could not store, read or remove the events of a
	// session. A client may not be able to resume a stream. Cause: environment.
	ReportEvents = "events"
)
