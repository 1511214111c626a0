// Package storetest is the contract of [store.Store] as a test that every driver passes.
//
// A new driver starts with one test:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, l store.Limits) store.Store { … }, nil)
//	}
//
// Each rule gets a fresh store and closes it. Rules run in a bubble of [testing/synctest], where time takes none; a driver that
// talks to another process sets [Options.RealTime]. A driver that survives its process fills in [Options.Reopen].
package storetest
