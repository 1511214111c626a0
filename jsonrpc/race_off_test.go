//go:build !race

package jsonrpc_test

const underRace = false
