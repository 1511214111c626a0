// Package store provides durable storage: ordered logs, and values by key. It is independent of any
// protocol.
//
// A [Log] holds the events of one thing, such as a run, numbered 1, 2, 3 and so on. An append names
// the number that it expects to be the last, so that of two writers only one succeeds. [Values]
// hold one revision each of things such as sessions or tasks; only a writer that has seen the last
// revision can replace it. Both make the same promise: when a call returns without an error, what
// it wrote is stored, as durably as the driver can make it.
//
// Everything else is built from these two. A reader that was disconnected continues after the last
// number it saw, and [Log.Tail] yields old and then new events without gaps or duplicates. A lease
// is a value with a time to live that its owner renews by revision; the expected number of an
// append is the fence against a former owner. There are no queries: keys are listed by prefix, in
// order, in pages. A program that needs more maintains its own table, fed by a log.
//
// [Memory] is the driver for libraries and tests. Package store/sqlite stores everything in one
// directory and syncs each write before it acknowledges it. Package store/storetest contains the
// tests that every driver must pass.
package store
