package orchestrator

import _ "embed"

// Schema is the JSON Schema (2020-12) of plan files, for editors that complete and check while the
// user types. [ParsePlan] checks more.
//
//go:embed plan.schema.json
var Schema []byte
