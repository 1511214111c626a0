package orchestrator

// What [Runner.Report] and [DialOptions.Report] get as their first argument. The error starts with
// the ID of the run or the names of the members.
const (
	// ReportSkills means that some members did not describe their skills, which a plan selects
	// members by. Cause: environment.
	ReportSkills = "cannot get the capabilities of some members"

	// ReportRunNotStored means that the last event of a run could not be stored. Cause: environment.
	ReportRunNotStored = "cannot store the end of the run"

	// ReportRunNotListed means that the result of a run could not be added to the list of runs.
	// Cause: environment.
	ReportRunNotListed = "cannot update the list of runs"

	// ReportUnreachable means that a member could not be reached when the team was dialled. A later
	// call tries again. Cause: environment.
	ReportUnreachable = "member cannot be reached"

	// ReportMemberLost means that the connection to a member ended. A new one is opened. Cause:
	// environment.
	ReportMemberLost = "member has closed and is reopened"

	// ReportAgentList means that a member did not list its agents. Cause: environment.
	ReportAgentList = "member does not list its agents"

	// ReportRiskyEnvironment means that a member is a program that is started with environment
	// variables that change which code it runs. Cause: environment.
	ReportRiskyEnvironment = "member has a risky environment"
)
