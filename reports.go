package parley

// What [Listener.Report] gets as its first argument, besides the constants of packages jsonrpc and
// socket.
const (
	// ReportConnection means that a connection ended with an error, such as a malformed message.
	// Cause: peer.
	ReportConnection = "connection"

	// ReportUpgrade means that a WebSocket handshake failed. Cause: peer.
	ReportUpgrade = "upgrade"

	// ReportBrokenConnection means that a client broke the rules of TLS or HTTP, such as by a failed
	// handshake. Cause: peer.
	ReportBrokenConnection = "broken connection"

	// ReportHTTP means that the HTTP server of a Listener reported another failure, such as a panic.
	// Cause: own code.
	ReportHTTP = "http"

	// ReportCertificate means that changed files of a certificate could not be loaded. The server
	// continues with the old certificate. Cause: environment.
	ReportCertificate = "certificate"

	// ReportLimit means that the process may open fewer files than [Listener.MaxConns] needs. Cause:
	// environment.
	ReportLimit = "limit"
)
