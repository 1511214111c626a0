// Command bench measures parley beside other JSON-RPC libraries, in one process and in turns.
//
// Every library does the same work: a small typed call, an echo of a raw JSON document, a batch of 100 small calls, over the
// same carriers. What a carrier costs without JSON-RPC is measured too, with the same bytes: that is the limit.
// A round runs each entry once, each round begins with another entry, and what counts are the medians of the rounds and the
// ratios within them: the figures of a machine that is busy move together.
//
//	go run .                     all scenarios, a few minutes
//	go run . -quick -only unix   a first look
//	go run . -full               more and longer rounds, and how cost grows
//	go run . -check              compare with the ratios in baseline.json
//
// To add a library, write one file with a function that returns its entries, and name it in libraries.
package main
