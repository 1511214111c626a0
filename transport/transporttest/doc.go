// Package transporttest tests the contract of [jsonrpc.Transport]. Every duplex transport passes
// it.
//
// A new transport starts with one test:
//
//	func TestContract(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) { … }, nil)
//	}
//
// [Run] gets two connected ends for each rule and closes them. A transport on top of a byte stream
// also sets [Options.Over]: then the rules about single bytes run too, on a [Tape], which counts
// every read and every write.
package transporttest
