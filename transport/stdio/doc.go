// Package stdio implements a transport over standard input and output: this program's own, or those
// of a child process.
//
// Use [New] in a program that is called on its stdin. Use [Start] to run one: from its arguments
// and never through a shell, in its own process group, with a configurable environment, and with a
// Close that always ends it.
package stdio
