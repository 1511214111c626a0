//go:build !everytransport

package check_test

// everyTransport makes TestMutants use all transports of a defect.
const everyTransport = false
