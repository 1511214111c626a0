package main

func Example() {
	main()
	// Output:
	// progress 50 %
	// progress 100 %
	// the server asks: sign it?
	// report of may, signed by Ada
}
