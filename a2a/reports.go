package a2a

// What [ServerOptions.Report] gets as its first argument, besides the constants of package jsonrpc.
const (
	// ReportPush means that a webhook did not accept a notification, after all attempts. The error
	// starts with the ID of the task. Cause: environment.
	ReportPush = "push of task"
)
