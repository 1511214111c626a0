package editor

// What [AgentOptions.Report] and [ClientOptions.Report] get as their first argument, besides the
// constants of package jsonrpc.
const (
	// ReportCancelledTurn means that a prompt function returned an error after its turn was
	// cancelled. Cause: own code.
	ReportCancelledTurn = "cancelled turn"

	// ReportUpdate means that an agent sent an invalid update. Cause: peer.
	ReportUpdate = "update"
)
