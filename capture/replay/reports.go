package replay

// What [Server.Report] gets as its first argument.
const (
	// ReportUnrecorded means that a client sent a request that the recording has no response for.
	// The error is the method. Cause: peer.
	ReportUnrecorded = "no such call was recorded"
)
