// Package sqlite is a [store.Store] in one folder: what it acknowledged is there after a crash, or it says what is missing.
//
// A write returns when a commit with it is synced to the disk (SQLite with a write-ahead log and synchronous=FULL). Writes that
// come while a commit is under way share the next one, so that many writers cost little more than one.
//
// SQLite alone does not notice every fault of a disk: a flipped byte in a row is a different row, and one in the write-ahead log
// silently ends the log there. Therefore every event carries a hash over itself and the one before it, every value a hash, the
// database sums over both, and a record beside the database, written after each commit, the number of the newest commit. [Open]
// checks all of it before it changes anything, reads check what they read, and what does not fit is a [store.Fault] that names
// it.
//
// The folder holds parley.db with its -wal and -shm, a record named head, and a file named lock. One process has it open at a
// time; any SQLite shell may read along.
package sqlite
