package main

// What the commands report themselves, besides the constants of the packages that they use.
const (
	reportAgents     = "agents" // the agents of the demo did not close
	reportRunList    = "cannot update the list of runs"
	reportRunStore   = "the store of the run"         // it did not close
	reportExpiredRun = "cannot delete an expired run" // it could not be deleted
)
