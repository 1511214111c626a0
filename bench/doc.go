// Command bench compares parley with other JSON-RPC libraries, in one process and in turns.
//
// Every library does the same work over the same transports: a small typed call, an echo of a raw
// JSON document, a batch of 100 small calls. The cost of a transport without JSON-RPC is measured,
// too, with the same bytes: it is the limit. A round runs each entry once, and each round starts
// with a different entry. The results are the medians of the rounds and the ratios within them,
// because a busy machine affects all figures of a round.
//
//	go run .                     all scenarios, a few minutes
//	go run . -quick -only unix   a first look
//	go run . -full               more and longer rounds, and how cost grows
//	go run . -check              compare with the ratios in baseline.json
//
// To add a library, write one file with a function that returns its entries, and add it to
// libraries.
package main
