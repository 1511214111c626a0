package acp

// What [Options.Report] gets as its first argument, besides the constants of package jsonrpc.
const (
	// ReportAgent means that an agent returned an error that is not sent to the caller, or one that
	// cannot be encoded. Cause: own code.
	ReportAgent = "agent"

	// ReportRequest means that a request failed with an error that is not sent to the caller, such
	// as one of the store. Cause: peer.
	ReportRequest = "request"

	// ReportRunForgotten means that a run was removed to make room. Cause: peer.
	ReportRunForgotten = "run dropped"

	// ReportSessionForgotten means that a session was removed to make room. Cause: peer.
	ReportSessionForgotten = "session dropped"

	// ReportRunCutOff means that a run in the store had not ended when the earlier process stopped.
	// It is now a failed run. Cause: environment.
	ReportRunCutOff = "run truncated"
)
