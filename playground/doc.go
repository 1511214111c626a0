// Package playground is the page on which anything can be sent to any server, and everything on the wire is seen.
//
// A [Playground] is an http.Handler: it serves the page, which is embedded, and a JSON-RPC endpoint that the page speaks to. Behind
// it stand the targets: servers at an address, and programs that are started when they are needed. What is sent goes out byte for
// byte as it was written, below every protocol's client, and is recorded with all that comes back by package capture. What a
// server asks is held for a person to answer.
//
//	p, err := playground.New(&playground.Options{Targets: []playground.Target{{Name: "@demo", Address: "http://127.0.0.1:3000/rpc"}}})
//	defer p.Close()
//	server := &http.Server{Handler: p}
//
// The page can do much, so it is closed to everybody else: every request has the Host of this machine and no foreign Origin, every
// call a token of 256 bits that is made at the start. It starts programs of the list that it was given and no others.
package playground
