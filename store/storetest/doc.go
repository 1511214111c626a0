// Package storetest tests that a driver conforms to the contract of [store.Store].
//
// A new driver starts with one test:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, l store.Limits) store.Store { … }, nil)
//	}
//
// Each rule gets a new store and closes it. Rules run in a bubble of [testing/synctest], where
// waiting takes no real time; a driver that talks to another process must set [Options.RealTime]. A
// driver whose data survives its process must set [Options.Reopen].
package storetest
