// Package tap_test tests parley's tap between programs of other projects.
package tap_test
