// Package schema makes JSON Schemas of Go types, and validates JSON values against schemas of other
// programs with bounded work.
//
// A [Generator] describes what the codec of package jsonrpc reads and writes. Packages openrpc and
// mcp use it, so that a type has the same members and the same required members in both.
//
// [Compile] and [Schema.Validate] implement JSON Schema 2020-12 and draft-07 without remote
// references; "format" and "content…" are annotations. Schema and value may both come from a
// hostile peer: a schema is bounded when it is compiled; a validation is bounded by a number of
// steps, by the depth of recursion and by its context. The bounds are in docs/limits.md. An
// [InvalidError] lists the invalid parts of a value with their JSON pointers.
package schema
