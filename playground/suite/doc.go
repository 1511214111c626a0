// Package suite runs saved calls against servers, and checks the responses.
//
// A suite is a file: YAML, or JSON with comments. It has calls, variables, environments and
// assertions. A file of one call is a suite, too; the page saves such files. docs/guides/test.md is
// the reference of the format. The page and parley test run calls with this package. How the bytes
// of a call reach a server is a [Sender].
package suite
