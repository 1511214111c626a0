package conformance

func timeRules() []Rule     { return slowHTTP() }
func version1Rules() []Rule { return nil }
func lifeRules() []Rule     { return nil }
