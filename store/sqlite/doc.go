// Package sqlite is a [store.Store] in one directory. What it has acknowledged survives a crash; if
// data is lost nevertheless, it reports what is missing.
//
// A write returns when a commit that contains it has been synced to disk (SQLite with a write-ahead
// log and synchronous=FULL). Writes that arrive during a commit share the next one, so many writers
// cost little more than one.
//
// SQLite alone does not detect every fault of a disk: a flipped byte in a row is just a different
// row, and one in the write-ahead log silently ends the log there. This package therefore adds
// checks:
//
//   - Every event has a hash of itself and the previous event.
//   - Every value has a hash.
//   - The database has sums of both.
//   - A record beside the database, written after each commit, has the number of the newest commit.
//
// [Open] checks all of this before it changes anything, and reads check what they read. Any
// mismatch is a [store.Fault] that describes it.
//
// The directory contains parley.db with its -wal and -shm files, a record named head, and a file
// named lock. Only one process can open it at a time; SQLite shells can read it concurrently.
package sqlite
