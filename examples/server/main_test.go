package main

import (
	"fmt"
	"os"
)

func Example() {
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(w, `{"jsonrpc":"2.0","id":1,"method":"greet","params":["Ada"]}`)
	fmt.Fprintln(w, `{"jsonrpc":"2.0","id":2,"method":"greet","params":{"name":"Grace"}}`)
	_ = w.Close() // the end of the input stops the server
	os.Stdin, os.Args = r, []string{"server", "stdio:"}
	main()
	// Unordered output:
	// {"jsonrpc":"2.0","result":"hello Ada","id":1}
	// {"jsonrpc":"2.0","result":"hello Grace","id":2}
}
