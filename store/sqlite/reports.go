package sqlite

// What [Options.Report] gets as its first argument.
const (
	// ReportBroken means that a write failed in a way that leaves the state of the disk unknown. All
	// later writes fail until the store is opened again. Cause: environment.
	ReportBroken = "no writes until the store is opened again"

	// ReportRecordRepaired means that one of the two records of acknowledged commits could not be
	// read. The store rewrites it from the other one. Cause: environment.
	ReportRecordRepaired = "one of the two records of acknowledged commits is damaged and was rewritten"
)
