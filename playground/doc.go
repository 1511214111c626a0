// Package playground is a web page that sends any message to any server and shows all traffic.
//
// A [Playground] is an http.Handler. It serves the page, which is embedded, and the JSON-RPC
// endpoint that the page calls. The targets are servers at an address, and programs that are
// started on demand. Messages are sent byte for byte as written, below every protocol's client.
// Package capture records them and all that is received. Requests from a server wait for a person
// to answer.
//
//	demo := playground.Target{Name: "@demo", Address: "http://127.0.0.1:3000/rpc"}
//	p, err := playground.New(&playground.Options{Targets: []playground.Target{demo}})
//	defer p.Close()
//	server := &http.Server{Handler: p}
//
// Because the page can start programs, its access is restricted: every request must have the Host
// of this machine and no foreign Origin, and every call needs a token of 256 bits that is created
// at the start. It starts only the programs of the list that it was given.
package playground
