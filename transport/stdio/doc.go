// Package stdio carries payloads over standard input and output: this program's own, or those of a child process.
//
// [New] is for a program that is spoken to on its stdin. [Start] runs one: from its arguments and never through a shell,
// in a process group of its own, with an environment that is chosen, and with a way to end it that always ends.
package stdio
