package gateway

// What Options.Report gets as its first argument, besides the constants of the packages below.
const (
	// ReportUpstream means that a server could not be reached or started. Cause: environment.
	ReportUpstream = "upstream"

	// ReportStderr means that a program wrote this line to its standard error. Cause: environment.
	ReportStderr = "upstream stderr"

	// ReportLeftOut means that an entry of a list of an MCP server is not shown to clients. Cause:
	// environment.
	ReportLeftOut = "left out"

	// ReportUndelivered means that a notification for an upstream was not sent. Cause: environment.
	ReportUndelivered = "undelivered"

	// ReportAudit means that lines of the audit log could not be written; the calls were handled.
	// Cause: environment.
	ReportAudit = "audit"

	// ReportDenied means that a rule of access could not be evaluated and the call was denied, with
	// the line of the rule. Cause: peer.
	ReportDenied = "denied"

	// ReportIdentity means that a token could not be verified, because its authorization server
	// cannot be reached or leaves out what the configuration needs. Cause: environment.
	ReportIdentity = "identity"

	// ReportPins means that a server offers something else than was approved, or that pins could not
	// be stored. Cause: environment.
	ReportPins = "pins"

	// ReportCredentials means that the authorization server of an upstream issued no token for it.
	// Cause: environment.
	ReportCredentials = "credentials"
)
