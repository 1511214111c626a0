//go:build !race

package websocket

const poison = false
