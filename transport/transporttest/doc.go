// Package transporttest is the contract of [jsonrpc.Transport] as a test that every duplex transport passes.
//
// A new transport starts with one test:
//
//	func TestContract(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) { … }, nil)
//	}
//
// [Run] gets two connected ends for each rule and closes them. A transport that stands on a byte stream also
// fills in [Options.Over]: then the rules about single bytes run too, on a [Tape], where every read and every
// write can be counted.
package transporttest
