package main

func Example() {
	main()
	// Output:
	// sum: 7
	// subtract: 19
	// nope: Method not found (-32601)
}
