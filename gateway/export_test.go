package gateway

import "time"

// Programs need long to start on a busy machine.
func init() { firstLists = time.Minute }
