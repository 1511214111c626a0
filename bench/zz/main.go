package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

func main() {
	const n = 3000
	dir, _ := os.MkdirTemp("", "z")
	l, _ := net.Listen("unix", dir+"/s")
	var keep []any
	var conns []net.Conn
	for range n {
		c, err := net.Dial("unix", dir+"/s")
		if err != nil { panic(err) }
		s, _ := l.Accept()
		keep = append(keep, c)
		conns = append(conns, s)
	}
	m := new(jsonrpc.Mux)
	measure := func(what string, f func(i int)) {
		runtime.GC(); runtime.GC()
		var a, b runtime.MemStats
		runtime.ReadMemStats(&a)
		for i := range n { f(i) }
		time.Sleep(300*time.Millisecond)
		runtime.ReadMemStats(&b)
		s0 := (b.StackInuse-a.StackInuse)/n
		runtime.GC(); runtime.GC()
		runtime.ReadMemStats(&b)
		fmt.Println(what, "heap", (b.HeapAlloc-a.HeapAlloc)/n, "stack before gc", s0, "stack", (b.StackInuse-a.StackInuse)/n, "objects", (b.HeapObjects-a.HeapObjects)/n)
	}
	ts := make([]*stream.Transport, n)
	cs := make([]*jsonrpc.Conn, n)
	switch os.Args[1] {
	case "conn":
		measure("transport", func(i int) { ts[i] = stream.New(conns[i], stream.Line, nil) })
		measure("conn", func(i int) { cs[i] = jsonrpc.NewConn(ts[i]); cs[i].Handler, cs[i].Mode = m, m.Mode; cs[i].Cancellation = jsonrpc.CancelRequest })
		measure("serve", func(i int) { go cs[i].Serve(context.Background()) })
	case "bare":
		measure("bare", func(i int) { go func() { b := make([]byte, 1); conns[i].Read(b) }() })
	case "tread":
		measure("transport", func(i int) { ts[i] = stream.New(conns[i], stream.Line, nil) })
		measure("read", func(i int) { go func() { ts[i].Read() }() })
	}
	fmt.Println(unsafe.Sizeof(jsonrpc.Conn{}), unsafe.Sizeof(stream.Transport{}))
	runtime.KeepAlive(keep)
}
