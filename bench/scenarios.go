package main

// scenarios returns all measurements, in the order of the report.
func scenarios() []Scenario {
	all := []Scenario{{Transport: Dispatch, Work: smallCall, Callers: 1}, {Transport: Feed, Work: feedWork, Callers: 1}}
	for _, c := range []Transport{Memory, Pipe, Unix, TCP, HTTPServer, HTTP, WebSocket} {
		for _, callers := range []int{1, 50} {
			all = append(all, Scenario{Transport: c, Work: smallCall, Callers: callers})
		}
	}
	all = append(all,
		Scenario{Transport: UnixAlone, Work: smallCall, Callers: 1},
		Scenario{Transport: Unix, Work: batchWork, Callers: 1},
		Scenario{Transport: HTTPServer, Work: batchWork, Callers: 1},
	)
	for _, size := range []bytesOf{1 << 10, 64 << 10, 1 << 20} {
		all = append(all, Scenario{Transport: Unix, Work: echoWork(size), Callers: 1})
	}
	for _, c := range mcpTransports {
		for _, callers := range []int{1, 50} {
			all = append(all, Scenario{Transport: c, Work: smallCall, Callers: callers})
		}
	}
	return append(all, growth()...)
}

// growth returns scenarios that show how the cost grows with the size of a message, the callers on
// a connection, and the connections.
func growth() []Scenario {
	var all []Scenario
	// A server accepts 4 MiB by default, but not with more than 500,000 values and names in it.
	for _, size := range []bytesOf{1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 3_000_000} {
		all = append(all, Scenario{Transport: Unix, Work: echoWork(size), Callers: 1, Growth: true})
	}
	for _, callers := range []int{1, 3, 10, 30, 100, 300, 1000} {
		all = append(all, Scenario{Transport: Unix, Work: smallCall, Callers: callers, Growth: true})
	}
	for _, conns := range []int{1, 10, 100, 1000} {
		all = append(all, Scenario{Transport: Unix, Work: smallCall, Callers: max(50, conns), Conns: conns, Growth: true})
	}
	// The next step would exceed the number of file descriptors.
	return append(all, Scenario{Transport: Pipe, Work: smallCall, Callers: 10_000, Conns: 10_000, Growth: true})
}

// inGrowth are the entries whose growth is shown.
var inGrowth = map[string]bool{"raw": true, "parley": true, "parley quick": true, "go.lsp.dev": true}

// libraries returns all entries, in the order of the report.
func libraries() []Entry {
	var all []Entry
	for _, entries := range []func() []Entry{raw, ours, captured, goLSP, creachadair, goEthereum, sourcegraphRPC, xExp, gorilla, mcpGo, goSDK} {
		all = append(all, entries()...)
	}
	return all
}
