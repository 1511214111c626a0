// Package shells_test tries the completion of parley in real shells, at a terminal.
package shells_test
