// Package store is what outlives a call: ordered logs, and bytes by key. It knows no protocol.
//
// A [Log] keeps the events of one thing, such as a run, in order and numbered 1, 2, 3; an append says which number it
// believes to be the last, so that two writers cannot both be right. [Values] keep one revision of something each, such as a
// session or a task, and replace it only by the one who saw it last. Both promise the same: when a call returns without an
// error, what it wrote is there, as durably as the driver can make it.
//
// Everything else is built from these two. A reader that was away reads on from the last number it saw, and [Log.Tail] goes over
// from old to new events without a gap or a double. A lease is a value with a time to live that its owner renews by revision;
// the expected number of an append is the fence against an owner that only believes to be one. There are no queries: keys are
// listed by prefix, in order, page by page, and whoever needs more keeps a table of their own, fed by a log.
//
// [Memory] is the driver for libraries and tests; package store/sqlite keeps everything in one folder, synced before it is
// acknowledged. Package store/storetest is the contract as a test that every driver passes.
package store
