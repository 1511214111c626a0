// Package editor_test tests parley's implementation of the Agent Client Protocol with the SDKs of
// other projects.
package editor_test
