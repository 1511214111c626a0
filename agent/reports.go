package agent

// What [Agent.Report] gets as its first argument, besides [jsonrpc.ReportPanic].
const (
	// ReportFailed means that an agent returned an error that is not sent to the caller. Cause: own
	// code.
	ReportFailed = "failed"
)
