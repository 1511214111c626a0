// Command bare does the same as client with precomputed bytes: the minimum for a program with a TCP
// connection.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
)

func main() {
	conn, err := net.Dial("tcp", os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}`)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	fmt.Println(answer, err)
	_, _ = os.Stdin.Read(make([]byte, 1)) // idle while it is measured
}
