package main

func Example() {
	main()
	// Output:
	// POST /api/rpc: {"jsonrpc":"2.0","result":8,"id":1}
	// GET /about: a calculator
}
