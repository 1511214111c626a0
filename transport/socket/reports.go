package socket

// What [Options.Report] gets as its first argument.
const (
	// ReportRefused means that a connection was refused: it is over a limit, or it is from another
	// user of this machine. Cause: peer.
	ReportRefused = "connection refused"

	// ReportAccept means that the system did not accept a connection, such as because there is no
	// free file descriptor. The listener tries again. Cause: environment.
	ReportAccept = "accept"
)
